"""The clock of a rollout: the real one, or the recorded one, which only recorded durations move."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

from collector.telemetry.clock import now_ns

__all__ = ["LiveClock", "RecordedClock", "RolloutClock"]

SECOND: Final = 1_000_000_000

RECORDED_START_NS: Final = 1_750_000_000 * SECOND
"""Unix nanoseconds at which an offline rollout begins."""
STEP_NS: Final = 1_000
"""Nanoseconds that each look at the recorded clock takes, so that calls have an order."""


class RolloutClock(Protocol):
    """Time as a rollout sees it."""

    def now_ns(self) -> int:
        """Unix nanoseconds; later at each look."""
        ...

    def passed(self, seconds: float) -> None:
        """A user took so long, as recorded."""
        ...

    def ended_ns(self, began_ns: int, seconds: float) -> int:
        """Unix nanoseconds of the end of a call that has just ended.

        Args:
            began_ns: when it began; other calls may have begun since.
            seconds: how long it took, as recorded.
        """
        ...

    def sleep(self, seconds: float) -> None:
        """Waits."""
        ...


class LiveClock:
    """The clock of this machine. Safe for threads."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        """Unix nanoseconds; later at each look."""
        with self._lock:
            self._last = max(now_ns(), self._last + 1)
            return self._last

    def passed(self, seconds: float) -> None:
        """Nothing: the time has passed."""

    def ended_ns(self, began_ns: int, seconds: float) -> int:  # noqa: ARG002 - what is recorded is of another day
        """Now."""
        return self.now_ns()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


class RecordedClock:
    """A clock that stands still but for what is recorded. Safe for threads."""

    def __init__(self) -> None:
        self._now = RECORDED_START_NS
        self._lock = threading.Lock()

    def now_ns(self) -> int:
        """Unix nanoseconds; later at each look."""
        with self._lock:
            self._now += STEP_NS
            return self._now

    def ended_ns(self, began_ns: int, seconds: float) -> int:
        """Unix nanoseconds of the end, whichever thread asks first."""
        ended = began_ns + round(seconds * SECOND) + STEP_NS
        with self._lock:
            self._now = max(self._now, ended)
        return ended

    def passed(self, seconds: float) -> None:
        """Moves on by a recorded duration."""
        self._now += round(seconds * SECOND)

    def sleep(self, seconds: float) -> None:
        """Moves on, and waits for nobody."""
        self.passed(seconds)
