"""How near a judge's scores are to those that people gave, and what a judge that never looks would get."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from judges.agreement.bootstrap import mean
from judges.judgement_record import SCORE_MAX

__all__ = ["ScorePair", "correlation", "score_figures"]

ScorePair = tuple[int, int]
"""(labelled, judged) score of one session."""


def score_figures(pairs: Sequence[ScorePair]) -> dict[str, Any]:
    """Figures of papers/003, table 4 and 8; None where they are undefined.

    `acc_ob1`: share of scores at most one point off. `acc_3pt`: share in the same of three classes (0; 1 and 2; 3).
    `correlation`: Pearson's. `nmae`: mean absolute error, as a share of the scale. `confusion`: a row for each labelled score,
    a column for each judged one. `base_rate`: share of the commonest labelled score. `constant`: that score, and the figures of
    a judge that always gives it.
    """
    return {
        **_nearness(pairs),
        "correlation": correlation(pairs),
        "confusion": _confusion(pairs),
        **_without_looking([labelled for labelled, _ in pairs]),
    }


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's; None where one side does not vary."""
    if not pairs:
        return None
    left, right = zip(*pairs, strict=True)
    if min(left) == max(left) or min(right) == max(right):
        return None
    return statistics.correlation(left, right)


def _nearness(pairs: Sequence[ScorePair]) -> dict[str, float | None]:
    return {
        "acc_ob1": mean([float(abs(a - b) <= 1) for a, b in pairs]),
        "acc_3pt": mean([float(_class(a) == _class(b)) for a, b in pairs]),
        "nmae": mean([abs(a - b) / SCORE_MAX for a, b in pairs]),
    }


def _class(score: int) -> int:
    """Three classes: the two scores between the ends are one."""
    return 0 if score == 0 else 2 if score == SCORE_MAX else 1


def _confusion(pairs: Sequence[ScorePair]) -> list[list[int]]:
    counts = Counter(pairs)
    scale = range(SCORE_MAX + 1)
    return [[counts[labelled, judged] for judged in scale] for labelled in scale]


def _without_looking(labelled: Sequence[int]) -> dict[str, Any]:
    if not labelled:
        return {"base_rate": None, "constant": None}
    commonest, times = min(Counter(labelled).items(), key=lambda item: (-item[1], item[0]))
    figures = _nearness([(score, commonest) for score in labelled])
    return {
        "base_rate": times / len(labelled),
        "constant": {"score": commonest, **figures},
    }
