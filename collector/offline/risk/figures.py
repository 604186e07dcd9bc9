"""Figures of a score against outcomes: areas, recall, calibration, intervals."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from monitor.scores.roc_area import roc_area

__all__ = [
    "ScorePair",
    "area",
    "area_within",
    "calibration_error",
    "interval",
    "mean",
    "precision_area",
    "recall_at",
]

RESAMPLES: Final = 200
BINS: Final = 5


class ScorePair(NamedTuple):
    """A score and whether the run failed."""

    score: float
    failed: bool
    group: str = ""
    """Task or agent whose pairs are compared with each other alone."""


def area(pairs: Sequence[ScorePair]) -> float:
    """The chance that a failed run scores above a successful one, ties half; nan without either."""
    return roc_area((pair.score, pair.failed) for pair in pairs)


def area_within(pairs: Iterable[ScorePair]) -> float:
    """The mean of the areas within groups that have both outcomes, weighted by their runs."""
    groups: dict[str, list[ScorePair]] = {}
    for pair in pairs:
        groups.setdefault(pair.group, []).append(pair)
    known = [(area(group), len(group)) for group in groups.values()]
    known = [(value, count) for value, count in known if not math.isnan(value)]
    runs = sum(count for _, count in known)
    return sum(value * count for value, count in known) / runs if runs else math.nan


def precision_area(pairs: Sequence[ScorePair]) -> float:
    """Average precision: the mean precision at each failed run, the highest scores first."""
    bad = sum(pair.failed for pair in pairs)
    # Of equal scores the successes come first: no figure is flattered by the order.
    ranked = sorted(pairs, key=lambda pair: (-pair.score, pair.failed))
    hits, total = 0, 0.0
    for number, pair in enumerate(ranked, start=1):
        if pair.failed:
            hits += 1
            total += hits / number
    return total / bad if bad else math.nan


def recall_at(pairs: Sequence[ScorePair], false_rate: float) -> float:
    """The share of failed runs above the score that so large a share of the successes pass."""
    good = sorted((pair.score for pair in pairs if not pair.failed), reverse=True)
    bad = [pair.score for pair in pairs if pair.failed]
    if not good or not bad:
        return math.nan
    bar = good[min(math.floor(false_rate * len(good)), len(good) - 1)]
    return sum(score > bar for score in bad) / len(bad)


def calibration_error(pairs: Sequence[ScorePair]) -> float:
    """Mean distance of the risk told and the share that failed, over five parts of equal size."""
    ranked = sorted(pairs, key=lambda pair: pair.score)
    parts = [
        ranked[len(ranked) * part // BINS : len(ranked) * (part + 1) // BINS]
        for part in range(BINS)
    ]
    apart = [
        abs(sum(pair.score for pair in part) - sum(pair.failed for pair in part))
        for part in parts
    ]
    return sum(apart) / len(ranked) if ranked else math.nan


def mean(values: Iterable[float]) -> float:
    """The mean of those that are defined."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def interval(
    tasks: Sequence[str], figure: Callable[[Sequence[str]], float]
) -> tuple[float, float]:
    """The 95 % interval of a figure over tasks that are drawn again."""
    chance, names = random.Random(len(tasks)), sorted(tasks)  # noqa: S311 - statistics, not secrets
    drawn = (figure(chance.choices(names, k=len(names))) for _ in range(RESAMPLES))
    known = sorted(value for value in drawn if not math.isnan(value))
    if not known:
        return math.nan, math.nan
    return known[int(0.025 * len(known))], known[int(0.975 * len(known)) - 1]
