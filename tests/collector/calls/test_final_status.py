"""A span that is sent again with another status: the one of the latest end counts."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from monitor.visibility.cause import Cause
from tests.collector.conftest import BASE, SECOND

OK, FAILED = 1, 2


def _told(wire: Any, *told: tuple[float, int]) -> list[Any]:
    """One span, once for each (end, status)."""
    return [wire.tool("check", id="a", start=0, end=end, status=status) for end, status in told]


@pytest.mark.parametrize(
    ("told", "error"),
    [
        (((1, FAILED), (2, OK)), False),
        (((1, OK), (2, FAILED)), True),
        (((1, FAILED), (2, OK), (3, FAILED)), True),
        (((1, OK), (1, FAILED), (2, OK)), False),
    ],
)
def test_the_status_of_the_latest_end_counts(
    wire: Any, bench: Any, told: Any, error: bool
) -> None:
    """Whatever the order of arrival, and however often each is sent."""
    for order in permutations(_told(wire, *told)):
        made = bench().send(*order, *order)
        (call,) = made.judged()
        assert (call.error, call.doubts) == (error, ())
        assert call.end_ns == BASE + told[-1][0] * SECOND
        (step,) = made.steps()
        assert step["error"] is error


@pytest.mark.parametrize("more", [(), ((1, OK),), ((1, FAILED), (1, FAILED))])
def test_two_statuses_of_one_end_leave_the_outcome_open(
    wire: Any, bench: Any, more: Any
) -> None:
    """Nothing tells which was sent last: the call failed or not, which is counted once, in all and in its session."""
    for order in permutations(_told(wire, (1, OK), (1, FAILED), *more)):
        made = bench().send(*order)
        assert made.doubts() == [("check", (Cause.CONTRADICTED,))]
        assert made.covered("contradicted") == 1
        (judgement,) = made.monitor.judgements()
        assert judgement["coverage"]["not_judged"]["contradicted"] == 1


def test_a_later_status_settles_a_part_of_a_call(wire: Any, bench: Any) -> None:
    """A call of two spans failed as long as one of them says so, whichever that is at last."""
    outer = wire.tool("check", id="o", start=0, end=5, call_id="c")
    for order in permutations(
        [
            outer,
            wire.tool("check", id="i", parent="o", start=1, end=2, call_id="c", status=FAILED),
            wire.tool("check", id="i", parent="o", start=1, end=4, call_id="c", status=OK),
        ]
    ):
        (call,) = bench().send(*order).judged()
        assert (call.error, call.doubts) == (False, ())


def test_a_failure_told_by_a_span_below_stays(wire: Any, bench: Any) -> None:
    """A copy of a span does not take back what another span says of its call."""
    spans = _told(wire, (1, OK), (2, OK))
    inner = wire.tool("check", id="i", parent="a", start=0.5, end=0.9, status=FAILED)
    for order in permutations([*spans, inner]):
        (call,) = bench().send(*order).judged()
        assert call.error


def test_a_copy_of_a_span_changes_nothing(wire: Any, bench: Any) -> None:
    """Equal copies, and those of an earlier end, are duplicates."""
    made = bench().send(*_told(wire, (2, OK), (2, OK), (1, FAILED)))
    assert made.covered("duplicate") == 2
    (call,) = made.judged()
    assert not call.error
