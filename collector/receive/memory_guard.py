"""Refuses requests before the process reaches its memory limit, where the system would kill it.

Idea: the other bounds are estimates, because allocators keep freed memory. So the guard measures the
process's resident memory against two marks. Above the first (scarce), requests are read one after the
other, which reuses memory that is free inside the process. Above the second (full), no request is read.
Senders are told to retry later. Meanwhile old spans are forgotten, so memory becomes free again. What is kept to be shown
alone, or to save work, goes first: `relieve` gives it up as soon as memory is scarce. Once a flood is over, and once what it left
behind is forgotten, what is free is returned to the system, whether requests come or not (`tick`).

Example: the limit is 400 MiB. The marks are 360 MiB (the limit less 40 MiB) and 376 MiB (less 24 MiB).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final

from collector.telemetry.counters import MetricReading

__all__ = ["MemoryGuard", "resident_bytes"]

SCARCE: Final = (0.75, 40 << 20)
FULL: Final = (0.85, 24 << 20)
"""The two marks: a share of the limit, or a number of bytes below it, whichever is greater.

The distance to the limit must hold what the requests being read become once they are decoded.
"""
GROWTH: Final = 10
"""Bytes that a body of new sessions takes once decoded and judged, per byte of the body."""
SMALL_BYTES: Final = 1 << 20
"""Bytes of bodies that may be read at a time while memory is scarce."""
TWIN: Final = 1.75
"""Memory that a forked process that writes a snapshot takes in the end, as a multiple of the growth
of this process since its start: pages that its reading changes are copied, and it has a table of
all objects. Measured: 1.6 to 1.85. What the idle process has (code, specs) stays shared."""
TWIN_BYTES: Final = 6 << 20
"""Memory that the forked process takes in addition, however little it writes."""
LOOK_SECONDS: Final = 0.01
"""Shortest interval between two measurements. One takes 3 us."""
TRIM_SECONDS: Final = 5.0
"""Shortest interval at which free memory is returned to the system while memory is scarce."""
REVIEW_SECONDS: Final = 10.0
"""Shortest interval at which that is done while it is not scarce; it takes some milliseconds."""
GROWN: Final = (0.125, 8 << 20)
"""Growth after which it is done again, if the process grows no more: a share of the memory of the
last time, or a number of bytes, whichever is greater."""


class MemoryGuard:
    """Decides whether memory suffices to read more.

    Args:
        limit: bytes.
        resident: returns the resident bytes of the process.
        clock: seconds, monotonic.
        trim: returns memory that is free inside the process to the system.
    """

    def __init__(
        self,
        limit: int,
        resident: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        trim: Callable[[], None] | None = None,
    ) -> None:
        self._limit = limit
        self._scarce, self._full = _mark(limit, *SCARCE), _mark(limit, *FULL)
        self._resident = resident
        self._clock = clock
        self._trim = trim or _trim
        self._bytes = self._idle = resident()
        self._twin = 0
        """Bytes that such a process may take which is at work."""
        self._look_at = clock() + LOOK_SECONDS
        self._trim_at = 0.0
        self._review_at = clock() + REVIEW_SECONDS
        self._reviewed = self._trimmed = self._idle
        """Memory of the process at the last review, and when free memory was returned last, or
        less."""
        self.relieve: Callable[[], object] | None = None
        """Gives up what is kept for comfort alone, while memory is scarce."""
        self.held: Callable[[], int] | None = None
        """Estimated bytes of what the tables keep."""
        self._most_held = 0
        """The most of them at a review since free memory was returned because they had fallen."""

    def has_room(self, held: int, more: int) -> bool:
        """True if `more` bytes may be read in addition to the `held` bytes of bodies."""
        self._look()
        if self._bytes + GROWTH * (held + more) >= self._full:
            return False
        return self._bytes < self._scarce or held + more <= SMALL_BYTES

    def tick(self) -> None:
        """Time has passed: returns free memory to the system, also where no request comes."""
        self._look()
        if (now := self._clock()) < self._review_at:
            return
        self._review_at = now + REVIEW_SECONDS
        found, before = self._resident(), self._reviewed
        grown = max(int(self._trimmed * GROWN[0]), GROWN[1])
        is_over = found - self._trimmed >= grown and found <= before + grown
        if self._has_forgotten(grown) or is_over:
            self._trim()
            found = self._trimmed = self._resident()
        self._trimmed = min(self._trimmed, found)
        self._reviewed = found

    def _has_forgotten(self, much: int) -> bool:
        """True, once, where the tables keep less than they did, by so many bytes: they are free inside the process."""
        held = self.held() if self.held is not None else 0
        self._most_held = max(self._most_held, held)
        if self._most_held - held < much:
            return False
        self._most_held = held
        return True

    def reserve_twin(self) -> bool:
        """True if a forked process that writes all of this one's state fits below the first mark, too.

        Its memory counts as taken until `release_twin`.
        """
        if self._resident() + self._twin_bytes() >= self._scarce:
            self._trim()
        needed = self._twin_bytes()
        if self._resident() + needed >= self._scarce:
            return False
        self._twin = needed
        return True

    def release_twin(self) -> None:
        """The process has ended."""
        self._twin = 0

    def _twin_bytes(self) -> int:
        return TWIN_BYTES + int(TWIN * max(0, self._resident() - self._idle))

    def _look(self) -> None:
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        self._bytes = self._resident() + self._twin
        if self._bytes >= self._scarce and now >= self._trim_at:
            self._trim_at = now + TRIM_SECONDS
            if self.relieve is not None:
                self.relieve()
            self._trim()
            self._bytes = self._resident() + self._twin

    def readings(self) -> Iterator[MetricReading]:
        """The limit, as a metric."""
        yield MetricReading("memory_limit_bytes", [((), self._limit)])


def _mark(limit: int, share: float, below: int) -> int:
    return max(int(limit * share), limit - below)


@cache
def resident_bytes() -> Callable[[], int] | None:
    """A reader of the process's resident bytes; None if the system does not provide them.

    The reader keeps a file open. It is cached, so that a process that starts the service again opens no second one.
    """
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        page = os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None

    def read() -> int:
        return int(os.pread(file, 128, 0).split()[1]) * page

    return read


def _trim() -> None:
    """Returns the free memory that glibc keeps. Other C libraries keep little, or return it by themselves."""
    import ctypes  # half a megabyte, for those that are short of memory

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
