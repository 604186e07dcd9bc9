"""Which verdicts page, and until when."""

from __future__ import annotations

from collections.abc import Sequence

from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.alert.page_alert import DETAIL_MAX, PageAlert, PageKey, as_alert
from collector.sinks.alert.pager import (
    FIRING_MAX,
    MINUTE,
    REPEATED_AT_ONCE,
    SECOND,
    Pager,
    PageRules,
)
from collector.sinks.printable_text import printable
from monitor.aggregate.totals import SessionFinished
from monitor.records import Kind, Obstacle, Reason, SessionKey, Verdict
from monitor.scores.score_records import FinalScores


def verdict(
    number: int = 1,
    reason: Reason | None = Reason.OUT_OF_ORDER,
    session: str = "s",
    mode: str = "page",
    revised_from: Kind | None = None,
    severity: str = "critical",
    tool: str = "water",
) -> Verdict:
    return Verdict(
        session=SessionKey("farm", session),
        agent="rover",
        spec="farm_rover",
        spec_version="1",
        mode=mode,
        kind=Kind.HARMFUL if reason else Kind.PROGRESS,
        reason=reason,
        severity=severity if reason else "info",
        step=number,
        tool=tool,
        symbol="water",
        skipped=("open_valve",),
        allowed=("scan", "open_valve"),
        state_before="scanned",
        state="scanned",
        final=False,
        revised_from=revised_from,
        trace_id=b"t" * 16,
        span_id=number.to_bytes(8, "big"),
    )


class Told:
    """A pager, and the alerts it sent."""

    def __init__(self, rules: PageRules | None = None) -> None:
        self.news: list[tuple[str, bool, int]] = []
        self.repeated: list[int] = []
        self.pager = Pager(rules or PageRules(), self._tell)

    def _tell(self, pages: Sequence[PageAlert], now: int, news: bool) -> None:
        if news:
            self.news += [(page.key.reason, bool(page.ended_ns), now) for page in pages]
        else:
            self.repeated.append(len(pages))


def test_certain_reasons_page_at_once() -> None:
    """No call that arrives later can make an unknown tool known."""
    for reason in (Reason.UNKNOWN_TOOL, Reason.ARGUMENT_MISMATCH, Reason.FORBIDDEN):
        told = Told()
        told.pager.consider([verdict(reason=reason)], 5)
        assert told.news == [(reason.value, False, 5)]


def test_the_rest_waits_to_settle() -> None:
    """Out of order pages when half a second has passed, not before."""
    told = Told()
    told.pager.consider([verdict()], 0)
    told.pager.tick(SECOND // 2 - 1)
    assert told.news == []

    told.pager.tick(SECOND // 2)

    assert told.news == [("out_of_order", False, SECOND // 2)]


def test_revised_within_settle_pages_nobody() -> None:
    """Harm that is revised within the settling time is counted and pages nobody."""
    told = Told()
    told.pager.consider([verdict()], 0)
    told.pager.consider([verdict(reason=None, revised_from=Kind.HARMFUL)], SECOND // 4)
    told.pager.tick(MINUTE)

    assert told.news == []
    assert told.pager.withheld["revised"] == 1


def test_a_revision_resolves_the_page() -> None:
    """A page on a call that turns out to be allowed is resolved."""
    told = Told()
    told.pager.consider([verdict()], 0)
    told.pager.tick(SECOND)
    told.pager.consider([verdict(reason=None, revised_from=Kind.HARMFUL)], 2 * SECOND)

    assert [ended for _, ended, _ in told.news] == [False, True]
    assert not told.pager.firing


def test_a_page_of_two_calls_outlives_one() -> None:
    """One session and reason is one page, as long as one of its calls is harmful."""
    told = Told()
    told.pager.consider([verdict(1), verdict(2)], 0)
    told.pager.tick(SECOND)
    told.pager.consider([verdict(1, None, revised_from=Kind.HARMFUL)], 2 * SECOND)
    assert len(told.news) == len(told.pager.firing) == 1
    assert told.pager.withheld["known"] == 1

    told.pager.consider([verdict(2, None, revised_from=Kind.HARMFUL)], 3 * SECOND)

    assert told.news[-1] == ("out_of_order", True, 3 * SECOND)


def test_another_reason_is_another_page() -> None:
    """A call that is harmful for another reason than thought leaves the one page for the other."""
    told = Told()
    told.pager.consider([verdict()], 0)
    told.pager.tick(SECOND)
    told.pager.consider(
        [verdict(reason=Reason.REPEATED, revised_from=Kind.HARMFUL)], 2 * SECOND
    )
    told.pager.tick(3 * SECOND)

    assert [(reason, ended) for reason, ended, _ in told.news] == [
        ("out_of_order", False),
        ("out_of_order", True),
        ("repeated", False),
    ]


def test_shadow_specs_page_nobody() -> None:
    """Only `mode: page` pages."""
    told = Told()
    told.pager.consider([verdict(mode="shadow", reason=Reason.FORBIDDEN)], 0)
    told.pager.tick(MINUTE)

    assert told.news == []


def test_the_end_of_the_session_resolves() -> None:
    """A page is resolved when its session ends."""
    told = Told()
    told.pager.consider([verdict(reason=Reason.FORBIDDEN)], 0)
    scores = FinalScores("accepted", 1, 1, 1.0, 0.0, None, None, None, None)
    event = SessionFinished(SessionKey("farm", "s"), "rover", "farm_rover", "1", "idle", scores)
    told.pager.ended([event], SECOND)

    assert told.news[-1] == ("forbidden", True, SECOND)


def test_a_firing_page_is_repeated_and_ends_in_silence() -> None:
    """A page is sent again each minute, and resolved after the quiet time."""
    told = Told(PageRules(quiet_ns=3 * MINUTE))
    told.pager.consider([verdict(reason=Reason.FORBIDDEN)], 0)
    for minute in range(5):
        told.pager.tick(minute * MINUTE)

    assert told.repeated == [1, 1]
    assert told.news[-1] == ("forbidden", True, 3 * MINUTE)


def test_many_pages_are_repeated_a_few_at_a_time() -> None:
    """Each page is sent again once in its period, spread over the ticks."""
    told = Told(PageRules(per_minute=10**9))
    many = 3 * REPEATED_AT_ONCE + 1
    told.pager.consider((verdict(n, Reason.FORBIDDEN, session=f"s{n}") for n in range(many)), 0)
    for tick in range(10):
        told.pager.tick(MINUTE + tick)

    assert told.repeated == [REPEATED_AT_ONCE] * 3 + [1]


def test_the_rate_is_limited() -> None:
    """A flood of sessions is some pages a minute, and a number."""
    told = Told(PageRules(per_minute=3))
    flood = [verdict(n, Reason.FORBIDDEN, session=f"s{n}") for n in range(10)]
    told.pager.consider(flood, 0)
    assert (len(told.news), told.pager.withheld["rate_limit"]) == (3, 7)

    told.pager.consider([verdict(99, Reason.FORBIDDEN, session="later")], MINUTE)

    assert (len(told.news), told.pager.withheld["rate_limit"]) == (6, 8)


def test_memory_is_bounded() -> None:
    """The bounds hold for any number of waiting and firing pages."""
    told = Told(PageRules(per_minute=10**9))
    told.pager.consider((verdict(n, session=f"s{n}") for n in range(FIRING_MAX + 10)), 0)
    told.pager.tick(SECOND)

    assert len(told.pager.firing) == FIRING_MAX
    assert told.pager.withheld["full"] == 10


def test_hostile_text_stays_on_its_line() -> None:
    """Line ends and escape sequences in an agent's names are sent escaped."""
    page = PageAlert(
        key=_key(),
        verdict=verdict(tool="wa\x1b[31mter\nSTATUS: fine" + "x" * 999, session="s\r\n\u202e"),
        since_ns=SECOND,
        last_ns=SECOND,
        delivered_ns=SECOND,
    )
    alert = as_alert(page, AlertLinks("http://t/{trace_id}", "http://s/{session}"), 9 * SECOND)

    texts = [*alert["labels"].values(), *alert["annotations"].values()]
    assert all(text.isprintable() and len(text) < 2_000 for text in texts)
    assert alert["labels"]["session"] == r"s\r\n\u202e"
    assert alert["annotations"]["session_url"] == "http://s/s%0D%0A%E2%80%AE"
    assert alert["generatorURL"] == "http://t/" + (b"t" * 16).hex()
    assert printable("\ud800") == r"\ud800"


def _key() -> PageKey:
    return PageKey(SessionKey("farm", "s"), "farm_rover", "out_of_order")


def test_a_page_says_all_that_is_needed() -> None:
    """The page has agent, session, call, reason, allowed calls, skipped calls and the start time."""
    told: list[PageAlert] = []
    pager = Pager(PageRules(), lambda pages, _now, _news: told.extend(pages))
    pager.consider([verdict(4)], 0)
    pager.tick(SECOND)
    links = AlertLinks(runbook="https://r/{alert}")
    alert = as_alert(told[0], links, 9 * SECOND)

    assert alert["labels"] == {
        "alertname": "AgentCriticalHarmfulCall",
        "agent": "rover",
        "spec": "farm_rover",
        "reason": "out_of_order",
        "severity": "critical",
        "session": "s",
        "namespace": "farm",
        "source": "monitor",
    }
    assert alert["annotations"]["description"] == (
        "Call 4 (water) of session s is harmful under farm_rover 1: out of order. "
        "State: scanned. Allowed here: scan, open_valve. Skipped: open_valve. "
        "Since 1970-01-01T00:00:00.000Z, 1 such call(s)."
    )
    assert alert["annotations"]["runbook_url"] == "https://r/AgentCriticalHarmfulCall"
    assert (alert["startsAt"], alert["endsAt"]) == (
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:09.000Z",
    )


def on_session(number: int = 1, *, withdrawn: bool = False) -> Verdict:
    """That the session can no longer finish since a call, or that it can."""
    found = verdict(number, revised_from=Kind.CANNOT_FINISH if withdrawn else None)
    return found._replace(
        kind=Kind.SELF_LOOP if withdrawn else Kind.CANNOT_FINISH,
        reason=None if withdrawn else Obstacle.DEADLINE,
        constraint="open -> water within 20 s",
        skipped=(),
    )


def test_a_verdict_on_a_session_is_a_page_of_its_own() -> None:
    """It settles and pages by itself. Its withdrawal leaves the page on the same call alone."""
    told = Told()
    told.pager.consider([verdict(), on_session()], 0)
    told.pager.tick(SECOND)
    assert told.news == [("out_of_order", False, SECOND), ("deadline", False, SECOND)]

    told.pager.consider([on_session(withdrawn=True)], 2 * SECOND)

    assert told.news[2:] == [("deadline", True, 2 * SECOND)]
    assert [key.reason for key in told.pager.firing] == ["out_of_order"]


def test_a_page_on_a_session_says_what_it_came_to() -> None:
    """Its alert has its own name and shows the limit that was exceeded."""
    found: list[PageAlert] = []
    pager = Pager(PageRules(), lambda pages, _now, _news: found.extend(pages))
    pager.consider([on_session(4)], 0)
    pager.tick(SECOND)
    alert = as_alert(found[0], AlertLinks(), 9 * SECOND)

    assert alert["labels"]["alertname"] == "AgentSessionStuck"
    assert alert["annotations"]["summary"] == "rover session can no longer finish: deadline."
    assert alert["annotations"]["description"].startswith(
        "The session s can no longer finish: deadline under farm_rover 1, since call 4 (water). "
        "State: scanned. Allowed here: scan, open_valve. Limit: open -> water within 20 s. "
    )


def test_a_page_says_why_in_a_sentence() -> None:
    """It stands behind the reason and as an annotation, with hostile values escaped and cut."""
    why = '`amount` ("9\n") is not "5"; the nearest symbol is `pay`'
    news = verdict(reason=Reason.ARGUMENT_MISMATCH)._replace(detail=why)
    page = PageAlert(PageKey(news.session, "s", "argument_mismatch"), news, 0, 0, 0)
    annotations = as_alert(page, AlertLinks(), SECOND)["annotations"]

    escaped = '`amount` ("9\\n") is not "5"; the nearest symbol is `pay`'
    assert annotations["detail"] == escaped
    assert (
        f"is harmful under farm_rover 1: argument mismatch: {escaped}. "
        in (annotations["description"])
    )
    assert annotations["summary"] == "rover called water: argument mismatch."
    long = as_alert(
        PageAlert(page.key, news._replace(detail="x" * 9_999), 0, 0, 0), AlertLinks(), SECOND
    )
    assert len(long["annotations"]["detail"]) == DETAIL_MAX
    stuck = on_session()._replace(detail="`b` did not follow `a`")
    page = PageAlert(PageKey(stuck.session, "s", "deadline"), stuck, 0, 0, 0)
    description = as_alert(page, AlertLinks(), SECOND)["annotations"]["description"]
    assert ", since call 1 (water): `b` did not follow `a`. " in description


def test_what_is_rated_info_pages_nobody() -> None:
    """Harm of severity info is shown and counted, and pages nobody."""
    told = Told()
    for reason in (Reason.UNKNOWN_TOOL, Reason.OUT_OF_ORDER):
        told.pager.consider([verdict(reason=reason, severity="info")], 0)
    told.pager.tick(MINUTE)
    assert told.news == []
