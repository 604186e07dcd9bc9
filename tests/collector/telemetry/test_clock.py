"""A process that stood still reads what came meanwhile before time goes on."""

from __future__ import annotations

from collections.abc import Iterable

from collector.telemetry.clock import REST_MAX_NS, Standstill

TICK = 250_000_000


def passes(gaps: Iterable[int]) -> list[bool]:
    """Whether time goes on at each tick, by the nanoseconds since the one before."""
    now = [1]
    standstill = Standstill(lambda: now[0])
    found = [standstill.is_over()]
    for gap in gaps:
        now[0] += gap
        found.append(standstill.is_over())
    return found


def test_time_goes_on_while_ticks_come() -> None:
    """A tick that is a little late is no standstill."""
    assert all(passes([TICK, TICK + TICK // 2, TICK]))


def test_time_rests_after_a_standstill_for_as_long_as_that_was() -> None:
    """What was sent meanwhile is read first."""
    assert passes([TICK, 4 * TICK, TICK, TICK, TICK, TICK]) == [True, True] + [False] * 4 + [
        True
    ]


def test_a_rest_is_bounded() -> None:
    """After a night of sleep, time rests for some seconds."""
    ticks = REST_MAX_NS // TICK
    assert passes([10**13, *([TICK] * ticks)]).count(False) == ticks


def test_time_goes_on_though_every_tick_is_late() -> None:
    """A process that is overloaded all the time delivers what is final, a little later."""
    assert passes([4 * TICK] * 9).count(True) == 5
