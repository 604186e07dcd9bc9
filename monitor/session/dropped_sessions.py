"""Remembers which sessions were dropped: a bounded set of hashes of their keys, 8 bytes each.

A session that continues after its state was dropped is not new: its first calls are lost, so it is read
as joined.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from monitor.records import SessionKey

__all__ = ["DroppedSessions", "mark_of"]

ROWS: Final = 1 << 15
WAYS: Final = 8
"""Hashes in a row. The ninth replaces the first."""

_MARK_BYTES: Final = 8


class DroppedSessions:
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
        mark = mark_of(key)
        first = mark % ROWS * WAYS
        return mark in rows[first : first + WAYS]

    def marks(self) -> Iterator[int]:
        """The marks of all keys that are remembered."""
        return (mark for mark in self._rows or () if mark)

    def add(self, key: SessionKey) -> None:
        """Adds the key of a session whose state is dropped."""
        self.add_mark(mark_of(key))

    def add_mark(self, mark: int) -> None:
        """The same by the key's mark."""
        if self._rows is None:
            self._rows = array("Q", bytes(8 * ROWS * WAYS))
            self._next = bytearray(ROWS)
        row = mark % ROWS
        first = row * WAYS
        if mark in self._rows[first : first + WAYS]:
            return
        place = first + self._next[row]
        self.lost += self._rows[place] != 0
        self._rows[place] = mark
        self._next[row] = (self._next[row] + 1) % WAYS


def mark_of(key: SessionKey) -> int:
    """A hash of 64 bits, never 0; the same in every process."""
    text = f"{key.namespace}\0{key.id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=_MARK_BYTES).digest(), "little") or 1
