"""The worst k of many live sessions, without looking at all of them.

A heap holds an entry for each session that does harm. An entry goes stale when its session changes,
and is dropped when it is met. A change is only noted: it gets its place in the heap when somebody
asks, or when many sessions have changed, since a harmful session changes with each of its calls.

The heap is bounded. Beyond `ROOM` valid entries the least bad ones are dropped until their session
changes again, which is its next call. So the top k is exact while at most `ROOM` sessions of one
pair do harm at the same time, and nearly exact beyond.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

__all__ = ["ROOM", "TopK"]

ROOM: Final = 128
"""Entries kept at least; five times as many are held before the heap is cleared up."""


class _Holder(Protocol):
    """Something whose present share of the sums is known; another object after each change."""

    @property
    def share(self) -> object: ...


Held = TypeVar("Held", bound=_Holder)

_Entry = tuple[tuple[float, ...], int, object, Held]
"""What comes first is worse: badness, turned round; then who came earlier; the share, and whose it is."""


class TopK(Generic[Held]):
    """Holders by badness.

    Args:
        badness: of a share; more is worse.
    """

    __slots__ = ("_badness", "_changed", "_heap", "_number")

    def __init__(self, badness: Callable[[Any], tuple[float, ...]]) -> None:
        self._badness = badness
        self._changed: dict[Held, object] = {}
        """Holders that have no place yet, each with its share."""
        self._heap: list[_Entry[Held]] = []
        self._number = 0
        """Number of the latest share."""

    def __len__(self) -> int:
        return len(self._heap) + len(self._changed)

    def push(self, holder: Held) -> None:
        """The holder has changed."""
        self._changed[holder] = holder.share
        if len(self._changed) > ROOM:
            self._place()

    def _place(self) -> None:
        """What has changed gets its place."""
        changed, self._changed = self._changed, {}
        for holder, share in changed.items():
            if holder.share is share:
                lowest = tuple([-part for part in self._badness(share)])
                self._number += 1
                heapq.heappush(self._heap, (lowest, self._number, share, holder))
        if len(self._heap) > 4 * ROOM:
            # A sorted list is a heap.
            self._heap = heapq.nsmallest(ROOM, self._held())

    def clear_up(self) -> None:
        """Lets go of what does not hold any more; called now and then, so that it is not kept."""
        if self._changed:
            self._place()
        held = self._held()
        if len(held) < len(self._heap):
            heapq.heapify(held)
            self._heap = held

    def _held(self) -> list[_Entry[Held]]:
        """The entries that still hold."""
        return [entry for entry in self._heap if entry[3].share is entry[2]]

    def first(self) -> Held | None:
        """The worst; None if none is bad."""
        if self._changed:
            self._place()
        heap = self._heap
        while heap and heap[0][3].share is not heap[0][2]:
            heapq.heappop(heap)
        return heap[0][3] if heap else None

    def top(self, most: int) -> list[Held]:
        """The worst ones, the worst first."""
        taken: list[_Entry[Held]] = []
        while len(taken) < most and self.first() is not None:
            taken.append(heapq.heappop(self._heap))
        for entry in taken:
            heapq.heappush(self._heap, entry)
        return [holder for *_, holder in taken]
