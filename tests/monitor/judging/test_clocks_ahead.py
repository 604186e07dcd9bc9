"""Senders whose clocks are ahead: their calls cost as much as others', mean the same, and are counted."""

from __future__ import annotations

import pytest

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.judging.clocks.clocks_ahead import SenderClocks
from monitor.limits import SECOND
from monitor.records import Proof
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from tests.monitor.test_engine import NOW, ROVER, call, specs

MILLISECOND = SECOND // 1000
AHEAD = 100 * SECOND


def timed(number: int, tool: str, end: int, length: int = MILLISECOND) -> ToolCall:
    return call(number, tool, start_ns=end - length, end_ns=end, arguments={"liters": 3})


def watched() -> Monitor:
    return Monitor(specs(ROVER), Limits(history_complete=True))


@pytest.mark.parametrize("ahead", [0, AHEAD])
def test_a_burst_costs_no_more(ahead: int) -> None:
    """Each call of a burst is appended to the log, so no call is judged again for another."""
    monitor = watched()
    for number in range(1, 201):
        now = NOW + number * 2 * MILLISECOND
        monitor.observe(timed(number, "water", now + ahead), now)
    assert monitor.counters.out_of_order == 0
    assert monitor.counters.skewed == (200 if ahead else 0)


def test_order_is_that_of_the_senders_clock() -> None:
    """Calls that arrive in another order than they were made are judged as they were made."""
    monitor = watched()
    made = [(1, "unlock", 10), (2, "open", 20), (3, "water", 30)]
    for number, tool, at in (made[0], made[2], made[1]):
        monitor.observe(timed(number, tool, NOW + AHEAD + at * MILLISECOND), NOW + SECOND)
    [judgement] = monitor.find("s")
    assert judgement["harmful"] == 0
    assert judgement["state"] is not None
    assert monitor.counters.skewed == 3


@pytest.mark.parametrize("known", [True, False])
def test_a_proof_that_a_session_is_new_is_of_the_clock_of_its_calls(known: bool) -> None:
    """The model's first request proves it, and comes from the host whose clock is ahead: before or after the call."""
    monitor = Monitor(specs(ROVER), Limits(), started_ns=NOW - SECOND)
    first = timed(1, "open", NOW + AHEAD)
    proof = Proof(first.start_ns - SECOND // 2, first.trace_id, holds=True)
    monitor.observe(first, NOW, proof=proof if known else None)
    if not known:
        monitor.corrections.prove(first.session, proof)
    [judgement] = monitor.find("s")

    assert (judgement["joined"], judgement["harmful"]) == (False, 1)


def test_hosts_of_one_session() -> None:
    """One host's clock is ahead, another's is right: their calls stand in the order they were made."""
    monitor = watched()
    monitor.observe(timed(1, "unlock", NOW + AHEAD), NOW)
    monitor.observe(timed(2, "open", NOW + SECOND), NOW + SECOND)
    monitor.observe(timed(3, "water", NOW + AHEAD + 2 * SECOND), NOW + 2 * SECOND)
    [judgement] = monitor.find("s")
    assert judgement["harmful"] == 0
    assert monitor.counters.out_of_order == 0
    assert monitor.counters.skewed == 2


def test_a_fuller_span_stays_in_its_place() -> None:
    """A call that is read anew much later, when its clock is not so far ahead any more."""
    monitor = watched()
    old = timed(1, "unlock", NOW + AHEAD)
    monitor.observe(old, NOW)
    monitor.observe(timed(2, "open", NOW + AHEAD + SECOND), NOW + SECOND)
    assert monitor.corrections.amend(old, old._replace(call_id="x"), NOW + 5 * SECOND) == []
    [judgement] = monitor.find("s")
    assert judgement["harmful"] == 0


@pytest.mark.parametrize("known", [False, True])
def test_a_fuller_span_stays_in_its_place_in_another_session(known: bool) -> None:
    """The session's id arrives after the calls, and their clock is still known."""
    monitor = watched()
    key = SessionKey("", "conversation")
    tools = ["unlock", "open", "water"]
    if known:
        earlier = timed(0, tools.pop(0), NOW - SECOND)
        monitor.observe(earlier._replace(session=key), NOW - SECOND)
    old = timed(1, tools[0], NOW + AHEAD)
    monitor.observe(old, NOW)
    monitor.observe(timed(2, tools[1], NOW + AHEAD + SECOND), NOW + SECOND)
    assert monitor.corrections.rekey(old.session, key, "session.id", NOW + 2 * SECOND)
    monitor.news()
    old = old._replace(session=key)
    assert monitor.corrections.amend(old, old._replace(call_id="x"), NOW + 5 * SECOND) == []
    [judgement] = monitor.find(key.id)
    assert judgement["harmful"] == 0


def test_a_slow_arrival_is_no_right_clock() -> None:
    """A clock 65 s ahead seems 50 s ahead where a call takes 15 s to arrive: it is the same clock."""
    clocks = SenderClocks()
    first = timed(1, "unlock", NOW + 65 * SECOND)
    assert clocks.corrected(first, NOW).end_ns == NOW
    slow = timed(2, "open", NOW + 66 * SECOND)
    assert clocks.is_ahead(slow, NOW + 16 * SECOND)
    assert clocks.corrected(slow, NOW + 16 * SECOND).end_ns == NOW + SECOND
    right = timed(3, "water", NOW + 20 * SECOND)
    assert not clocks.is_ahead(right, NOW + 17 * SECOND)


def test_another_clock_of_the_session_is_learnt() -> None:
    """Two hosts that are ahead by hours more than each other: each call stands at its receipt."""
    clocks = SenderClocks()
    assert clocks.corrected(timed(1, "unlock", NOW + AHEAD), NOW).end_ns == NOW
    far = timed(2, "open", NOW + 100 * AHEAD)
    assert clocks.corrected(far, NOW + SECOND).end_ns == NOW + SECOND


def test_a_start_stays_a_time() -> None:
    """A call that began before 1970 by its clock still has a start: 0 would mean that it has none."""
    made = call(1, "unlock", start_ns=5, end_ns=NOW + AHEAD)
    corrected = SenderClocks().corrected(made, NOW)
    assert (corrected.start_ns, corrected.end_ns) == (1, NOW)


def test_only_so_many_sessions_are_known() -> None:
    """The least recent is forgotten first."""
    clocks = SenderClocks(sessions_max=2)
    for name in "abc":
        made = timed(1, "unlock", NOW + AHEAD)._replace(session=SessionKey("", name))
        clocks.corrected(made, NOW)
    later = timed(2, "open", NOW + AHEAD)
    # Received 45 s later: only by its session's first call it is known to be ahead.
    known = [
        name
        for name in "abc"
        if clocks.is_ahead(later._replace(session=SessionKey("", name)), NOW + 45 * SECOND)
    ]
    assert known == ["b", "c"]


@pytest.mark.parametrize("ahead", range(56, 72))
@pytest.mark.parametrize("slow", [0, 1, 7])
def test_a_clock_is_corrected_for_all_calls_of_a_session_or_for_none(
    ahead: int, slow: int
) -> None:
    """Calls that took longer to arrive seem to be of another clock: they are moved with the others, at any lead."""
    monitor = watched()
    for number, tool in enumerate(("unlock", "open", "water"), start=1):
        made = NOW + number * SECOND
        arrives = made + max(0, slow - 3 * number) * SECOND
        monitor.observe(timed(number, tool, made + ahead * SECOND), arrives)
    [judgement] = monitor.find("s")

    assert judgement["harmful"] == 0
    assert [step["tool"] for step in judgement["steps"]] == ["unlock", "open", "water"]
    assert judgement["started"] == judgement["steps"][0]["start_ns"]
    assert judgement["last"] == judgement["steps"][-1]["end_ns"]


def test_a_fuller_span_shows_the_lead_of_the_calls_before_it() -> None:
    """A call that is told whole by a later span moves the session's earlier calls, as a new call does."""
    monitor = watched()
    lead = 65 * SECOND
    monitor.observe(timed(1, "unlock", NOW + lead), NOW + 15 * SECOND)
    begun = timed(2, "open", NOW + SECOND + lead)
    monitor.observe(begun, NOW + 16 * SECOND)
    whole = begun._replace(end_ns=NOW + 20 * SECOND + lead)
    monitor.corrections.amend(begun, whole, NOW + 20 * SECOND)
    monitor.observe(timed(3, "water", NOW + 21 * SECOND), NOW + 21 * SECOND)
    [judgement] = monitor.find("s")

    assert [step["tool"] for step in judgement["steps"]] == ["unlock", "open", "water"]
    assert judgement["harmful"] == 0
    assert judgement["started"] == NOW - MILLISECOND
    assert judgement["last"] == NOW + 21 * SECOND


def test_held_calls_are_moved_as_those_of_the_log_are() -> None:
    """A spec that binds late judges calls in the places that the others have: when each was received counts."""
    monitor, lead = watched(), 65 * SECOND
    made = [
        (1, "unlock", NOW + lead, NOW + 15 * SECOND),
        (2, "open", NOW + 30 * SECOND, NOW + 30 * SECOND),
        (3, "water", NOW + 100 * SECOND + lead, NOW + 100 * SECOND),
    ]
    for number, tool, end, received in made:
        monitor.observe(timed(number, tool, end)._replace(attributes={}), received)
    monitor.corrections.learn(
        SessionKey("", "s"),
        NOW + 101 * SECOND,
        attributes={"service.name": "rover"},
        start_ns=NOW,
    )
    [judgement] = monitor.find("s")

    assert [step["tool"] for step in judgement["steps"]] == ["unlock", "open", "water"]
    assert judgement["harmful"] == 0


def test_a_gap_moves_with_the_calls_of_its_sender() -> None:
    """A call that left no span is missing by the sender's clock: what it would explain is possible harm."""
    for ahead in (0, AHEAD):
        since, until = NOW + ahead, NOW + ahead + 20 * MILLISECOND
        monitor = watched()
        monitor.gaps.note(Gap(Cause.SILENT_TOOL, since, until, "unlock", service="rover"))
        monitor.observe(timed(2, "open", until + 2 * MILLISECOND), NOW + SECOND)
        [judgement] = monitor.find("s")
        assert not judgement["harmful"]
        assert [step["tool"] for step in judgement["steps"] if step.get("possible")] == ["open"]
