"""Sessions that go on after a rest, under another id, or when the clock was set."""

from __future__ import annotations

import pytest

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.limits import SECOND
from monitor.records import Kind
from monitor.tenants import TENANTS_MAX
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from monitor.visibility.ledger import GAPS_MAX
from monitor.weights import call_bytes
from tests.monitor.test_engine import NOW, POLICY, ROVER, START, call, monitor, specs

LAP = """
id: lap
kind: task
match: {service.name: rover}
alphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}}
initial: s
accepting: [s3]
transitions: {s: {a: s1}, s1: {b: s2}, s2: {a: s3}, s3: {c: s3}}
"""
ELSEWHERE = POLICY.replace("kind: policy", "kind: policy\nmatch: {service.name: zzz}")


def key(id_: str) -> SessionKey:
    return SessionKey("", id_)


def of(number: int, id_: str, tool: str) -> ToolCall:
    return call(number, tool, session=key(id_))


def unbound(number: int, tenant: str, id_: str = "s") -> ToolCall:
    attributes = {"service.name": "nobody"}
    return call(number, "unlock", session=SessionKey(tenant, id_), attributes=attributes)


def test_a_session_whose_only_call_was_none_is_condensed() -> None:
    """A session without a step in its log can be stored and restored."""
    judge = monitor(ROVER, idle_ns=60 * SECOND)
    judge.observe(call(1, "unlock"), NOW)
    judge.tick(NOW + 11 * SECOND)
    judge.retract(call(1, "unlock"))
    judge.tick(NOW + 100 * SECOND)
    judge.tick(NOW + 200 * SECOND)

    assert judge.sessions == 0


def test_a_session_that_rested_is_condensed_twice() -> None:
    """A session that is restored without a new call can be stored again."""
    judge = monitor(ROVER, idle_ns=60 * SECOND)
    judge.observe(call(1, "unlock"), NOW)
    judge.tick(NOW + 11 * SECOND)
    judge.tick(NOW + 100 * SECOND)
    judge.tick(NOW + 200 * SECOND)
    judge.corrections.amend(
        call(1, "unlock"), call(1, "unlock", error=True), NOW + 210 * SECOND
    )
    assert judge.sessions == 1
    judge.tick(NOW + 300 * SECOND)
    judge.tick(NOW + 400 * SECOND)

    assert judge.sessions == 0


def test_a_rest_decides_no_doubt_for_harm() -> None:
    """After a rest, a session that may be older than the process is judged alike, folded or not."""
    kinds = []
    for fold in (False, True):
        limits = Limits(fold=fold, idle_ns=60 * SECOND)
        judge = Monitor(specs(LAP), limits, started_ns=START)
        judge.observe(call(1, "a"), START + 2 * SECOND)
        judge.tick(START + 100 * SECOND)
        judge.tick(START + 300 * SECOND)
        found = judge.observe(call(400, "c"), START + 401 * SECOND)
        kinds.append([verdict.kind for verdict in found])

    assert kinds == [[Kind.SELF_LOOP], [Kind.SELF_LOOP]]


@pytest.mark.parametrize("fold", [False, True])
def test_a_rest_decides_no_doubt_of_a_call(fold: bool) -> None:
    """A call that may be none stays possible harm once its session has rested, and a gap behind it was taken back."""
    limits = Limits(fold=fold, idle_ns=60 * SECOND)
    judge = Monitor(specs(LAP), limits, started_ns=NOW - 7200 * SECOND)
    judge.observe(call(1, "b"), NOW)
    judge.observe(call(2, "b", doubts=(Cause.ROUND_TRIP,)), NOW + SECOND)
    judge.tick(NOW + 100 * SECOND)
    judge.tick(NOW + 300 * SECOND)
    judge.observe(call(400, "a"), NOW + 401 * SECOND)
    gap = Gap(Cause.REFUSED, START + 399 * SECOND, START + 401 * SECOND)
    for change in (judge.gaps.note, judge.gaps.lift):
        change(gap)
        judge.gaps.look_again()

    assert [each["harmful"] for each in judge.judgements()] == [1]


def test_a_session_is_not_evicted_for_the_one_it_moves_into() -> None:
    """If a late id revives an ended session, its calls move there, and no session is evicted."""
    judge = monitor(POLICY, sessions_max=2)
    judge.observe(of(1, "s", "water"), NOW)
    judge.end(key("s"), NOW)
    judge.observe(of(2, "trace", "water"), NOW + 1)
    judge.observe(of(3, "other", "look"), NOW + 2)
    assert judge.rekey(key("trace"), key("s"), "session.id", NOW + 3)

    found = [(each["session"], each["calls"], each["harmful"]) for each in judge.judgements()]
    assert found == [("s", 2, 1)]
    assert judge.counters.ended["evicted"] == 0


def test_a_forgotten_session_whose_id_comes_late_is_joined() -> None:
    """A forgotten session is joined and counted, even if its id arrives after its call."""
    limits = {"idle_ns": 10 * SECOND, "remember_ns": 20 * SECOND}
    judge = monitor(ROVER, **limits)
    judge.observe(of(1, "s", "unlock"), NOW)
    for seconds in range(0, 200, 5):
        judge.tick(NOW + seconds * SECOND)
    now = NOW + 300 * SECOND
    verdicts = judge.observe(of(300, "trace", "open"), now)
    assert [verdict.kind for verdict in verdicts] == [Kind.HARMFUL]
    judge.rekey(key("trace"), key("s"), "session.id", now)

    revised = [(verdict.kind, verdict.revised_from) for verdict in judge.news()]
    assert revised == [(Kind.PROGRESS, Kind.HARMFUL)]
    assert judge.counters.resumed == 1
    assert [(each["harmful"], each["joined"]) for each in judge.find("s")] == [(0, True)]


def test_a_jump_of_the_clock_ends_no_doubt() -> None:
    """A session that begins soon after our start is in doubt, wherever the clock was set meanwhile."""
    for by in (0, 3600 * SECOND, -3600 * SECOND):
        judge = Monitor(specs(ROVER), Limits(), started_ns=NOW)
        judge.tick(NOW + 10 * SECOND)
        if by:
            judge.clock_moved(by, NOW + 10 * SECOND + by)
        now = NOW + 20 * SECOND + by
        made = call(0, "water", arguments={"liters": 5}, start_ns=now - SECOND, end_ns=now - 1)
        assert [verdict.kind for verdict in judge.observe(made, now)] == [Kind.PROGRESS]


def test_a_session_with_a_new_id_is_the_latest() -> None:
    """Sessions are listed by last activity also after one got its real id, or was merged into another."""
    judge = monitor(ROVER)
    judge.observe(of(1, "trace", "unlock"), NOW)
    judge.observe(of(2, "b", "unlock"), NOW + 5 * SECOND)
    judge.rekey(key("trace"), key("s"), "session.id", NOW + 6 * SECOND)
    since = NOW + 4 * SECOND
    assert [each.id for each in judge.reader.touched_since(since)] == ["s", "b"]
    assert judge.reader.touched_ns == NOW + 6 * SECOND
    judge.observe(of(3, "b", "open"), NOW + 7 * SECOND)
    judge.observe(of(4, "more", "unlock"), NOW + 8 * SECOND)
    judge.rekey(key("more"), key("s"), "session.id", NOW + 9 * SECOND)

    assert [each.id for each in judge.reader.touched_since(since)] == ["s", "b"]


def test_what_an_amended_call_takes_is_bounded() -> None:
    """Calls that grow after receipt count with their new size, and the bound on held calls holds."""
    judge = Monitor(specs(ROVER), Limits(held_bytes_max=100_000), started_ns=0)
    for number in range(20):
        old = unbound(number, "x", f"s{number}")
        judge.observe(old, NOW)
        judge.corrections.amend(old, old._replace(arguments={"x": "y" * 60_000}), NOW)

    live = [judge.state.table.live(SessionKey("x", f"s{number}")) for number in range(20)]
    held = [each for session in live if session is not None for each in session.held or ()]
    total = sum(call_bytes(each) for each in held)
    assert 0 < total <= 100_000
    assert judge.state.judging_state.held_bytes.total == total


def test_a_retracted_call_is_held_no_longer() -> None:
    """A withdrawn call frees its part of the bound on held calls."""
    judge = Monitor(specs(ROVER), Limits(), started_ns=0)
    made = unbound(1, "x")
    judge.observe(made, NOW)
    judge.retract(made)
    assert judge.state.judging_state.held_bytes.total == 0
    judge.end(made.session, NOW)

    assert not judge.state.judging_state.holders


def test_nothing_is_held_when_all_of_many_tenants_have_ended() -> None:
    """Held memory of tenants beyond the shared number is freed under the name it was counted by."""
    judge = Monitor(specs(ROVER, ELSEWHERE), Limits(), started_ns=0)
    for number in range(TENANTS_MAX):
        judge.observe(unbound(1, f"t{number}"), NOW)
    judge.observe(unbound(1, "late"), NOW)
    for number in range(3):
        judge.end(SessionKey(f"t{number}", "s"), NOW)
    judge.observe(unbound(2, "late"), NOW + 1)
    judge.close(NOW + 2)

    assert judge.state.judging_state.held_bytes.total == 0
    assert not judge.state.judging_state.holders


def test_causes_of_a_later_version_are_passed_over() -> None:
    """Its counters are taken as far as they are known here."""
    judge = monitor(ROVER)
    counters = judge.kept.counters()
    counters["doubts"] |= {"outage": 3, "of_tomorrow": 2}
    counters["gaps"] += [["of_tomorrow", 0, NOW], ["outage", NOW - SECOND, NOW]]
    judge.kept.set_counters(counters)

    assert judge.gaps.doubts[Cause.OUTAGE] == 3
    assert [gap[0] for gap in judge.kept.counters()["gaps"]] == ["outage"]


def test_gaps_that_become_one_are_counted() -> None:
    """More gaps than the bound reach more than they did: the number of times goes on in the next process."""
    judge, after = monitor(ROVER), monitor(ROVER)
    for number in range(GAPS_MAX + 3):
        judge.gaps.note(Gap(Cause.OUTAGE, NOW + number, NOW + number + 1))
    after.kept.set_counters(judge.kept.counters())

    assert judge.gaps.merged == after.gaps.merged == 3
