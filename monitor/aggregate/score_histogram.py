"""A histogram of a figure over sessions, with a call as exemplar for each bucket."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

__all__ = ["Exemplar", "ScoreHistogram"]


class Exemplar(NamedTuple):
    """A call that stands for those counted."""

    trace_id: bytes
    span_id: bytes
    at_ns: int
    """Receipt, Unix nanoseconds."""


class ScoreHistogram:
    """Counts of finished sessions by the upper bound of their score, inclusive."""

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Not cumulative; the last is the one above every bound."""
        self.total = 0.0
        self.exemplars: dict[int, tuple[Exemplar, float]] = {}
        """Latest session of each bucket, and its score."""

    def observe(self, value: float, exemplar: Exemplar | None) -> None:
        """Counts one value, and remembers the call that stands for it."""
        bucket = bisect_left(self.bounds, value)
        self.counts[bucket] += 1
        self.total += value
        if exemplar is not None:
            self.exemplars[bucket] = exemplar, value
