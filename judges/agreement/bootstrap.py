"""The percentile bootstrap (Efron 1979): what a figure might have been with other sessions of the same kind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

__all__ = ["RESAMPLES", "interval", "mean", "mean_interval"]

RESAMPLES: Final = 1000
SEED: Final = 0
"""Fixed: the same records have the same intervals."""
_LOW, _HIGH = 0.025, 0.975

Unit = TypeVar("Unit")


def interval(
    units: Sequence[Unit], figure: Callable[[Sequence[Unit]], float | None]
) -> list[float] | None:
    """The 95 % interval `[low, high]` of a figure of these units; None of fewer than two, or where it is undefined."""
    if len(units) < 2:
        return None
    chance = random.Random(SEED)  # noqa: S311 - statistics, not secrets
    found = (figure(chance.choices(units, k=len(units))) for _ in range(RESAMPLES))
    ranked = sorted(value for value in found if value is not None)
    return [_quantile(ranked, _LOW), _quantile(ranked, _HIGH)] if ranked else None


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of no values."""
    return math.fsum(values) / len(values) if values else None


def mean_interval(values: Sequence[float]) -> list[float] | None:
    """The 95 % interval of the mean; None of fewer than two values."""
    return interval(values, mean)


def _quantile(ranked: Sequence[float], share: float) -> float:
    """Between the two nearest ranks, in proportion (Hyndman and Fan's type 7)."""
    place = share * (len(ranked) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (place - below) * (ranked[above] - ranked[below])
