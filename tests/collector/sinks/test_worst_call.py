"""A session's page shows its worst harm, and a page that waited for room is sent later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.alert.page_alert import PageAlert, as_alert, rank
from collector.sinks.alert.pager import (
    CALLS_MAX,
    MINUTE,
    RELEASED_AT_ONCE,
    SECOND,
    WAITING_MAX,
    Pager,
    PageRules,
)
from monitor.aggregate.totals import SessionFinished
from monitor.records import Kind, Reason, SessionKey, Verdict
from monitor.scores.score_records import FinalScores
from tests.written import written


def verdict(
    number: int = 1,
    severity: str = "critical",
    session: str = "s",
    namespace: str = "farm",
    reason: Reason = Reason.FORBIDDEN,
    agent: str = "rover",
) -> Verdict:
    """A harmful call; by default one that pages at once."""
    return Verdict(
        session=SessionKey(namespace, session),
        agent=agent,
        spec="farm_rover",
        spec_version="1",
        mode="page",
        kind=Kind.HARMFUL,
        reason=reason,
        severity=severity,
        step=number,
        tool={"critical": "pay", "warning": "log"}.get(severity, "other"),
        symbol=None,
        skipped=(),
        allowed=(),
        state_before=None,
        state=None,
        final=False,
        revised_from=None,
        trace_id=b"t" * 16,
        span_id=b"call" + number.to_bytes(4, "big"),
    )


def right(number: int = 1, session: str = "s", namespace: str = "farm") -> Verdict:
    """The call was not harmful after all."""
    found = verdict(number, "info", session, namespace)
    return found._replace(kind=Kind.PROGRESS, reason=None, revised_from=Kind.HARMFUL)


def over(session: str = "s", namespace: str = "farm") -> SessionFinished:
    scores = FinalScores("accepted", 1, 1, 1.0, 0.0, None, None, None, None)
    key = SessionKey(namespace, session)
    return SessionFinished(key, "rover", "farm_rover", "1", "idle", scores)


class Told:
    """A pager, the alerts it sent, and the alerts a receiver keeps by their labels."""

    def __init__(self, rules: PageRules | None = None) -> None:
        self.news: list[tuple[str, str]] = []
        self.alerts: dict[str, dict[str, Any]] = {}
        self.pager = Pager(rules or PageRules(), self._tell)

    def _tell(self, pages: Sequence[PageAlert], now: int, news: bool) -> None:
        for page in pages:
            alert = as_alert(page, AlertLinks(), now + MINUTE)
            labels = alert["labels"]
            if page.ended_ns:
                del self.alerts[str(labels)]
            else:
                self.alerts[str(labels)] = labels | {"tool": alert["annotations"]["tool"]}
            if news:
                end = "ended " if page.ended_ns else ""
                self.news.append((page.key.session.id, end + labels["severity"]))

    @property
    def severities(self) -> list[str]:
        return [labels["severity"] for labels in self.alerts.values()]

    @property
    def rooms(self) -> list[int]:
        """The used part of each quota, beside the number of pages that use it."""
        pager = self.pager
        return [
            len(pager.firing_quota),
            len(pager.firing),
            len(pager.waiting_quota),
            len(pager.waiting),
        ]


def test_a_worse_call_replaces_the_page() -> None:
    """A cheap harm first hides no critical one: its alert ends, and the critical one fires."""
    told = Told()
    for number, severity in enumerate(("warning", "critical", "critical", "warning")):
        found = verdict(number, severity, reason=Reason.OUT_OF_ORDER)
        told.pager.consider([found], number * SECOND)
        told.pager.tick(number * SECOND + SECOND // 2)

    assert told.news == [("s", "warning"), ("s", "ended warning"), ("s", "critical")]
    (alert,) = told.alerts.values()
    assert (alert["alertname"], alert["tool"]) == ("AgentCriticalHarmfulCall", "pay")
    assert told.pager.withheld["known"] == 2
    assert [page.count for page in told.pager.firing.values()] == [4]


def test_a_revision_leaves_the_page_of_the_worst_remaining_call() -> None:
    """Without its critical calls the page is a lesser one's, and without those it is over."""
    told = Told()
    told.pager.consider([verdict(1, "warning"), verdict(2), verdict(3)], 1)
    told.pager.consider([right(2)], 2)
    assert told.severities == ["critical"]
    told.pager.consider([right(3)], 3)
    assert told.severities == ["warning"]
    told.pager.consider([right(1)], 4)

    assert told.alerts == {}
    assert [what for _, what in told.news] == [
        "warning",
        "ended warning",
        "critical",
        "ended critical",
        "warning",
        "ended warning",
    ]
    assert told.rooms == [0, 0, 0, 0]


def test_a_call_may_become_worse() -> None:
    """A call whose severity changes, up or down, is paged with the new severity."""
    told = Told()
    for now, severity in enumerate(("warning", "critical", "critical", "warning"), 1):
        told.pager.consider([verdict(1, severity)], now)
        assert told.severities == [severity]

    assert [page.count for page in told.pager.firing.values()] == [1]


def test_another_name_of_the_agent_is_no_other_alert() -> None:
    """Labels keep the first name, or receivers would keep an alert that never ends."""
    told = Told()
    told.pager.consider([verdict(1), verdict(2, agent="late")], 0)
    told.pager.consider([right(1)], 1)

    assert [labels["agent"] for labels in told.alerts.values()] == ["rover"]
    told.pager.ended([over()], 2)
    assert told.alerts == {}


def test_the_end_of_a_session_resolves_the_alert_that_was_sent() -> None:
    """The alert that was sent is resolved, whether or not a worse one waits."""
    for per_minute in (1, 60):
        told = Told(PageRules(per_minute=per_minute))
        told.pager.consider([verdict(1, "warning"), verdict(2)], 1)
        told.pager.ended([over()], 2)

        assert told.alerts == {}
        assert told.rooms == [0, 0, 0, 0]
        told.pager.tick(2 * MINUTE)
        assert told.alerts == {}


def test_a_call_of_another_tenant_is_another_call() -> None:
    """A span with another tenant's ids neither hides nor withdraws that tenant's page."""
    told = Told()
    told.pager.consider([verdict(1, namespace="a"), verdict(1, namespace="b")], 1)
    told.pager.consider([verdict(2, namespace=n, reason=Reason.OUT_OF_ORDER) for n in "ab"], 1)
    told.pager.tick(SECOND)
    assert [labels["namespace"] for labels in told.alerts.values()] == ["a", "b"] * 2

    told.pager.consider([right(1, namespace="b"), right(2, namespace="b")], 2 * SECOND)

    assert [labels["namespace"] for labels in told.alerts.values()] == ["a", "a"]


def test_a_call_that_is_another_sessions_is_in_its_page() -> None:
    """Where its session is learnt later the page is the right one's, and the other is over."""
    told = Told()
    told.pager.consider([verdict(1, session="trace"), verdict(1, session="named")], 1)

    assert [labels["session"] for labels in told.alerts.values()] == ["named"]


def test_many_lesser_calls_hide_no_critical_one() -> None:
    """Beyond the bound, the worst calls are kept, and nothing is withdrawn by a guess."""
    told = Told()
    told.pager.consider((verdict(n, "warning") for n in range(2 * CALLS_MAX)), 0)
    told.pager.consider([verdict(999)], 1)
    assert told.severities == ["critical"]
    told.pager.consider([right(999)], 2)
    assert told.severities == ["warning"]

    told.pager.consider((verdict(1_000 + n) for n in range(2 * CALLS_MAX)), 3)
    told.pager.consider((right(1_000 + n) for n in range(CALLS_MAX)), 4)
    told.pager.consider([verdict(1, "warning"), verdict(2, "warning"), right(1)], 5)

    assert told.severities == ["critical"]
    kept = written(told.pager)
    spans = {verdict(number).span_id for number in (*range(2 * CALLS_MAX), *range(999, 1_200))}
    assert 0 < sum(each in kept for each in spans) <= CALLS_MAX


def test_waiting_pages_are_sent_worst_first() -> None:
    """Waiting pages are sent once, the worst first, then the oldest."""
    told = Told(PageRules(per_minute=2))
    told.pager.consider([verdict(n, session=f"c{n}") for n in range(3)], 0)
    told.pager.consider([verdict(9, "warning", session="w")], 1)
    told.pager.consider([verdict(3, session="c3")], 2)
    assert told.pager.withheld["rate_limit"] == len(told.pager.waiting) == 3

    for minute in range(1, 6):
        told.pager.tick(minute * MINUTE)

    assert [session for session, _ in told.news] == ["c0", "c1", "c2", "c3", "w"]
    assert told.rooms == [5, 5, 0, 0]


def test_waiting_pages_are_spread_over_the_ticks() -> None:
    """Waiting pages are spread over the ticks, and none waits another minute."""
    many = 3 * RELEASED_AT_ONCE
    told = Told(PageRules(per_minute=many))
    told.pager.consider((verdict(n, session=f"s{n}") for n in range(2 * many - 1)), 0)
    seen = []
    for tick in range(5):
        told.pager.tick(MINUTE + tick)
        seen.append(len(told.news) - many)

    assert seen == [RELEASED_AT_ONCE, 2 * RELEASED_AT_ONCE, many - 1, many - 1, many - 1]


def test_a_waiting_page_that_no_longer_holds_is_dropped() -> None:
    """A waiting page is dropped if it is withdrawn, its session ends, or it is quiet for long."""
    told = Told(PageRules(per_minute=1, quiet_ns=MINUTE))
    told.pager.consider([verdict(n, session=f"s{n}") for n in range(4)], 0)
    told.pager.consider([right(1, "s1")], 1)
    told.pager.ended([over("s2")], 2)
    told.pager.tick(MINUTE)

    assert told.news == [("s0", "critical"), ("s0", "ended critical")]
    kept = written(told.pager)
    assert not any(verdict(n).span_id in kept for n in range(4))
    assert told.rooms == [0, 0, 0, 0]


def test_lesser_pages_do_not_use_up_the_minute() -> None:
    """Warnings of other sessions leave room for critical pages and for pages that become critical."""
    told = Told(PageRules(per_minute=8))
    told.pager.consider([verdict(n, "warning", session=f"w{n}") for n in range(100)], 0)
    assert told.severities == ["warning"] * 6
    told.pager.consider([verdict(200), verdict(201, session="w0")], 1)

    assert told.news[6:] == [
        ("s", "critical"),
        ("w0", "ended warning"),
        ("w0", "critical"),
    ]


def test_a_waiting_page_that_becomes_critical_is_sent_at_once() -> None:
    """It is sent at once if there is room for critical pages."""
    told = Told(PageRules(per_minute=2))
    told.pager.consider([verdict(n, "warning", session=f"w{n}") for n in (1, 2)], 0)
    told.pager.consider([verdict(3, session="w2")], 1)

    assert told.news == [("w1", "warning"), ("w2", "critical")]
    assert told.rooms == [2, 2, 0, 0]


def test_a_worse_page_waits_for_room() -> None:
    """Until there is room, the old alert stays; then it ends."""
    told = Told(PageRules(per_minute=1))
    told.pager.consider([verdict(1, "warning"), verdict(2)], 0)
    assert told.severities == ["warning"]
    told.pager.tick(MINUTE)
    assert told.severities == ["critical"]
    assert told.rooms == [1, 1, 0, 0]

    told = Told(PageRules(per_minute=1))
    told.pager.consider([verdict(1, "warning"), verdict(2), right(2)], 0)
    told.pager.tick(MINUTE)
    assert told.news == [("s", "warning")]
    assert told.rooms == [1, 1, 0, 0]


def test_one_tenant_leaves_room_to_others() -> None:
    """A flood of one namespace does not keep another one's page waiting."""
    told = Told(PageRules(per_minute=8))
    told.pager.consider([verdict(1, session="a", namespace="a")], 0)
    told.pager.consider([verdict(2, session="b", namespace="b")], 0)
    flood = [verdict(n, session=f"f{n}", namespace="a") for n in range(10, 90)]
    told.pager.consider(flood, MINUTE)
    told.pager.consider([verdict(3, session="c", namespace="b")], MINUTE + 1)

    assert told.news[-1] == ("c", "critical")
    assert len(told.news) == 2 + 6 + 1


def test_waiting_pages_are_bounded() -> None:
    """Beyond the bound, pages are withheld and counted. Critical pages still have their share."""
    told = Told(PageRules(per_minute=1))
    told.pager.consider(
        (verdict(n, "warning", session=f"w{n}") for n in range(2 * WAITING_MAX)), 0
    )
    told.pager.consider([verdict(9_999, session="c")], 1)
    many = WAITING_MAX * 3 // 4

    assert len(told.pager.waiting) == many + 1
    assert told.pager.withheld["full"] == 2 * WAITING_MAX - 1 - many
    told.pager.tick(MINUTE)
    assert told.news[-1] == ("c", "critical")


Step = tuple[str, int, str]
"""What happens (harm, late, right, end, wait), to which call, and how bad it is."""

steps = st.tuples(
    st.sampled_from(["harm", "harm", "late", "right", "end", "wait"]),
    st.integers(0, 11),
    st.sampled_from(["warning", "critical", "info"]),
)
"""Of three sessions of two tenants, four calls each."""


class Naive:
    """The expected state: the calls of each session and reason, and their severities."""

    def __init__(self) -> None:
        self.calls: dict[int, tuple[Reason, str]] = {}

    def take(self, call: int, reason: Reason | None, severity: str) -> None:
        self.calls.pop(call, None)
        if reason is not None and severity != "info":
            self.calls[call] = reason, severity

    def end(self, session: int) -> None:
        self.calls = {call: found for call, found in self.calls.items() if call % 3 != session}

    @property
    def worst(self) -> dict[tuple[str, str], str]:
        """By session and reason."""
        found: dict[tuple[str, str], str] = {}
        for call, (reason, severity) in self.calls.items():
            key = f"s{call % 3}", reason.value
            if found.get(key) != "critical":
                found[key] = severity
        return found


@given(st.lists(steps, max_size=40), st.sampled_from([1, 2, 3, 60]))
def test_a_page_is_of_the_worst_harm_that_holds(happened: list[Step], per_minute: int) -> None:
    """In whatever order calls come, are rated anew and are taken back, and however few pages a
    minute has room for: when it has had room for all, receivers have exactly the worst of each.
    """
    told, naive, now = (
        Told(PageRules(per_minute=per_minute, quiet_ns=1_000 * MINUTE)),
        Naive(),
        0,
    )
    for what, call, severity in happened:
        now += SECOND
        session, namespace = f"s{call % 3}", "ab"[call % 3 % 2]
        reason = Reason.FORBIDDEN if what == "harm" else Reason.OUT_OF_ORDER
        if what in ("harm", "late"):
            told.pager.consider([verdict(call, severity, session, namespace, reason)], now)
            naive.take(call, reason, severity)
        elif what == "right":
            told.pager.consider([right(call, session, namespace)], now)
            naive.take(call, None, "info")
        elif what == "end":
            told.pager.ended([over(session, namespace)], now)
            naive.end(call % 3)
        told.pager.tick(now + SECOND // 2)
    for _ in range(30):
        now += MINUTE
        told.pager.tick(now)

    found = {(a["session"], a["reason"]): a["severity"] for a in told.alerts.values()}
    assert found == naive.worst
    assert len(told.alerts) == len(found)
    fires, firing, waits, waiting = told.rooms
    assert (fires, waits, waiting) == (firing, 0, 0)
    assert (len(told.pager.settling_quota), told.pager.due_ns) == (0, None)
    assert all(rank(page.verdict) == rank(page.worst()) for page in told.pager.firing.values())
