"""The only place where the process reads the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["JUMP_NS", "ClockWatch", "ReplayClock", "Standstill", "now_ns", "steady_ns"]

JUMP_NS: Final = 5_000_000_000
"""Less is what services that keep clocks right do all the time."""

STOOD_NS: Final = 500_000_000
"""A ticker that comes later than this did not run meanwhile, nor did anything else of the process."""

REST_MAX_NS: Final = 5_000_000_000
"""Longest time that the clock stands still after a pause of the process."""


def now_ns() -> int:
    """Unix time in nanoseconds."""
    return time.time_ns()


def steady_ns() -> int:
    """Nanoseconds since some moment, by a clock that nobody sets, and that runs on in standby."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock)


class ClockWatch:
    """Notices when the wall clock is set.

    Args:
        wall: Unix time in nanoseconds.
        steady: nanoseconds of a clock that is never set.
    """

    def __init__(self, wall: Callable[[], int], steady: Callable[[], int]) -> None:
        self._wall = wall
        self._steady = steady
        self._ahead = wall() - steady()

    def moved(self) -> int:
        """By how many nanoseconds the wall clock was set since the last look; 0 below `JUMP_NS`."""
        ahead = self._wall() - self._steady()
        by, self._ahead = ahead - self._ahead, ahead
        return by if abs(by) >= JUMP_NS else 0


class Standstill:
    """Notices that the process stood still (stopped, suspended, out of processor time), and has time wait for as long again.

    What was sent meanwhile is in the sockets. It came before what time brings (final verdicts, pages), so it is read first.

    Args:
        steady: nanoseconds of a clock that is never set.
    """

    def __init__(self, steady: Callable[[], int] = steady_ns) -> None:
        self._steady = steady
        self._ticked_ns = 0
        self._rests_until_ns = 0

    def is_over(self) -> bool:
        """False while time is not to go on. A ticker asks each time; between two rests it goes on at least once."""
        now, before = self._steady(), self._ticked_ns
        self._ticked_ns = now
        if self._rests_until_ns:
            if now < self._rests_until_ns:
                return False
            self._rests_until_ns = 0
        elif before and now - before >= STOOD_NS:
            self._rests_until_ns = now + min(now - before, REST_MAX_NS)
            return False
        return True


class ReplayClock:
    """A clock that stands still at times of the past while these are gone through again.

    Args:
        clock: Unix nanoseconds.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.at_ns: int | None = None
        """The time of then; None for the present."""

    def __call__(self) -> int:
        """Unix nanoseconds."""
        return self._clock() if self.at_ns is None else self.at_ns

    def present(self) -> int:
        """The present, whatever time is gone through again."""
        return self._clock()
