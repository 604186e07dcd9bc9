"""A queue of session keys by the time at which each is due for review.

Idea: nearly all keys arrive in the order of their times. Arrays hold these, at 16 bytes each. A heap
holds the others, at seven times as much.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Container
from typing import Final

from monitor.records import SessionKey

__all__ = ["DueQueue"]

_LATEST: Final = 2**62 - 1
"""A time in the year 2116. Later times, which wrong clocks may give, go to the heap."""


class DueQueue:
    """Session keys by the time at which they are due. Times are Unix nanoseconds."""

    __slots__ = ("_done", "_keys", "_last", "_others", "_times")

    def __init__(self) -> None:
        self._times = array("q")
        self._keys: list[SessionKey] = []
        self._done = 0
        """The number of entries at the front of the arrays that were taken."""
        self._last = 0
        """The latest time in the arrays."""
        self._others: list[tuple[int, SessionKey]] = []

    def __len__(self) -> int:
        return len(self._times) - self._done + len(self._others)

    def put(self, due_ns: int, key: SessionKey) -> None:
        """Adds a key that is due at a time."""
        if self._last <= due_ns <= _LATEST:
            self._last = due_ns
            self._times.append(due_ns)
            self._keys.append(key)
        else:
            heapq.heappush(self._others, (due_ns, key))

    def times_of(self, keys: Container[SessionKey]) -> dict[SessionKey, int]:
        """When each of these keys is due first, of those that are in the queue. It looks at all entries."""
        found: dict[SessionKey, int] = {}
        for place in range(self._done, len(self._times)):
            key = self._keys[place]
            if key in keys:
                found.setdefault(key, self._times[place])
        for due_ns, key in self._others:
            if key in keys:
                found[key] = min(due_ns, found.get(key, due_ns))
        return found

    def take(self, now: int) -> list[SessionKey]:
        """Removes and returns the keys that are due by now, ordered by time, then key."""
        times, others, first = self._times, self._others, self._done
        end = first
        while end < len(times) and times[end] <= now:
            end += 1
        found = [(times[place], self._keys[place]) for place in range(first, end)]
        while others and others[0][0] <= now:
            found.append(heapq.heappop(others))
        self._forget(end)
        found.sort()
        return [key for _, key in found]

    def _forget(self, done: int) -> None:
        """Deletes taken entries once they are half of all, since each deletion moves the rest."""
        if 2 * done >= len(self._times):
            del self._times[:done], self._keys[:done]
            done = 0
            if not self._times:
                self._last = 0
        self._done = done
