"""The only place where the process reads the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["JUMP_NS", "ClockWatch", "ReplayClock", "now_ns", "steady_ns"]

JUMP_NS: Final = 5_000_000_000
"""Less is what services that keep clocks right do all the time."""


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
