"""Refuses requests before the process reaches its memory limit, where the system would kill it.

Bounds are estimates: allocators keep memory, and some things have bounds of their own. So the guard
looks at what the process takes. From a first mark on, requests are read one after the other, which
reuses memory that is free inside the process; from a second one on, none is read. Senders are told to try
again later, and what is kept of spans is forgotten meanwhile, so memory becomes free again.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final

from collector.telemetry.counters import Reading

__all__ = ["MemoryGuard", "resident_bytes"]

SCARCE: Final = (0.75, 40 << 20)
FULL: Final = (0.85, 24 << 20)
"""From where on requests are read one after the other, and none: what they become, decoded, must fit.

Share of the limit, and so many bytes below it; what comes last.
"""
GROWTH: Final = 10
"""What bodies of new sessions become, in their own sizes: decoded, and kept of their spans and sessions."""
SMALL_BYTES: Final = 1 << 20
"""Of bodies being read where memory is scarce."""
LOOK_SECONDS: Final = 0.01
"""How often the process's memory is looked at, at most: 3 us."""
TRIM_SECONDS: Final = 5.0
"""How often memory that is free inside the process is given back, at most, where it is scarce."""


class MemoryGuard:
    """Says whether there is memory for so much more.

    Args:
        limit: bytes.
        resident: what the process takes.
        clock: seconds, monotonic.
        trim: gives back what is free inside the process.
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
        self._bytes = resident()
        self._look_at = clock() + LOOK_SECONDS
        self._trim_at = 0.0

    def has_room(self, held: int, more: int) -> bool:
        """True where so many bytes more may be read, beside those of bodies that are held."""
        self._look()
        if self._bytes + GROWTH * (held + more) >= self._full:
            return False
        return self._bytes < self._scarce or held + more <= SMALL_BYTES

    def _look(self) -> None:
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        self._bytes = self._resident()
        if self._bytes >= self._scarce and now >= self._trim_at:
            self._trim_at = now + TRIM_SECONDS
            self._trim()
            self._bytes = self._resident()

    def readings(self) -> Iterator[Reading]:
        """The limit, as a metric."""
        yield Reading("memory_limit_bytes", [((), self._limit)])


def _mark(limit: int, share: float, below: int) -> int:
    return max(int(limit * share), limit - below)


@cache
def resident_bytes() -> Callable[[], int] | None:
    """Reads what the process takes, resident; None where the system does not say.

    The reader keeps a file open. There is one for the process, however often the service is started in it.
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
    """Gives back what glibc keeps; other C libraries keep little, or do it by themselves."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
