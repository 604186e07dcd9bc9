"""Histograms of seconds, and the bounds of their buckets: latency of verdicts, lag of spans, deliveries.

Latency is our own time, and begins with the receipt of a request. Lag is the sender's: the end of a span to its receipt.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

__all__ = [
    "DELIVERY_SECONDS",
    "SPAN_LAG_SECONDS",
    "VERDICT_LATENCY_SECONDS",
    "DurationHistogram",
]

# fmt: off
VERDICT_LATENCY_SECONDS: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
)
DELIVERY_SECONDS: Final[tuple[float, ...]] = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
)
SPAN_LAG_SECONDS: Final[tuple[float, ...]] = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)
# fmt: on


class DurationHistogram:
    """Counts of observations by fixed upper bounds, in seconds.

    Args:
        buckets: ascending upper bounds, each inclusive; +Inf is added.
    """

    __slots__ = ("_above", "_place", "_up_to", "buckets", "counts", "sum_seconds")

    def __init__(self, buckets: Sequence[float]) -> None:
        self.buckets = tuple(buckets)
        self.counts: list[int] = [0] * (len(self.buckets) + 1)
        """Not cumulative; the last is the one above every bound."""
        self.sum_seconds = 0.0
        self._place = 0
        """The last observation's bucket, which mostly is the next one's, too."""
        self._above = 0.0
        self._up_to = 0.0
        """Bounds of this bucket: none until the first observation."""

    def observe(self, seconds: float) -> None:
        if not self._above < seconds <= self._up_to:
            self._find(seconds)
        counts, place = self.counts, self._place
        counts[place] = counts[place] + 1  # compiled, `+=` would cost three times as much
        self.sum_seconds += seconds

    def _find(self, seconds: float) -> None:
        """Notes the bucket of an observation."""
        self._place, self._above = 0, -inf
        for bound in self.buckets:
            self._up_to = bound
            if seconds <= bound:
                return
            self._above = bound
            self._place += 1
        self._up_to = inf

    @property
    def count(self) -> int:
        """Observations in all."""
        return sum(self.counts)

    def set(self, counts: Sequence[int], sum_seconds: float) -> None:
        """Sets what was observed so far; nothing where the buckets are others."""
        if len(counts) == len(self.counts):
            self.counts[:] = counts
            self.sum_seconds = sum_seconds

    def add(self, other: DurationHistogram) -> None:
        """Adds the observations of another one with the same buckets."""
        self.counts[:] = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.sum_seconds += other.sum_seconds

    def cumulative(self) -> list[tuple[float, int]]:
        """Return (upper bound, observations at or below it), ending with +Inf."""
        total = 0
        rows = []
        for bound, count in zip((*self.buckets, float("inf")), self.counts, strict=True):
            total += count
            rows.append((bound, total))
        return rows
