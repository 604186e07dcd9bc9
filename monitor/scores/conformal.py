"""The conformal rule: a bar that scores of what is as usual pass in a bounded share of cases."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["conformal"]


def conformal(scores: Sequence[float], false_per_1000: float) -> float | None:
    """The score that a new success reaches or passes in at most so many of 1,000 cases.

    Among n + 1 successes that are drawn alike, the new one is equally likely to have any rank.
    None if n is too small to tell.
    """
    beyond = math.floor(false_per_1000 / 1000 * (len(scores) + 1))
    if beyond < 1:
        return None
    ranked = sorted(scores, reverse=True)
    # The rank `beyond` is reached by at most `beyond` of n + 1.
    return math.nextafter(ranked[beyond - 1], math.inf)
