"""Ended and forgotten sessions go on with what is known of them, and never as new ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor, SessionKey, ToolCall, Verdict
from monitor.records import Evidence, Kind
from monitor.session.dropped_sessions import ROWS, WAYS, DroppedSessions
from monitor.spec.compiler.compile import compile_text
from monitor.visibility.cause import Cause

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
IDLE = 1_800 * SECOND
DAY = 86_400 * SECOND
SERVICE = {"service.name": "shop"}

TASK = """
id: task
match: {service.name: shop}
alphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}, d: {tool: d}}
golden: [[a, b, c, d]]
"""
POLICY = """
id: policy
kind: policy
match: {service.name: shop}
alphabet: {pay: {tool: pay}, a: {tool: a}}
constraints: [{at_most: [pay, 2]}, {precedence: [a, pay]}]
"""


def call(number: int, tool: str, session: str = "s", at: int | None = None) -> ToolCall:
    """The call that starts at second `number`, or at `at` (Unix nanoseconds)."""
    start = START + number * SECOND if at is None else at
    return ToolCall(
        session=SessionKey("", session),
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=start,
        end_ns=start + SECOND // 2,
        trace_id=b"t" * 16,
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes=SERVICE,
        source="test",
        session_from="conversation",
    )


def monitor(*texts: str, **limits: object) -> Monitor:
    specs = []
    for text in texts or (TASK, POLICY):
        spec, findings = compile_text(text, "spec.yaml")
        assert spec is not None, findings
        specs.append(spec)
    made = Limits(**{"history_complete": True, **limits})  # type: ignore[arg-type]
    return Monitor(specs, made)


def harmful(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    return [(each.spec, each.tool) for each in verdicts if each.kind is Kind.HARMFUL]


def run(judge: Monitor, tools: str, first: int = 0, at: int | None = None) -> list[Verdict]:
    """Calls one second after another; `p` is pay."""
    verdicts: list[Verdict] = []
    for number, letter in enumerate(tools, first):
        tool = "pay" if letter == "p" else letter
        when = None if at is None else at + (number - first) * SECOND
        made = call(number, tool, at=when)
        verdicts += judge.observe(made, made.end_ns)
    return verdicts


@pytest.mark.parametrize("pause", [IDLE + 60 * SECOND, 3 * IDLE, 12 * IDLE, DAY])
def test_a_conversation_that_is_taken_up_goes_on_where_it_was(pause: int) -> None:
    """A session's position and counts are kept after its end, and after it is no longer shown."""
    judge, undisturbed = monitor(), monitor()
    run(judge, "abp")
    run(undisturbed, "abp")
    for minute in range(0, pause, 600 * SECOND):
        judge.tick(START + 3 * SECOND + minute)
    judge.tick(START + 3 * SECOND + pause)
    back = START + 4 * SECOND + pause

    late = run(judge, "cppd", first=10, at=back)
    expected = run(undisturbed, "cppd", first=10, at=back)
    assert (
        harmful(late)
        == harmful(expected)
        == [("task", "pay"), ("task", "pay"), ("policy", "pay")]
    )
    for found, known in zip(judge.find("s"), undisturbed.find("s"), strict=True):
        for key in ("exact", "joined", "calls", "harmful", "scores", "state"):
            assert found.get(key) == known.get(key), key


def test_a_session_whose_state_is_gone_is_joined() -> None:
    """After its state is dropped, a session that goes on is joined: no harm is claimed of its past."""
    judge = monitor(TASK, remember_ns=DAY)
    run(judge, "ab")
    for hour in range(30):
        judge.tick(START + hour * 3_600 * SECOND)
    verdicts = run(judge, "cd", first=10, at=START + 30 * 3_600 * SECOND)

    assert harmful(verdicts) == []
    [found] = judge.find("s")
    assert (found["joined"], found["exact"]) == (True, False)
    assert judge.counters.resumed == 1


def test_what_no_state_allows_is_claimed_of_a_session_whose_state_is_gone() -> None:
    """To be read as joined hides no call that is harmful wherever the session may be."""
    judge = monitor(TASK, remember_ns=0)
    run(judge, "ab")
    judge.tick(START + IDLE + 60 * SECOND)
    judge.tick(START + 3 * IDLE)
    assert harmful(run(judge, "dc", first=10, at=START + 4 * IDLE)) == [("task", "c")]


@pytest.mark.parametrize("others", [150, 400])
def test_a_session_that_was_evicted_goes_on(others: int) -> None:
    """An evicted session is restored with its state, or as joined if the state is dropped."""
    judge = monitor(TASK, sessions_max=1)
    run(judge, "ab")
    for number in range(others):
        at = START + (10 + number) * SECOND
        judge.observe(call(number, "a", f"other {number}", at=at), at)
    verdicts = run(judge, "cd", first=10, at=START + 1_000 * SECOND)

    assert harmful(verdicts) == []
    [found] = judge.find("s")
    assert found["joined"] is (others > 300)
    assert judge.gaps.doubts[Cause.FORGOTTEN] == (others > 300)


def test_a_new_session_is_new_beside_forgotten_ones() -> None:
    """A session never seen before is judged in full, however many others were forgotten."""
    judge = monitor(TASK, sessions_max=1, remember_ns=0)
    for number in range(500):
        at = START + number * SECOND
        judge.observe(call(number, "a", f"other {number}", at=at), at)
    assert harmful(run(judge, "ba", first=600)) == [("task", "b")]


@pytest.mark.parametrize("by", [DAY, -DAY, 3 * IDLE, -3 * IDLE])
def test_a_clock_that_is_set_ends_no_session(by: int) -> None:
    """Sessions live as long as without the jump, and verdicts become final."""
    judge = monitor(TASK)
    run(judge, "ab")
    final: list[Verdict] = []
    judge.on_final(final.append)
    verdicts = judge.observe(call(5, "a"), START + 5 * SECOND)
    assert harmful(verdicts) == [("task", "a")]

    now = START + 6 * SECOND + by
    judge.clock_moved(by, now)
    assert judge.tick(now) == []
    assert judge.sessions == 1
    assert harmful(final) == [("task", "a")]
    for number, tool in enumerate("cd", 10):  # the agent's own clock was not set
        assert harmful(judge.observe(call(number, tool), now)) == []
    [event] = judge.tick(now + 3 * SECOND + IDLE)
    assert event.ended == "idle"


def test_a_clock_that_is_set_back_makes_no_session_joined() -> None:
    """Calls after the jump began after this process did, whatever their times say."""
    specs = [compile_text(TASK, "spec.yaml")[0]]
    assert specs[0] is not None
    judge = Monitor([specs[0]], Limits(), started_ns=START)
    judge.clock_moved(-DAY, START + SECOND - DAY)
    run(judge, "a", at=START + 2 * SECOND - DAY)
    [found] = judge.find("s")
    assert found["joined"] is False


@given(st.lists(st.text(max_size=4), max_size=200), st.text(max_size=4))
def test_forgotten_is_what_was_put_there(names: list[str], other: str) -> None:
    """Below its bound the memory contains exactly the forgotten keys."""
    memory = DroppedSessions()
    for name in names:
        memory.add(SessionKey("", name))
    assert all(SessionKey("", name) in memory for name in names)
    assert (SessionKey("", other) in memory) == (other in names)
    assert SessionKey("tenant", "x") not in memory
    assert memory.lost == 0


def test_forgotten_is_bounded_and_says_what_it_lost() -> None:
    """Of twice as many keys as fit, the latest are known, and the others are counted."""
    memory, most = DroppedSessions(), ROWS * WAYS
    for number in range(2 * most):
        memory.add(SessionKey("", str(number)))
    assert memory.lost > most // 2
    latest = [
        SessionKey("", str(number)) in memory for number in range(2 * most - 1_000, 2 * most)
    ]
    assert sum(latest) > 990
