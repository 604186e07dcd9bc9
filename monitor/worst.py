"""The worst of many, as of now, without looking at all of them.

A heap whose entries go stale when what they stand for changes; stale ones are dropped when they
are met. It is bounded: beyond `ROOM` entries that still hold, the least bad are forgotten until
they change again, which for a session is its next call. So the worst is exact as long as no more
than `ROOM` sessions of one pair do harm at the same time, and nearly so beyond.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Generic, Protocol, TypeVar

__all__ = ["ROOM", "Worst"]

ROOM = 128
"""Entries kept at least; four times as many are held before the heap is cleared up."""


class _Holder(Protocol):
    """Something whose present share of the sums is known; another object after each change."""

    @property
    def share(self) -> object: ...


Held = TypeVar("Held", bound=_Holder)


class Worst(Generic[Held]):
    """Holders by badness."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, ...], int, object, Held]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, badness: tuple[float, ...], holder: Held) -> None:
        """The holder has changed and is this bad now (more is worse)."""
        lowest = tuple(-part for part in badness)
        heapq.heappush(self._heap, (lowest, next(self._numbers), holder.share, holder))
        if len(self._heap) > 4 * ROOM:
            self.clear_up()

    def clear_up(self) -> None:
        """Lets go of what does not hold any more; called now and then, so that it is not kept."""
        held = (entry for entry in self._heap if entry[3].share is entry[2])
        # A sorted list is a heap.
        self._heap = heapq.nsmallest(ROOM, held)

    def first(self) -> Held | None:
        """The worst; None where none is bad."""
        heap = self._heap
        while heap and heap[0][3].share is not heap[0][2]:
            heapq.heappop(heap)
        return heap[0][3] if heap else None

    def top(self, most: int) -> list[Held]:
        """The worst ones, the worst first."""
        taken: list[tuple[tuple[float, ...], int, object, Held]] = []
        while len(taken) < most and self.first() is not None:
            taken.append(heapq.heappop(self._heap))
        for entry in taken:
            heapq.heappush(self._heap, entry)
        return [holder for *_, holder in taken]
