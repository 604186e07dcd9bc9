"""Sights that were worked out already: most sessions of a service share their gaps."""

from __future__ import annotations

from typing import Final

from monitor.visibility.gap import Gap
from monitor.visibility.sight import Sight, sight_of

__all__ = ["Sights"]

SIGHTS_MAX: Final = 4_096
"""Sights that are kept; at the bound, all are forgotten."""

GAPS_MAX: Final = 1 << 18
"""Gaps of all sights that are kept: a sight may have a thousand. At the bound, all are forgotten, too."""

_Key = tuple[int, tuple[int, ...], tuple[Gap, ...]]


class Sights:
    """What `sight_of` gave.

    The ledger's gaps are told apart by their ids, as to hash a gap takes longer than all the rest of finding a sight. A known
    sight keeps its gaps, so that no other gap gets their ids.
    """

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[tuple[Gap, ...], Sight]] = {}
        self._size = 0
        """The number of their gaps."""

    def of(self, gaps: tuple[Gap, ...], begin_ns: int, own: tuple[Gap, ...]) -> Sight:
        """As `sight_of`."""
        key = (_least(gaps, begin_ns), tuple([id(each) for each in gaps]), own)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        size = len(gaps) + len(own)
        self._size += size
        if len(self._known) >= SIGHTS_MAX or self._size > GAPS_MAX:
            self._known.clear()
            self._size = size
        sight = sight_of(gaps, begin_ns, own)
        self._known[key] = gaps, sight
        return sight


def _least(gaps: tuple[Gap, ...], begin_ns: int) -> int:
    """When the session began, if that changes a gap; else -1, as for any other session."""
    for gap in gaps:
        if gap.since_ns < begin_ns or gap.until_ns <= begin_ns:
            return begin_ns
    return -1
