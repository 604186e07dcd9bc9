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


# An end long before the start.
NO_TIMES = {"start_ns": START + 2 * SECOND, "end_ns": START}


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


def test_spans_that_are_all_late_are_where_their_times_say() -> None:
    """A process that exports at its end, in one request or several, has one clock."""
    bench = Bench()
    bench.observe("b", 1, 60)
    bench.observe("a", 30, 60)
    bench.observe("c", 59, 60.1)

    assert bench.judged == (2, 0)
    assert bench.monitor.gaps.doubts[Cause.MISTIMED] == 0


@pytest.mark.parametrize("times", [(0, 0), (START + SECOND, START)])
def test_a_call_without_times_may_have_been_made_before_its_receipt(
    times: tuple[int, int],
) -> None:
    """`b` was received between its neighbours, and placed there: `a` may have been before it, and is received later."""
    bench = Bench()
    bench.observe("b", 0, 2, start_ns=times[0], end_ns=times[1])
    bench.observe("c", 2.5, 2.6)

    assert bench.judged[0] == 0


def test_a_call_of_which_a_later_span_has_no_times_may_have_been_made_before() -> None:
    """The server's span of `a` has times, and the client's above it has none: `a` is placed by its receipt, behind `b`."""
    bench = Bench()
    bench.observe("b", 2, 2.1, start_ns=0, end_ns=START + int(2.1 * SECOND))
    known = call(9, "a", start_ns=START + SECOND, end_ns=START + 2 * SECOND)
    received = START + int(2.5 * SECOND)
    bench.monitor.observe(known, received)
    bench.monitor.corrections.amend(
        known, known._replace(start_ns=0, end_ns=received), received
    )
    bench.observe("c", 2.9, 3)

    assert bench.judged[0] == 0


@pytest.mark.parametrize("first", [True, False])
def test_a_call_without_times_may_be_before_those_of_a_clock_that_is_behind(
    first: bool,
) -> None:
    """`b` says that it was a minute before `a`, which tells no times, and was received within a second of it."""
    bench = Bench()
    if first:
        bench.observe("a", 0, 60, **NO_TIMES)
    bench.observe("b", 1, 61)
    if not first:
        bench.observe("a", 0, 61.5, **NO_TIMES)

    assert bench.judged == (0, 1)


@pytest.mark.parametrize("first", [True, False])
def test_a_call_without_times_may_be_behind_those_of_a_clock_that_is_ahead(first: bool) -> None:
    """`a` says that it was most of a minute after `b`, which tells no times, and was received within a second of it."""
    bench = Bench()
    if first:
        bench.observe("b", 0, 2, **NO_TIMES)
    bench.observe("a", 57, 1.5)
    if not first:
        bench.observe("b", 0, 2, **NO_TIMES)
    bench.observe("c", 59, 3)

    assert bench.judged[0] == 0


def test_what_comes_long_after_a_call_without_times_is_behind_it() -> None:
    """A clock that is ahead leaves later calls in their order: the second `c` came more than the window after `b`."""
    bench = Bench()
    bench.observe("b", 0, 2, **NO_TIMES)
    bench.observe("a", 56, 1.5)
    bench.observe("c", 69, 14)
    bench.observe("c", 70, 15)

    assert bench.judged[0] == 1


def test_a_call_that_was_received_long_before_is_before_one_without_times() -> None:
    """Only what was received when a call without times may have been made can have been behind it."""
    bench = Bench()
    bench.observe("b", 1, 20)
    bench.observe("a", 0, 61, **NO_TIMES)

    assert bench.judged[0] == 1


def test_a_call_without_a_start_was_made_by_its_end() -> None:
    """A call that is told again long after is where it was: before `b`, though it is received behind it."""
    bench = Bench()
    bench.observe("b", 30, 30.1)
    bench.observe("a", 2, 60, start_ns=0)

    assert bench.judged == (0, 0)


@pytest.mark.parametrize("received", [(20, 21), (20, 90)])
def test_a_late_call_is_where_its_times_say(received: tuple[float, float]) -> None:
    """A request that was sent again comes after later ones: its harm is as certain as in order."""
    bench = Bench()
    bench.observe("a", 20, received[0])
    bench.observe("c", 12, received[1])

    assert bench.judged == (1, 0)
    assert bench.monitor.gaps.doubts[Cause.MISTIMED] == 0


def test_a_request_is_not_late_while_its_tool_runs() -> None:
    """A call that a model asked for is known when its result is, which takes as long as the tool."""
    bench = Bench()
    bench.observe("a", 2, 2.1)
    bench.observe("b", 1, 30, evidence=Evidence.REQUESTED)

    assert bench.monitor.gaps.doubts[Cause.MISTIMED] == 0


def test_an_end_that_was_rounded_to_before_the_start_puts_no_call_out_of_place() -> None:
    """A quick call whose end is told in whole milliseconds is where it began, though its request came later."""
    bench = Bench()
    bench.observe("b", 1, 3, start_ns=START + SECOND + 900_000, end_ns=START + SECOND)
    bench.observe("a", 2, 3)

    assert bench.judged == (1, 0)
    assert bench.monitor.gaps.doubts[Cause.MISTIMED] == 0


def test_a_decision_allows_for_times_that_are_wrong_as_the_verdict_does() -> None:
    """A call without a start may be in its place: it is asked about, then observed."""
    bench = Bench()
    bench.observe("a", 20, 20.1)
    late = call(9, "c", start_ns=0, end_ns=START + 20 * SECOND)

    asked = bench.monitor.decide(late, START + 21 * SECOND)
    bench.monitor.observe(late, START + 21 * SECOND)

    assert [each.answer for each in asked.specs] == [Answer.UNKNOWN]
    assert bench.judged[0] == 0
