"""What things cost: their time grows with the calls, their memory stays in bounds. Nothing is timed: functions and bytes are counted."""

from __future__ import annotations

import pytest

from monitor import Limits, Monitor
from tests.bench.things import SPEC, bytes_of_a_thing, dropped, function_calls, played

pytestmark = pytest.mark.plain

BYTES_MAX = 300


@pytest.mark.parametrize("shared", [False, True])
def test_a_session_of_many_things_costs_as_much_a_call(shared: bool) -> None:
    """Four times the things cost four times the work, also with a call of all things after every tenth."""
    few = function_calls(lambda: played(200, shared=shared))
    many = function_calls(lambda: played(800, shared=shared))
    assert many < 1.1 * 4 * few


def test_a_live_thing_takes_at_most_300_bytes() -> None:
    """What a session grows by with each further thing."""
    assert bytes_of_a_thing(500, 1_500) <= BYTES_MAX


def test_an_agent_that_invents_ids_is_bounded_and_counted() -> None:
    """A session keeps `things_max` of them, and each that is dropped is counted: none is lost in silence."""
    assert SPEC is not None
    monitor = Monitor([SPEC], Limits(history_complete=True, window_ns=10, things_max=256))
    played(3_000, monitor=monitor)
    [found] = monitor.find("s")
    assert found["things_count"] < 256 + 160
    assert dropped(monitor) == 3_000 - found["things_count"]


def test_the_work_of_an_agent_that_invents_ids_stays_the_same() -> None:
    """Past the bound, a further id costs no more than one before it."""
    assert SPEC is not None
    limits = Limits(history_complete=True, window_ns=10, things_max=256)
    below, beyond = Monitor([SPEC], limits), Monitor([SPEC], limits)
    few = function_calls(lambda: played(500, monitor=below))
    played(2_000, monitor=beyond)
    more = function_calls(lambda: played(500, monitor=beyond, first=2_000))
    assert more < 1.25 * few
