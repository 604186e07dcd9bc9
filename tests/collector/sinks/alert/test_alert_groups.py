"""All that one agent does wrong under one spec is one alert, updated."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.sinks.alert.alert_groups import (
    QUIET_MAX,
    TRAITS_MAX,
    AlertGroup,
    AlertGroups,
    as_group_alert,
)
from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.alert.pager import MINUTE, SECOND, Pager, PageRules
from monitor.aggregate.totals import SessionFinished
from monitor.records import Kind, Reason, SessionKey, Verdict
from monitor.scores.score_records import FinalScores
from tests.collector.sinks.alert.test_pager import verdict

RESOLVE = 35 * MINUTE
LINKS = AlertLinks(
    session="http://s/{session}",
    runbook="http://r/{alert}",
    dashboard="http://d/?agent={agent}&spec={spec}",
)


class World:
    """A pager with groups, and what they delivered."""

    def __init__(self, rules: PageRules | None = None, *, namespaced: bool = True) -> None:
        self.posts: list[dict[str, Any]] = []
        """All that Alertmanager got."""
        self.news: list[tuple[str, bool, int]] = []
        """What is a message: name, whether it is resolved, and when."""
        self.groups = AlertGroups(self._deliver, MINUTE, RESOLVE, namespaced=namespaced)
        self.pager = Pager(rules or PageRules(), self.groups.take, self.groups.has)

    def _deliver(self, group: AlertGroup, now: int, news: bool) -> None:
        self.posts.append(
            as_group_alert(group, LINKS, now + RESOLVE, {"instance": "m:9464", "cluster": "c"})
        )
        if news:
            self.news.append((group.key.alertname, bool(group.ended_ns), now))

    def tick(self, now: int) -> None:
        self.pager.tick(now)
        self.groups.tick(now)

    def end(self, session: str, now: int) -> None:
        scores = FinalScores("accepted", 1, 1, 1.0, 0.0, None, None, None, None)
        key = SessionKey("farm", session)
        self.pager.ended(
            [SessionFinished(key, "rover", "farm_rover", "1", "idle", scores)], now
        )


def harm(number: int, session: str, severity: str = "critical") -> Verdict:
    return verdict(number, Reason.FORBIDDEN, session=session, severity=severity)


def test_an_agent_that_is_bad_for_eight_minutes_is_two_messages() -> None:
    """A bad session every 10 s gives one alert with rising counts, told at the first call and at ten, which ends once."""
    world = World()
    for second in range(8 * 60):
        now = second * SECOND
        if second % 10 == 0:
            world.pager.consider(
                [harm(second, f"s{second}"), harm(second + 1, f"s{second}")], now
            )
        if second % 10 == 9:
            world.end(f"s{second - 9}", now)
        world.tick(now)
    assert world.news == [
        ("AgentCriticalHarmfulCall", False, 0),
        ("AgentCriticalHarmfulCall", False, MINUTE),
    ]
    last = world.posts[-1]["annotations"]
    assert (last["calls"], last["sessions"], last["reasons"]) == ("86", "43", "forbidden 86")
    for minute in range(8, 60):
        world.tick(minute * MINUTE)

    _, _, (_, ended, at) = world.news
    assert ended
    assert RESOLVE <= at - 470 * SECOND <= RESOLVE + MINUTE
    assert len({str(post["labels"]) for post in world.posts}) == 1
    assert world.posts[-1]["annotations"]["sessions"] == "48"
    assert not world.groups.groups


def test_the_alert_says_what_the_worst_session_did() -> None:
    """Its labels are those of the rules. Counts, reasons and the worst session are annotations."""
    world = World()
    world.pager.consider([harm(1, "mild")], SECOND)
    world.pager.consider([harm(n, "worst") for n in range(2, 5)], 2 * SECOND)
    world.pager.consider([verdict(9, Reason.UNKNOWN_TOOL, session="mild")], 2 * SECOND)
    world.tick(3 * MINUTE)
    alert = world.posts[-1]

    assert alert["labels"] == {
        "alertname": "AgentCriticalHarmfulCall",
        "agent": "rover",
        "spec": "farm_rover",
        "namespace": "farm",
        "severity": "critical",
        "source": "monitor",
        "instance": "m:9464",
        "cluster": "c",
    }
    told = alert["annotations"]
    assert told["summary"] == (
        "rover called water: forbidden. New: unknown tool in session mild. 5 such calls in 2 sessions."
    )
    assert told["description"].endswith(
        "Since 1970-01-01T00:00:01.000Z, 5 such call(s) in 2 session(s); "
        "the worst is session worst, with 3 of them."
    )
    assert (told["calls"], told["sessions"], told["session"]) == ("5", "2", "worst")
    assert told["reasons"] == "forbidden 4, unknown_tool 1"
    assert told["session_url"] == "http://s/worst"
    assert told["runbook_url"] == "http://r/AgentCriticalHarmfulCall"
    assert told["dashboard_url"] == "http://d/?agent=rover&spec=farm_rover"


def test_what_is_revised_is_over_at_once() -> None:
    """Withdrawn harm ends without the quiet time. The remaining harm is counted."""
    world = World()
    world.pager.consider([harm(1, "a"), harm(2, "b")], 0)
    right = verdict(1, None, session="a", revised_from=Kind.HARMFUL)
    world.pager.consider([right], SECOND)
    assert [ended for _, ended, _ in world.news] == [False]
    world.tick(MINUTE)
    assert world.posts[-1]["annotations"]["sessions"] == "1"
    assert world.posts[-1]["annotations"]["session"] == "b"

    right = verdict(2, None, session="b", revised_from=Kind.HARMFUL)
    world.pager.consider([right], 2 * MINUTE)

    assert world.news[1:] == [("AgentCriticalHarmfulCall", True, 2 * MINUTE)]


def test_a_session_that_becomes_worse_is_one_alert_at_a_time() -> None:
    """The lesser alert is over at once, unless another session keeps it."""
    world = World()
    world.pager.consider([harm(1, "a", "warning")], 0)
    world.pager.consider([harm(2, "a")], SECOND)

    assert world.news == [
        ("AgentHarmfulCall", False, 0),
        ("AgentHarmfulCall", True, SECOND),
        ("AgentCriticalHarmfulCall", False, SECOND),
    ]


def test_agents_specs_and_namespaces_are_alerts_of_their_own() -> None:
    """Each agent, spec and namespace has its own alert; namespaces only if /metrics has that label."""
    news = [
        harm(1, "a"),
        harm(2, "b")._replace(agent="other"),
        harm(3, "c")._replace(spec="other"),
        harm(4, "d")._replace(session=SessionKey("barn", "d")),
    ]
    apart, together = World(), World(namespaced=False)
    for world in (apart, together):
        world.pager.consider(news, 0)

    assert (len(apart.groups.groups), len(together.groups.groups)) == (4, 3)
    assert not any("namespace" in post["labels"] for post in together.posts)


def test_an_alert_that_ends_has_the_labels_that_it_began_with() -> None:
    """The alert that resolves is the one that fired: a receiver knows it by its labels."""
    world = World()
    world.pager.consider([harm(1, "a")], 0)
    right = verdict(1, None, session="a", revised_from=Kind.HARMFUL)
    world.pager.consider([right], SECOND)

    assert [ended for _, ended, _ in world.news] == [False, True]
    assert world.posts[0]["labels"] == world.posts[1]["labels"]


def test_more_of_the_same_takes_no_room_in_its_minute() -> None:
    """A flood of one agent's sessions holds up no other agent's first page."""
    world = World(PageRules(per_minute=4))
    world.pager.consider([harm(n, f"s{n}") for n in range(500)], 0)
    world.pager.consider([harm(1, "x")._replace(agent="other")], 0)

    assert len(world.news) == 2
    assert world.pager.withheld["rate_limit"] == 0


def test_groups_that_wait_for_their_end_are_bounded() -> None:
    """Any number of agents leaves at most the bound of alerts, and each ends once."""
    world = World(PageRules(per_minute=10**9))
    many = QUIET_MAX + 5
    for number in range(many):
        news = harm(1, f"s{number}")._replace(agent=f"a{number}")
        world.pager.consider([news], 0)
        world.end(f"s{number}", 1)

    assert len(world.groups.groups) == QUIET_MAX
    world.tick(RESOLVE + MINUTE)
    assert sum(ended for _, ended, _ in world.news) == many


# --- what gets worse is told anew -----------------------------------------------------------------


def of_tool(number: int, session: str, tool: str, reason: Reason = Reason.FORBIDDEN) -> Verdict:
    return verdict(number, reason, session=session, severity="critical")._replace(tool=tool)


def told(world: World) -> list[int]:
    """When the alert was told as firing, in seconds."""
    return [at // SECOND for _, ended, at in world.news if not ended]


def test_a_new_reason_and_a_new_tool_are_told_within_a_minute() -> None:
    """At once, if nothing was told for a minute, else when a minute has passed; in one message."""
    world = World()
    world.pager.consider([of_tool(1, "a", "pay")], 0)
    world.pager.consider([of_tool(2, "b", "wipe")], 5 * SECOND)
    world.pager.consider([of_tool(3, "c", "pay", Reason.UNKNOWN_TOOL)], 9 * SECOND)
    for second in range(5, 300):
        world.tick(second * SECOND)
    assert told(world) == [0, 60]
    news = world.posts[-1]["annotations"]["news"]
    assert news == "New: tool wipe in session b; unknown tool in session c."

    world.pager.consider([of_tool(4, "d", "drop")], 300 * SECOND)
    assert told(world) == [0, 60, 300]
    assert "tool drop in session d" in world.posts[-1]["annotations"]["summary"]


def test_a_new_tool_of_a_known_page_is_told_when_the_alert_is_repeated() -> None:
    """A session that does the same harm with another tool raises no page, and is told all the same."""
    world = World()
    world.pager.consider([of_tool(1, "a", "pay")], 0)
    world.pager.consider([of_tool(n, "a", "pay") for n in range(2, 4)], SECOND)
    world.pager.consider([of_tool(9, "a", "wipe")], 2 * SECOND)
    for second in range(2, 200):
        world.tick(second * SECOND)
    assert told(world) == [0, 60]


def test_ten_times_as_many_calls_are_told() -> None:
    """Of 3,000 calls in an hour people hear four times: of 1, and of at least 10, 100 and 1,000."""
    world = World()
    counts: list[int] = []
    for second in range(3_000):
        world.pager.consider([of_tool(second, f"s{second}", "pay")], second * SECOND)
        world.tick(second * SECOND)
        if len(world.news) > len(counts):
            counts.append(second + 1)
    assert [len(str(count)) for count in counts] == [1, 2, 3, 4]
    assert told(world) == [count - 1 for count in counts]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 90),
            st.sampled_from("abc"),
            st.sampled_from(("pay", "wipe", "drop", "read")),
            st.sampled_from((Reason.FORBIDDEN, Reason.UNKNOWN_TOOL)),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_all_that_is_new_is_told_and_never_twice_in_a_minute(
    calls: list[tuple[int, str, str, Reason]],
) -> None:
    """Whatever an agent does: each tool and reason is named in a message, and messages are a minute apart."""
    world, now = World(), 0
    heard: set[str] = set()
    for number, (wait, session, tool, reason) in enumerate(calls):
        for _ in range(wait):
            now += SECOND
            world.tick(now)
        world.pager.consider([of_tool(number, session, tool, reason)], now)
    for _ in range(121):
        now += SECOND
        world.tick(now)
    (group,) = world.groups.groups.values()
    heard = set(group.traits)

    assert heard == {f"tool {tool}" for _, _, tool, _ in calls} | {
        f"reason {reason.value}" for *_, reason in calls
    }
    assert all(later - at >= 60 for at, later in pairwise(told(world)))
    assert not group.untold


def test_what_is_taken_back_before_it_is_told_is_not_told() -> None:
    """A reason of a page that was revised is no news, and comes as news when it comes again."""
    world = World()
    world.pager.consider([of_tool(1, "a", "pay")], 0)
    world.pager.consider([of_tool(2, "b", "wipe")], SECOND)
    right = verdict(2, None, session="b", revised_from=Kind.HARMFUL)._replace(tool="wipe")
    world.pager.consider([right], 2 * SECOND)
    for second in range(2, 200):
        world.tick(second * SECOND)
    assert told(world) == [0]

    world.pager.consider([of_tool(3, "c", "wipe")], 200 * SECOND)
    assert told(world) == [0, 200]


def test_invented_tools_and_agents_are_bounded() -> None:
    """A group remembers so many tools, and counts the others; a minute has room for so many tellings."""
    world = World()
    for number in range(TRAITS_MAX + 50):
        world.pager.consider([of_tool(number, f"s{number}", f"tool{number}")], number * SECOND)
        world.tick(number * SECOND)
    (group,) = world.groups.groups.values()
    assert len(group.traits) + len(group.untold) == TRAITS_MAX
    assert world.groups.unnamed >= 50
    assert len(world.posts[-1]["annotations"]["summary"]) < 1_000

    many = World(PageRules(per_minute=10**9))
    for number in range(200):
        first = of_tool(number, f"s{number}", "pay")._replace(agent=f"a{number}")
        many.pager.consider([first], 0)
    for number in range(200):
        second = of_tool(number + 200, f"t{number}", "wipe")._replace(agent=f"a{number}")
        many.pager.consider([second], 61 * SECOND)
    assert 0 < len(many.news) - 200 <= 60
    for at in range(61, 400):
        many.tick(at * SECOND)
    assert len(many.news) == 400
