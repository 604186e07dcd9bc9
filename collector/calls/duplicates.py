"""Drops spans that were judged before: exporters send a request again when its answer is lost.

Invariant: a key is found again for at least one period after it was last added, unless the filter is full.
Forgetting costs nothing per span: a whole generation of keys is dropped at once.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DuplicateFilter"]

PARTS: Final = 16
"""Each part has sets of its own: one set of a million keys takes 40 ms to grow or to free."""
_PART_AT: Final = (9, 15)
"""Two bytes of the trace id choose the part: not every byte of an id is random."""


class _Part:
    """Two generations of keys. The young one becomes the old one after a period, or at its bound."""

    __slots__ = ("old", "since", "young")

    def __init__(self) -> None:
        self.young: set[bytes] = set()
        self.old: set[bytes] = set()
        self.since = 0


class DuplicateFilter:
    """Remembers the ids of judged spans for one to two periods, and at most twice `bound` of them.

    Args:
        period_ns: length of a period, Unix nanoseconds.
        bound: number of ids after which a period ends early.
    """

    def __init__(self, period_ns: int = 600 * 1_000_000_000, bound: int = 1_000_000) -> None:
        self._period_ns = period_ns
        self._bound = bound // PARTS
        self._parts = [_Part() for _ in range(PARTS)]

    def is_repeat(self, key: bytes, now: int) -> bool:
        """Adds a key that begins with a trace id; True if it was known."""
        part = self._part(key)
        young = part.young
        known = len(young)
        if now - part.since >= self._period_ns or known >= self._bound:
            part.old, part.young, part.since = young, set(), now
            young, known = part.young, 0
        young.add(key)
        if len(young) == known:
            return True
        if key in part.old:
            young.discard(key)
            return True
        return False

    def forget(self, key: bytes) -> None:
        """Removes a key: its span was not judged after all."""
        part = self._part(key)
        part.young.discard(key)
        part.old.discard(key)

    def __contains__(self, key: bytes) -> bool:
        part = self._part(key)
        return key in part.young or key in part.old

    def _part(self, key: bytes) -> _Part:
        return self._parts[(key[_PART_AT[0]] ^ key[_PART_AT[1]]) % PARTS]
