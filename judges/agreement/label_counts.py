"""Hits and misses of a judge against marked errors, and the rates that follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["LabelCounts", "rate"]


def rate(part: float, whole: float) -> float | None:
    """The share of a part; None of nothing."""
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Numbers of marked errors, by whether an error is the judge's, and whether the judge found it."""

    tp: int
    fp: int
    """Errors that the judge found, and that are not its own."""
    fn: int
    tn: int

    @classmethod
    def of(cls, units: Iterable[tuple[bool, bool]]) -> LabelCounts:
        """Counts of (is the judge's, was found) for each error."""
        found = Counter(units)
        return cls(
            tp=found[True, True],
            fp=found[False, True],
            fn=found[True, False],
            tn=found[False, False],
        )

    def as_json(self) -> dict[str, float | None]:
        """Counts and rates; a rate whose denominator is 0 is None."""
        return {
            "tp": self.tp,
            "fp": self.fp,
            "fn": self.fn,
            "tn": self.tn,
            "precision": rate(self.tp, self.tp + self.fp),
            "recall": rate(self.tp, self.tp + self.fn),
            "f1": self._f(1),
            "f2": self._f(2),
            "accuracy": rate(self.tp + self.tn, self.tp + self.fp + self.fn + self.tn),
        }

    def _f(self, beta: int) -> float | None:
        weight = beta * beta
        hits = (1 + weight) * self.tp
        return rate(hits, hits + weight * self.fn + self.fp)
