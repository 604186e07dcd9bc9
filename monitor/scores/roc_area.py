"""The area under the ROC curve."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["roc_area"]


def roc_area(pairs: Iterable[tuple[float, bool]]) -> float:
    """The chance that a failed run scores above a successful one, ties half; nan without either.

    Args:
        pairs: a score, and whether the run failed.
    """
    ranked = sorted(pairs, key=lambda pair: pair[0])
    bad = sum(failed for _, failed in ranked)
    if not 0 < bad < len(ranked):
        return math.nan
    ranks, place = 0.0, 0
    while place < len(ranked):
        end = place
        while end < len(ranked) and ranked[end][0] == ranked[place][0]:
            end += 1
        ranks += sum(failed for _, failed in ranked[place:end]) * (place + end + 1) / 2
        place = end
    return (ranks - bad * (bad + 1) / 2) / (bad * (len(ranked) - bad))
