"""Log lines that agents cause are limited. Omitted lines are counted and summarised."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.calls.inventory.inventory import AgentRecord
from collector.config.settings.telemetry import LogLineSettings
from collector.sinks.line_limit import LEFT_OUT_LINES, NAMESPACES_MAX, PAIRS_MAX, LineLimit
from collector.sinks.log import LogSink
from collector.telemetry.logs import Logger
from monitor.aggregate.totals import SessionFinished
from monitor.limits import SECOND
from monitor.records import SessionKey, Verdict
from monitor.scores.score_records import FinalScores
from tests.collector.sinks.alert.test_pager import verdict

SCORES = FinalScores("accepted", 1, 0, None, None, None, None, None, None)


class Written:
    """A sink with its own clock, and the events it wrote."""

    def __init__(self, **settings: float) -> None:
        self.now = 1_000 * SECOND
        self.events: list[dict[str, Any]] = []
        self.sink = LogSink(
            Logger(self.events.append), LogLineSettings(**settings), clock=lambda: self.now
        )

    def count(self, event: str) -> int:
        return sum(each["event"] == event for each in self.events)

    def pass_seconds(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.sink.tick(self.now)


def harmful(agent: str = "a", namespace: str = "n", spec: str = "s") -> Verdict:
    return verdict()._replace(session=SessionKey(namespace, "x"), agent=agent, spec=spec)


def test_a_flood_of_harmful_calls_is_a_few_lines() -> None:
    """Ten lines at once, then one a second. The omitted ones are summarised later in one line."""
    written = Written()
    for _ in range(1_320):
        written.sink.deliver([harmful()] * 50)
    assert written.count("harmful_call") == 10
    written.sink.tick(written.now)
    assert written.count("harmful_calls_suppressed") == 0

    written.pass_seconds(1)
    told = written.events[-1]
    assert (told["event"], told["count"]) == ("harmful_calls_suppressed", 65_990)
    assert (told["namespace"], told["agent"], told["spec"]) == ("n", "a", "s")
    written.pass_seconds(10)
    assert len(written.events) == 11


def test_other_agents_and_specs_have_lines_of_their_own() -> None:
    """One bad agent leaves the lines of others alone."""
    written = Written()
    written.sink.deliver([harmful()] * 100)
    written.sink.deliver([harmful("b"), harmful(spec="t"), harmful(namespace="m")])

    assert written.count("harmful_call") == 13


def test_an_agent_that_invents_names_is_limited_by_its_namespace() -> None:
    """All its names share a burst of 500 lines. Other namespaces are logged as before."""
    written = Written()
    for number in range(2_000):
        written.sink.deliver([harmful(f"a{number}")])
    written.sink.deliver([harmful(namespace="m")])

    assert written.count("harmful_call") == 501


def test_suppressed_lines_beyond_the_buckets_are_summarised() -> None:
    """If more agents are limited than there are buckets, the rest is summarised by namespace."""
    written = Written(namespace_lines_per_second=0.1, burst_seconds=10)
    agents = PAIRS_MAX + 500
    for number in range(agents):
        written.sink.deliver([harmful(f"a{number}")] * 3)
    for _ in range(40):
        written.pass_seconds(1)
    written.sink.close()

    told = [each for each in written.events if each["event"] == "harmful_calls_suppressed"]
    assert sum(each["count"] for each in told) + written.count("harmful_call") == 3 * agents
    assert told[0]["agent"] is None
    assert len(told) <= 41 * LEFT_OUT_LINES


def test_ends_of_sessions_and_new_agents_are_limited_too() -> None:
    """A flood of sessions, or of agents that call once, does not fill the log."""
    written = Written()
    ended = SessionFinished(SessionKey("n", "x"), "a", "s", "1", "idle", SCORES)
    written.sink.finished([ended] * 10_000)
    for number in range(10_000):
        written.sink.introduce(AgentRecord("n", f"service-{number}", written.now, {}), ())

    assert (written.count("session_finished"), written.count("agent_seen")) == (100, 100)
    written.pass_seconds(1)
    counted = {each["event"]: each["count"] for each in written.events[-2:]}
    assert counted == {"sessions_finished_suppressed": 9_900, "agents_seen_suppressed": 9_900}


def test_a_clock_that_is_set_back_gives_no_lines_and_takes_none() -> None:
    """If time goes back, the budget stays as it was."""
    limit = LineLimit(1, 50, 2)
    at = 100 * SECOND
    assert [limit.allows("n", "a", "s", at) for _ in range(3)] == [True, True, False]
    assert not limit.allows("n", "a", "s", at - 50 * SECOND)
    assert limit.allows("n", "a", "s", at - 49 * SECOND)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(0, 400),
            st.integers(0, 3 * SECOND),
            st.booleans(),
        ),
        max_size=80,
    )
)
def test_each_line_is_written_or_summarised(steps: list[tuple[int, int, int, bool]]) -> None:
    """Lines written plus lines summarised are all lines, and the limit holds, in any sequence."""
    limit = LineLimit(1, 5, 2)
    now = 0
    asked: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    by_namespace: Counter[str] = Counter()
    for namespace, agent, passed, tick in steps:
        now += passed
        name = f"n{namespace % (NAMESPACES_MAX + 1)}"
        asked[name] += 1
        if limit.allows(name, f"a{agent}", "s", now):
            seen[name] += 1
            by_namespace[name] += 1
            assert by_namespace[name] <= 10 + 5 * now / SECOND
        if tick:
            for each in limit.left_out(now):
                seen[each.namespace] += each.lines
    for each in limit.rest():
        seen[each.namespace] += each.lines

    assert seen == asked
    assert limit.rest() == []
