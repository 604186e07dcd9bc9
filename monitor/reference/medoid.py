"""The medoid: the run whose tool sequence is nearest to all others (by Definition 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from monitor.reference.settings import CANDIDATES_MAX, SAMPLE_MAX
from monitor.scores.consistency import similarity

__all__ = ["Medoids"]

Names = tuple[str, ...]


class Medoids:
    """The medoid of some sequences, and what it would be without one of them.

    Ties go to the sequence of more runs, then to the one whose first two calls more runs share,
    then to the longer one, which says more, then by name. Beyond `CANDIDATES_MAX` different
    sequences the most frequent ones are candidates, compared with `SAMPLE_MAX` of them.
    """

    def __init__(self, sequences: Iterable[Names]) -> None:
        self._counts = Counter(sequences)
        ranked = sorted(self._counts, key=lambda each: (-self._counts[each], each))
        self._candidates = ranked[:CANDIDATES_MAX]
        self._sample = ranked[:SAMPLE_MAX]
        self._first_two = Counter[Names]()
        for names, count in self._counts.items():
            self._first_two[names[:2]] += count
        self._near = {
            one: {other: similarity(one, other) for other in self._sample}
            for one in self._candidates
        }
        self._totals = {
            one: sum(near[other] * self._counts[other] for other in self._sample)
            for one, near in self._near.items()
        }

    def of_all(self) -> Names:
        """The medoid; the empty sequence where there is none."""
        return self._best(None)

    def without(self, names: Names) -> Names | None:
        """The medoid of all but one run of this sequence; None if no other is left."""
        if sum(self._counts.values()) <= 1:
            return None
        return self._best(names)

    def _best(self, left: Names | None) -> Names:
        ranked = [
            (self._key(each, left), each) for each in self._candidates
            if self._counts[each] > (each == left)
        ]  # fmt: skip
        return max(ranked)[1] if ranked else ()

    def _key(self, names: Names, left: Names | None) -> tuple[float, int, int, int]:
        total, count = self._totals[names], self._counts[names]
        shared = self._first_two[names[:2]]
        if left is not None:
            total -= self._near[names].get(left, 0.0)
            count -= names == left
            shared -= names[:2] == left[:2]
        return round(total, 9), count, shared, len(names)
