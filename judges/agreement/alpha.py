"""Krippendorff's alpha for interval data: 1 is agreement, 0 is chance.

The observed disagreement is the mean squared difference within units, the expected one that between any two values of all
units (Krippendorff, Content Analysis, chapter 12). Units with one value have nothing to agree with, and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["interval_alpha"]


def interval_alpha(units: Iterable[Sequence[float]]) -> float | None:
    """Alpha of the values of each unit; None where all values are equal, or no unit has two."""
    pairable = [unit for unit in units if len(unit) > 1]
    values = [value for unit in pairable for value in unit]
    if not values or min(values) == max(values):
        return None
    observed = sum(_squared_differences(unit) / (len(unit) - 1) for unit in pairable)
    return 1 - observed * (len(values) - 1) / _squared_differences(values)


def _squared_differences(values: Sequence[float]) -> float:
    """The sum of (a - b)² over all ordered pairs."""
    return 2 * (len(values) * sum(value * value for value in values) - sum(values) ** 2)
