"""Calls whose times are wrong, or may be: their order is not certain."""

from __future__ import annotations

from typing import Any

import pytest

from monitor import Limits, Monitor
from monitor.decision import Answer
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.visibility.cause import Cause
from tests.monitor.test_engine import START, call, specs

TASK = """
id: task
kind: task
match: {service.name: rover}
alphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}}
golden: [[a, b, c]]
"""


class Bench:
    """A monitor that is older than any session."""

    def __init__(self) -> None:
        self.monitor = Monitor(specs(TASK), Limits(), started_ns=START - 7_200 * SECOND)
        self._serial = 0

    def observe(self, tool: str, at: float, received: float, **changes: Any) -> None:
        """A call that ended at a second, and was received at one."""
        self._serial += 1
        end_ns = START + int(at * SECOND)
        made = call(self._serial, tool, start_ns=end_ns - SECOND // 10, end_ns=end_ns)._replace(
            **changes
        )
        self.monitor.observe(made, START + int(received * SECOND))

    @property
    def judged(self) -> tuple[int, int]:
        """Harmful calls, and possibly harmful ones."""
        (found,) = self.monitor.judgements()
        return found["harmful"], sum(bool(each.get("possible")) for each in found["steps"])


@pytest.mark.parametrize("by", [15, 70, 3_600])
def test_a_clock_that_is_set_back_makes_no_call_harmful_for_certain(by: int) -> None:
    """The call comes last, though it says that it was first."""
    bench = Bench()
    bench.observe("a", 1, 1.1)
    bench.observe("b", 3 - by, 3.1)

    harmful, possible = bench.judged
    assert (harmful, possible > 0) == (0, True)
    assert bench.monitor.doubts[Cause.MISTIMED] == 1
    bench.observe("c", 5 - by, 5.1)
    assert bench.judged[0] == 0


def test_a_clock_that_was_ahead_and_is_set_right_makes_no_call_harmful_for_certain() -> None:
    """The call before it seems to be later by almost a minute."""
    bench = Bench()
    bench.observe("a", 60, 1.1)
    bench.observe("b", 3, 3.1)

    assert bench.judged[0] == 0


def test_a_call_that_is_late_by_less_than_the_window_is_where_its_times_say() -> None:
    """Its order is certain, and so is its harm."""
    bench = Bench()
    bench.observe("a", 20, 20.1)
    bench.observe("c", 12, 21)

    assert bench.judged == (1, 0)
    assert bench.monitor.doubts[Cause.MISTIMED] == 0


def test_spans_that_are_all_late_are_where_their_times_say() -> None:
    """A process that exports at its end, in one request or several, has one clock."""
    bench = Bench()
    bench.observe("b", 1, 60)
    bench.observe("a", 30, 60)
    bench.observe("c", 59, 60.1)

    assert bench.judged == (2, 0)
    assert bench.monitor.doubts[Cause.MISTIMED] == 0


@pytest.mark.parametrize("times", [(0, 0), (START + SECOND, START)])
def test_a_call_without_times_may_have_been_made_before_its_receipt(
    times: tuple[int, int],
) -> None:
    """`b` was received between its neighbours, and placed there: `a` may have been before it, and is received later."""
    bench = Bench()
    bench.observe("b", 0, 2, start_ns=times[0], end_ns=times[1])
    bench.observe("c", 2.5, 2.6)

    assert bench.judged[0] == 0


def test_a_request_is_not_late_while_its_tool_runs() -> None:
    """A call that a model asked for is known when its result is, which takes as long as the tool."""
    bench = Bench()
    bench.observe("a", 2, 2.1)
    bench.observe("b", 1, 30, evidence=Evidence.REQUESTED)

    assert bench.monitor.doubts[Cause.MISTIMED] == 0


def test_an_end_that_was_rounded_to_before_the_start_puts_no_call_out_of_place() -> None:
    """A quick call whose end is told in whole milliseconds is where it began, though its request came later."""
    bench = Bench()
    bench.observe("b", 1, 3, start_ns=START + SECOND + 900_000, end_ns=START + SECOND)
    bench.observe("a", 2, 3)

    assert bench.judged == (1, 0)
    assert bench.monitor.doubts[Cause.MISTIMED] == 0


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_calls_that_are_received_at_one_moment_are_compared_with_earlier_ones(
    order: tuple[int, ...],
) -> None:
    """The clock was set back before they were made: their order among themselves shows nothing, whichever it is."""
    bench = Bench()
    bench.observe("a", 100, 100.1)
    late = [("b", 90.0), ("c", 95.0), ("c", 105.0)]
    for number in order:
        bench.observe(late[number][0], late[number][1], 130)

    assert bench.judged[0] == 0
    assert bench.monitor.doubts[Cause.MISTIMED] == 2


def test_a_clock_that_is_set_back_with_ours_makes_no_call_harmful_for_certain() -> None:
    """The calls after it have earlier times; they came after the others, or these were of another clock."""
    bench = Bench()
    bench.observe("a", 1, 1.1)
    bench.monitor.clock_moved(-3_600 * SECOND, START - 3_598 * SECOND)
    bench.observe("b", -3_597, -3_596.9)
    bench.observe("c", -3_595, -3_594.9)

    assert bench.judged[0] == 0
    assert bench.monitor.doubts[Cause.MISTIMED] == 1


def test_harm_among_calls_after_a_clock_was_set_back_with_ours_is_certain() -> None:
    """Two calls of the new time are in their order."""
    bench = Bench()
    bench.observe("a", 1, 1.1)
    bench.monitor.clock_moved(-3_600 * SECOND, START - 3_598 * SECOND)
    bench.observe("c", -3_597, -3_596.9)
    bench.observe("b", -3_595, -3_594.9)

    assert bench.judged[0] == 1


def test_an_end_that_is_told_later_puts_no_parallel_call_out_of_place() -> None:
    """A call that ran is received again at its end; one that ended shortly before comes after it."""
    bench = Bench()
    bench.observe("a", 1, 1.1)
    running = call(99, "b", start_ns=START + 2 * SECOND, end_ns=START + 2 * SECOND)
    running = running._replace(evidence=Evidence.REQUESTED)
    bench.monitor.observe(running, START + 3 * SECOND)
    whole = running._replace(evidence=Evidence.EXECUTED, end_ns=START + 50 * SECOND)
    bench.monitor.amend(running, whole, START + 51 * SECOND)
    bench.observe("c", 49, 52)

    assert bench.monitor.doubts[Cause.MISTIMED] == 0


def test_a_decision_allows_for_times_that_are_wrong_as_the_verdict_does() -> None:
    """A call whose time contradicts the order of receipts may be in its place: it is asked about, then observed."""
    bench = Bench()
    bench.observe("a", 20, 20.1)
    late = call(9, "c", start_ns=START + SECOND, end_ns=START + 2 * SECOND)

    asked = bench.monitor.decide(late, START + 21 * SECOND)
    bench.monitor.observe(late, START + 21 * SECOND)

    assert [each.answer for each in asked.specs] == [Answer.UNKNOWN]
    assert bench.judged[0] == 0
