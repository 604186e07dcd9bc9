"""Calls whose times are wrong, or may be: their order is not certain."""

from __future__ import annotations

from collections.abc import Mapping
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
NO_TIMES: Mapping[str, Any] = {"start_ns": START + 2 * SECOND, "end_ns": START}


class Bench:
    """A monitor that is older than any session."""

    def __init__(self) -> None:
        self.monitor = Monitor(specs(TASK), Limits(), started_ns=START - 7_200 * SECOND)
        self._serial = 0

    def observe(
        self, tool: str, at: float, received: float, *, timed: bool = False, **changes: Any
    ) -> None:
        """A call that ended at a second, and was received at one."""
        self._serial += 1
        end_ns = START + int(at * SECOND)
        made = call(self._serial, tool, start_ns=end_ns - SECOND // 10, end_ns=end_ns)._replace(
            **changes
        )
        self.monitor.observe(made, START + int(received * SECOND), timed=timed)

    def vouch(self, ended: float, sender: Mapping[str, str]) -> None:
        """Another span of the session, which was received as it ended."""
        (session,) = self.monitor._table.latest()
        self.monitor.corrections.vouch(session.key, sender, START + int(ended * SECOND))

    @property
    def judged(self) -> tuple[int, int]:
        """Harmful calls, and possibly harmful ones."""
        (found,) = self.monitor.judgements()
        return found["harmful"], sum(bool(each.get("possible")) for each in found["steps"])

    @property
    def doubts(self) -> tuple[int, int]:
        """Doubts in senders' clocks, and times that are wrong for certain."""
        found = self.monitor.gaps.doubts
        return found[Cause.SET_BACK], found[Cause.MISTIMED]


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


def test_a_late_call_is_where_its_times_say() -> None:
    """A request that is sent again within the window comes after later ones: its harm is as certain as in order."""
    bench = Bench()
    bench.observe("a", 20, 20)
    bench.observe("c", 12, 21)

    assert bench.judged == (1, 0)
    assert bench.doubts == (0, 0)


def test_a_call_that_is_behind_by_more_than_the_window_is_late_or_of_a_clock_that_was_set_back() -> (
    None
):
    """`a` seems to be before `b`, and was received behind it: both may be right, and nothing shows yet which is."""
    bench = Bench()
    bench.observe("b", 20, 20)
    bench.observe("a", 12, 30)

    assert bench.judged == (0, 0)
    assert bench.doubts == (1, 0)

    bench.observe("c", 14, 32)

    assert bench.judged == (0, 1)
    assert bench.doubts == (2, 0)


def test_a_later_call_that_comes_in_time_shows_that_the_clock_is_right() -> None:
    """Calls before `d` are late then: the harm is certain again. A sender whose clock is set back sends no such call."""
    bench = Bench()
    bench.observe("a", 20, 20)
    bench.observe("c", 12, 90)
    assert bench.judged == (0, 1)

    bench.observe("b", 95, 95.1)

    assert bench.judged == (1, 0)


@pytest.mark.parametrize(
    ("ended", "sender"),
    [
        (89, {"service.name": "rover"}),  # before the late call was received
        (95, {"service.name": "rover", "host.name": "other"}),
    ],
)
def test_other_spans_show_nothing_of_a_clock(ended: float, sender: dict[str, str]) -> None:
    """A span from before the doubt, or of another host, leaves the harm possible."""
    bench = Bench()
    bench.observe("a", 20, 20)
    bench.observe("c", 12, 90)

    bench.vouch(ended, sender)

    assert bench.judged == (0, 1)


def test_a_call_below_a_span_that_came_in_time_is_late() -> None:
    """The clock was right when the span above had ended, and so behind the call's end."""
    bench = Bench()
    bench.observe("a", 20, 20)
    bench.observe("c", 12, 90, timed=True)

    assert bench.judged == (1, 0)
    assert bench.doubts == (0, 0)


def test_calls_of_one_clock_that_was_set_back_are_one_gap() -> None:
    """However many there are: the session allows for them as one, and one span in time ends it."""
    bench = Bench()
    bench.observe("a", 1_000, 1_000)
    for second in range(40):
        bench.observe("c", 12 + second, 1_001 + second)

    (session,) = bench.monitor._table.latest()
    assert [each.cause for each in session.gaps] == [Cause.SET_BACK]

    bench.vouch(1_100, {"service.name": "rover"})

    assert session.gaps == ()


def test_a_clock_that_was_ahead_was_set_back_for_certain() -> None:
    """`a` seems to have ended half a minute after its receipt: a later call in time does not show that its times are right."""
    bench = Bench()
    bench.observe("a", 40, 10)
    bench.observe("b", 12, 12)
    bench.observe("c", 14, 14)

    assert bench.judged[0] == 0
    assert bench.doubts[1] > 0


def test_a_right_call_beside_those_that_were_moved_back_may_be_behind_them() -> None:
    """By how much a clock is ahead is known to the time that the first call took to arrive: `a` may be before `b`."""
    bench = Bench()
    bench.observe("a", 101, 1.8)
    bench.observe("b", 1.7, 2)

    assert bench.judged[0] == 0
    assert bench.doubts[1] == 1


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
