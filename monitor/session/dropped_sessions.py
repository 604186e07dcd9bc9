"""Remembers which sessions were dropped: a bounded set of hashes of their keys, 8 bytes each.

A session that continues after its state was dropped is not new: its first calls are lost, so it is read
as joined.
"""

from __future__ import annotations

from array import array
from typing import Final

from monitor.records import SessionKey

__all__ = ["Forgotten"]

ROWS: Final = 1 << 15
WAYS: Final = 8
"""Hashes in a row. The ninth replaces the first."""

_MASK: Final = (1 << 64) - 1


class Forgotten:
    """Remembers the keys of about the last 250,000 dropped sessions, in 2 MiB.

    False positives: one key in 2^46. False negatives: keys that were dropped long ago.
    """

    __slots__ = ("_next", "_rows", "lost")

    def __init__(self) -> None:
        self._rows: array[int] | None = None
        self._next = bytearray()
        self.lost = 0
        """The number of keys that others have replaced: their sessions would pass as new."""

    def __contains__(self, key: SessionKey) -> bool:
        rows = self._rows
        if rows is None:
            return False
        mark = _mark(key)
        first = mark % ROWS * WAYS
        return mark in rows[first : first + WAYS]

    def add(self, key: SessionKey) -> None:
        """Adds the key of a session whose state is dropped."""
        if self._rows is None:
            self._rows = array("Q", bytes(8 * ROWS * WAYS))
            self._next = bytearray(ROWS)
        mark = _mark(key)
        row = mark % ROWS
        first = row * WAYS
        if mark in self._rows[first : first + WAYS]:
            return
        place = first + self._next[row]
        self.lost += self._rows[place] != 0
        self._rows[place] = mark
        self._next[row] = (self._next[row] + 1) % WAYS


def _mark(key: SessionKey) -> int:
    """A hash of 64 bits, never 0."""
    return hash((key.namespace, key.id)) & _MASK or 1
