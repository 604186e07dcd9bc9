"""Drops spans that were judged before: exporters send a request again when its answer is lost.

Invariant: a key is found again for at least one period after it was last added, unless its tenant has filled more
than its share of the filter.
Forgetting costs nothing per span: a whole generation of keys is dropped at once.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

__all__ = ["DuplicateFilter"]

PARTS: Final = 16
"""Each part has sets of its own: one set of a million keys takes 40 ms to grow or to free."""
_IDS: Final = 24
"""Bytes of a key that are its ids; the namespace follows."""
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
        if now < part.since:  # the clock was set back
            part.since = now
        if now - part.since >= self._period_ns:
            part.old, part.young, part.since = young, set(), now
            young, known = part.young, 0
        elif known >= self._bound:
            part.old, part.young = young, _of_small_tenants(young, self._bound)
            young = part.young
            known = len(young)
            if not known:
                part.since = now
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


def _of_small_tenants(keys: set[bytes], bound: int) -> set[bytes]:
    """The keys of tenants that have no more than half a fair share of the bound."""
    counts: Counter[bytes] = Counter()
    for key in keys:
        counts[_tenant(key)] += 1
    share = bound // (2 * len(counts))
    small = {tenant for tenant, count in counts.items() if count <= share}
    return {key for key in keys if _tenant(key) in small} if small else set()


def _tenant(key: bytes) -> bytes:
    return key[_IDS:].partition(b"/")[0]
