"""Calls that are harmful unless their session began before the monitor did: reported as possible, and not counted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from monitor import Limits, Monitor, ToolCall
from monitor.decision import Answer
from monitor.limits import SECOND
from monitor.records import Kind, Proof, Reason, SessionKey, Verdict
from monitor.session.judgement.fold_log import FOLD_LUMP
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from tests.monitor.test_engine import START, call, specs

TASK = """
id: task
kind: task
match: {service.name: rover}
alphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}, d: {tool: d}}
golden: [[a, b, c, d]]
"""
POLICY = """
id: policy
kind: policy
alphabet: {check: {tool: check}, pay: {tool: pay}}
constraints: [{precedence: [check, pay]}]
"""


def young(*texts: str, **limits: Any) -> Monitor:
    """A monitor that started just before the first call, on default settings."""
    return Monitor(specs(*texts), Limits(**limits), started_ns=START)


def told(monitor: Monitor, tools: str) -> list[Verdict]:
    """All verdicts on calls by the names of their tools, one letter each."""
    return [
        verdict
        for number, tool in enumerate(tools, 1)
        for verdict in monitor.observe(
            made(number, tool), made(number, tool).end_ns, quiet=True
        )
    ]


def made(number: int, tool: str) -> ToolCall:
    return call(number, tool)


def test_a_skipped_step_is_possible_harm() -> None:
    """It has the reason and the time of the doubt, and counts as what it would be in an older session."""
    monitor = young(TASK)
    (verdict,) = told(monitor, "b")

    assert (verdict.possible, verdict.reason, verdict.skipped) == (
        True,
        Reason.OUT_OF_ORDER,
        ("a",),
    )
    assert verdict.unless_before_ns == START
    assert verdict.kind is not Kind.HARMFUL
    (found,) = monitor.judgements()
    assert (found["harmful"], found["joined"], found["harm_rate"]) == (0, True, None)
    assert found["unless_began_before"] == START
    step = found["steps"][0]
    assert (step["possible"], step["possible_reason"]) == (True, "out_of_order")
    assert step["possible_skipped"] == ["a"]


def final_harms(monitor: Monitor) -> int:
    """What the final counters have."""
    return sum(pair.final.total() for pair in monitor.totals.pairs.values())


PROVEN = Proof(START, b"t" * 16, holds=True)
REFUSED = Gap(Cause.REFUSED, START, START + SECOND)


def _resend(monitor: Monitor, *, lifted: bool) -> None:
    (monitor.gaps.lift if lifted else monitor.gaps.note)(REFUSED)
    monitor.gaps.look_again()


DOUBTS: dict[str, tuple[Callable[[Monitor], object], Callable[[Monitor], object]]] = {
    "a proof": (
        lambda monitor: monitor.corrections.prove(made(2, "b").session, PROVEN),
        lambda monitor: monitor.corrections.prove(
            made(2, "b").session, Proof(START, b"t" * 16, holds=False)
        ),
    ),
    "a gap": (
        lambda monitor: _resend(monitor, lifted=True),
        lambda monitor: _resend(monitor, lifted=False),
    ),
}
"""What makes a harm certain, and what takes that back."""


@pytest.mark.parametrize("how", DOUBTS)
def test_a_harm_that_becomes_certain_late_is_counted_then(how: str) -> None:
    """Its verdict was final as a possible harm: once the doubt ends, it is in the final counters, too, and once."""
    monitor, (ends, begins) = _doubting(how), DOUBTS[how]
    now = made(2, "b").end_ns + 11 * SECOND
    monitor.tick(now)
    assert final_harms(monitor) == 0
    ends(monitor)
    monitor.tick(now + 11 * SECOND)
    assert final_harms(monitor) == 1
    begins(monitor)
    monitor.tick(now + 22 * SECOND)
    ends(monitor)
    monitor.tick(now + 33 * SECOND)
    monitor.close(now + 34 * SECOND)
    assert final_harms(monitor) == 1


@pytest.mark.parametrize("how", DOUBTS)
def test_a_harm_that_was_certain_for_a_moment_is_not_counted(how: str) -> None:
    """The counters take it when the session is looked at, and it is only possible again by then."""
    monitor, (ends, begins) = _doubting(how), DOUBTS[how]
    now = made(2, "b").end_ns + 11 * SECOND
    monitor.tick(now)
    ends(monitor)
    begins(monitor)
    monitor.close(now + 11 * SECOND)
    assert final_harms(monitor) == 0


def test_a_harm_that_was_counted_at_another_call_is_not_counted_twice() -> None:
    """One of `b` and `a` is harmful, and it is counted at `a`. Then it is known to be `b`."""
    monitor, (ends, begins) = _doubting("a gap"), DOUBTS["a gap"]
    monitor.observe(made(3, "a"), made(3, "a").end_ns)
    now = made(3, "a").end_ns + 11 * SECOND
    monitor.tick(now)
    assert (_harmful(monitor), final_harms(monitor)) == (["a"], 1)
    for change in (ends, begins, ends):
        change(monitor)
        now += 11 * SECOND
        monitor.tick(now)
    assert _harmful(monitor) == ["b"]
    monitor.close(now)
    assert final_harms(monitor) == 1


def _harmful(monitor: Monitor) -> list[str]:
    (found,) = monitor.judgements()
    return [each["tool"] for each in found["steps"] if each["kind"] == "harmful"]


def _doubting(how: str) -> Monitor:
    """A monitor with a call that is harmful unless something before it is missing."""
    if how == "a proof":
        monitor = young(TASK)
    else:
        monitor = Monitor(specs(TASK), Limits(history_complete=True))
        monitor.gaps.note(REFUSED)
    monitor.observe(made(2, "b"), made(2, "b").end_ns)
    return monitor


def test_a_late_call_changes_no_final_counter() -> None:
    """A call that comes after the window makes an earlier one harmful: the judgement has it, the counters do not."""
    monitor = Monitor(specs(TASK), Limits(history_complete=True))
    for number, tool in ((1, "a"), (3, "b")):
        monitor.observe(made(number, tool), made(number, tool).end_ns)
    now = made(3, "b").end_ns + 11 * SECOND
    monitor.tick(now)
    late = monitor.observe(made(2, "b"), now)
    assert (made(3, "b").span_id, Kind.HARMFUL) in [(each.span_id, each.kind) for each in late]
    monitor.tick(now + 11 * SECOND)
    assert final_harms(monitor) == 0


def test_a_call_is_reported_once() -> None:
    """Further calls of the session report their own possible harm alone."""
    verdicts = told(young(TASK), "bcd")

    assert [(each.tool, each.reason) for each in verdicts if each.possible] == [
        ("b", Reason.OUT_OF_ORDER),
        ("c", Reason.OUT_OF_ORDER),
        ("d", Reason.OUT_OF_ORDER),
    ]


@pytest.mark.parametrize("folded", [False, True])
def test_a_harm_that_a_later_call_makes_certain_is_told_of_that_call(folded: bool) -> None:
    """`b` without `a` may be right, and so may `a` behind it, but not both: which of them is harmful stays open."""
    reading = TASK.replace("d: {tool: d}", "d: {tool: d}, look: {tool: look}") + "reads: [look]"
    monitor = Monitor(specs(reading), Limits(history_complete=True))
    monitor.gaps.note(Gap(Cause.OUTAGE, START, START + SECOND))
    verdicts = told(monitor, "ba")
    for number in range(3, 6 + 100 * folded):
        look = made(number, "look")
        monitor.observe(look, look.end_ns)
        monitor.tick(look.end_ns)
    # A late call has the log stepped again.
    late = made(6 + 100 * folded, "look")
    monitor.observe(late._replace(start_ns=late.start_ns - 5 * SECOND // 2), late.end_ns)
    (found,) = monitor.judgements()

    assert [(each.tool, each.possible, each.kind) for each in verdicts] == [
        ("b", True, Kind.PROGRESS),
        ("a", False, Kind.HARMFUL),
    ]
    assert not verdicts[1].certain_call
    assert (found["harmful"], found["joined"], found["harm_rate"]) == (1, True, None)
    assert not folded or found["steps"][0]["tool"] == "look"


@pytest.mark.parametrize("young_alone", [True, False])
def test_a_call_that_both_readings_call_harmful_may_be_right_in_another(
    young_alone: bool,
) -> None:
    """`c` without `b`, unless `a` and `b` were missed and this `a` is the harm: it is this call or an earlier one."""
    if young_alone:
        monitor = young(TASK)
    else:
        monitor = Monitor(specs(TASK), Limits(history_complete=True))
        monitor.gaps.note(Gap(Cause.OUTAGE, START, START + SECOND))
    (verdict,) = told(monitor, "ac")

    assert (verdict.tool, verdict.kind) == ("c", Kind.HARMFUL)
    assert not verdict.certain_call


def test_a_harm_of_a_session_whose_beginning_alone_is_in_doubt_is_told_of_the_earlier_call() -> (
    None
):
    """As docs/tutorial.md has it: the verdict on `b` is revised once `a` makes one harm certain."""
    monitor = young(TASK)
    verdicts = told(monitor, "ba")
    (found,) = monitor.judgements()

    assert [
        (each.tool, each.kind, each.revised_from) for each in verdicts if not each.possible
    ] == [("b", Kind.HARMFUL, Kind.PROGRESS)]
    assert (found["harmful"], found["joined"]) == (1, False)


def test_a_policy_reports_it_too() -> None:
    """A payment without a check, which may have come before."""
    monitor = young(POLICY)
    verdicts = monitor.observe(call(1, "pay"), START + 2 * SECOND, quiet=True)

    assert [(each.possible, each.constraint) for each in verdicts] == [
        (True, "precedence: [check, pay]")
    ]


def test_a_proof_makes_it_certain() -> None:
    """The verdict is revised: harmful, with scores."""
    monitor = young(TASK)
    (before,) = told(monitor, "b")
    (verdict,) = monitor.corrections.prove(before.session, Proof(START, b"t" * 16, holds=True))
    (found,) = monitor.judgements()

    assert (verdict.kind, verdict.possible, verdict.revised_from) == (
        Kind.HARMFUL,
        False,
        before.kind,
    )
    assert (found["joined"], found["harm_rate"]) == (False, 1)
    assert "possible" not in found["steps"][0]


def test_a_proof_that_is_taken_back_makes_it_possible_again() -> None:
    """The certain verdict is revised."""
    monitor = young(TASK)
    (before,) = told(monitor, "b")
    monitor.corrections.prove(before.session, Proof(START, b"t" * 16, holds=True))
    (verdict,) = monitor.corrections.prove(before.session, Proof(START, b"t" * 16, holds=False))

    assert (verdict.possible, verdict.revised_from) == (True, Kind.HARMFUL)


@pytest.mark.parametrize("order", [(2, 0), (0, 2)])
def test_the_earliest_proof_dates_the_session_whatever_came_first(
    order: tuple[int, int],
) -> None:
    """A gap that lies before the later trace reaches the session that the earlier one shows to be older."""
    monitor = Monitor(specs(TASK), Limits(history_complete=True))
    monitor.gaps.note(Gap(Cause.OUTAGE, START, START + SECOND))
    for number, (trace, tool) in enumerate(zip(order, "bc", strict=True), 3):
        proof = Proof(START + trace * SECOND, bytes([trace]) * 16, holds=True)
        asked = monitor.decide(made(number, tool), made(number, tool).end_ns, proof=proof)
        monitor.observe(made(number, tool), made(number, tool).end_ns, proof=proof)
    (found,) = monitor.judgements()

    assert [each["possible"] for each in found["steps"]] == [True, True]
    assert found["harmful"] == 0
    assert asked.answer is Answer.UNKNOWN


@pytest.mark.parametrize("way", ["amend", "retract"])
def test_a_proof_holds_of_the_calls_as_they_are_known(way: str) -> None:
    """A proof is checked again when the call before it gets a later start or is withdrawn."""
    monitor = young(TASK)
    early, late = made(1, "b"), made(2, "b")
    monitor.observe(early, early.end_ns)
    if way == "retract":
        monitor.observe(late, late.end_ns)
    monitor.corrections.prove(early.session, Proof(early.start_ns + 1, b"t" * 16, holds=True))
    (before,) = monitor.judgements()
    if way == "amend":
        fuller = early._replace(start_ns=late.start_ns, end_ns=late.end_ns)
        monitor.corrections.amend(early, fuller, late.end_ns)
        (proven,) = monitor.judgements()
        monitor.corrections.amend(fuller, early, late.end_ns)
    else:
        monitor.corrections.retract(early)
        (proven,) = monitor.judgements()
        monitor.observe(early, late.end_ns)
    (after,) = monitor.judgements()

    assert [each["joined"] for each in (before, proven, after)] == [True, False, True]
    assert proven["harmful"] == 1


def test_an_earlier_call_withdraws_it() -> None:
    """The skipped call arrives late and withdraws the possible harm."""
    monitor = young(TASK)
    monitor.observe(call(2, "b"), START + 3 * SECOND, quiet=True)
    verdicts = monitor.observe(call(1, "a"), START + 4 * SECOND, quiet=True)

    assert [
        (each.tool, each.was_possible, each.possible) for each in verdicts if each.tool == "b"
    ] == [("b", True, False)]
    (found,) = monitor.judgements()
    assert (found["harmful"], found["joined"]) == (0, False)
    assert all("possible" not in step for step in found["steps"])


def test_a_sign_that_the_session_began_before_withdraws_it() -> None:
    """A span of the session that started before the monitor withdraws the possible harm."""
    monitor = young(TASK)
    told(monitor, "b")
    verdicts = monitor.corrections.learn(
        call(1, "b").session,
        START + 3 * SECOND,
        attributes={"service.name": "rover"},
        start_ns=START - SECOND,
    )

    assert [(each.tool, each.was_possible) for each in verdicts] == [("b", True)]


def test_a_call_that_was_none_is_withdrawn() -> None:
    """Its step is removed, and its possible harm is withdrawn."""
    monitor = young(TASK)
    told(monitor, "b")

    assert [
        (each.tool, each.was_possible) for each in monitor.corrections.retract(call(1, "b"))
    ] == [("b", True)]


def test_a_session_that_goes_on_for_certain_reports_nothing() -> None:
    """A later turn of a conversation, as its models were given answers of other traces."""
    monitor = young(TASK)
    verdicts = monitor.observe(call(1, "b"), START + 2 * SECOND, quiet=True, doubted=True)

    assert verdicts == []


def test_a_later_turn_withdraws_it() -> None:
    """A model's span of a later turn withdraws the harm. If that span is withdrawn, the harm is reported again."""
    monitor = young(TASK)
    (before,) = told(monitor, "b")
    withdrawn = monitor.corrections.doubt(before.session, doubted=True)
    (found,) = monitor.judgements()
    again = monitor.corrections.doubt(before.session, doubted=False)

    assert [(each.tool, each.was_possible) for each in withdrawn] == [("b", True)]
    assert "possible" not in found["steps"][0]
    assert [(each.tool, each.possible) for each in again] == [("b", True)]


def test_no_doubt_is_left_of_a_complete_history() -> None:
    """With a complete history, the skipped step is harmful."""
    monitor = young(TASK, history_complete=True)

    assert [(each.kind, each.possible) for each in told(monitor, "b")] == [
        (Kind.HARMFUL, False)
    ]


@pytest.mark.parametrize("complete", [False, True])
def test_a_cause_that_a_complete_history_rules_out_is_not_counted(complete: bool) -> None:
    """The session began before the start, by its times; nothing is doubted if the promise says that it did not."""
    limits = Limits(history_complete=complete)
    monitor = Monitor(specs(TASK), limits, started_ns=START + 3_600 * SECOND)
    monitor.observe(made(2, "b"), START + 3_601 * SECOND)

    assert monitor.gaps.doubts[Cause.SEEN_BEFORE] == (not complete)


def test_the_blame_is_not_on_the_next_call_alone() -> None:
    """`c d` skips two steps; `a` is the first one of a run, and certain harm if the session went on before.

    One harm is certain by then. Which call it is depends on where the session began.
    """
    monitor = young(TASK)
    verdicts = told(monitor, "cda")
    (found,) = monitor.judgements()
    (harmful,) = [each for each in verdicts if each.kind is Kind.HARMFUL]

    assert found["harmful"] == 1
    assert (harmful.tool, harmful.certain_call) == ("a", False)
    assert [step["tool"] for step in found["steps"] if step.get("possible")] == ["c", "d"]
    assert found["steps"][2]["certain_call"] is False


@pytest.mark.parametrize("tools", ["bcd", "cda", "bad", "dcba", "abca"])
def test_what_is_possible_depends_on_no_order_of_arrival(tools: str) -> None:
    """The session's object is the same."""
    calls = [made(number, tool) for number, tool in enumerate(tools, 1)]

    def shown(order: tuple[ToolCall, ...]) -> Any:
        monitor = young(TASK)
        live: set[bytes] = set()
        for each in order:
            for verdict in monitor.observe(each, START + 20 * SECOND, quiet=True):
                live.discard(verdict.span_id)
                if verdict.possible:
                    live.add(verdict.span_id)
        (found,) = monitor.judgements()
        marked = {
            bytes.fromhex(step["span_id"]) for step in found["steps"] if step.get("possible")
        }
        assert live == marked
        return {key: value for key, value in found.items() if key != "coverage"}

    wanted = shown(tuple(calls))
    assert all(shown(order) == wanted for order in permutations(calls))


def test_it_is_counted_once_and_in_no_score() -> None:
    """It has its own counter, from zero on. Neither calls nor sessions count as harmful."""
    monitor = young(TASK)
    told(monitor, "b")
    (pair,) = monitor.totals.pairs.values()

    assert (pair.possible, pair.harms, sum(pair.provisional.values())) == (1, 0, 0)
    monitor.corrections.prove(call(1, "b").session, Proof(START, b"t" * 16, holds=True))
    monitor.corrections.prove(call(1, "b").session, Proof(START, b"t" * 16, holds=False))
    assert pair.possible == 1


def test_a_long_session_keeps_what_was_reported() -> None:
    """Where a session was read for 64 calls, no doubt is carried on, and nothing is withdrawn for it."""
    monitor = young(POLICY)
    verdicts: list[Verdict] = []
    for number in range(1, 200):
        each = call(number, "pay")
        verdicts += monitor.observe(each, each.end_ns, quiet=True)
        monitor.tick(each.end_ns)

    assert sum(each.possible for each in verdicts) >= FOLD_LUMP
    assert not any(each.was_possible for each in verdicts)


@pytest.mark.parametrize("by", [-86_400 * SECOND, 86_400 * SECOND])
@pytest.mark.parametrize("is_over", [False, True])
def test_a_gap_reaches_a_session_also_after_the_clock_was_set(by: int, is_over: bool) -> None:
    """The session was there when something was missed, by the clock of then as by the new one."""
    monitor = Monitor(specs(TASK), Limits(history_complete=True), started_ns=START)
    told(monitor, "a")
    monitor.gaps.missed(START + 2 * SECOND, START + 4 * SECOND)
    monitor.tick(START + 5 * SECOND)
    if is_over:
        monitor.state.judging_state.ledger.forget(START + 7_200 * SECOND)
    now = START + 7_200 * SECOND + by
    monitor.clock_moved(by, now)
    monitor.gaps.missed(now, now + SECOND)
    monitor.observe(call(7_200, "b"), now)

    session = monitor.state.table.live(SessionKey("", "s"))
    assert session is not None
    assert [gap.until_ns for gap in session.gaps] == [START + 4 * SECOND + by, now + SECOND]


def test_the_start_moves_with_a_clock_that_is_set_back() -> None:
    """What the service did not see before its start is as long ago as before, and no longer."""
    monitor = Monitor(specs(TASK), started_ns=START)
    before = monitor.gaps.joined_until_ns()
    monitor.clock_moved(-3_600 * SECOND, START - 3_000 * SECOND)
    assert monitor.gaps.joined_until_ns() == before - 3_600 * SECOND


def test_a_verdict_that_was_provisional_when_a_gap_began_waits_for_what_was_on_its_way() -> (
    None
):
    """A parallel call may have begun before it; it is possible harm by then. One that was final stays harmful."""
    for since, is_certain in ((3, False), (30, True)):
        monitor = Monitor(specs(POLICY), Limits(history_complete=True), started_ns=START)
        (before,) = monitor.observe(call(1, "pay"), START + 2 * SECOND)
        assert before.kind is Kind.HARMFUL
        monitor.tick(START + since * SECOND)
        monitor.gaps.missed(START + since * SECOND, START + (since + 5) * SECOND)
        monitor.tick(START + (since + 5) * SECOND)
        (found,) = monitor.judgements()

        assert found["harmful"] == is_certain
        assert found["steps"][0].get("possible", False) is not is_certain
