"""Two judges, or two models as one judge, on the sessions that both scored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from judges.agreement.alpha import interval_alpha
from judges.agreement.bootstrap import interval, mean
from judges.agreement.score_figures import correlation
from judges.agreement.scores import Record, scores_by_session

__all__ = ["Rater", "comparisons"]

Pair = tuple[float, float]


class Rater(NamedTuple):
    """Who gave scores: a judge, played by a model."""

    judge: str
    model: str


def comparisons(records: Iterable[Record]) -> list[dict[str, Any]]:
    """One object for each two raters that share their judge or their model, and a session that both scored.

    `a`, `b`: the raters. `sessions`: those that both scored; the score of a session is the mean over its repeats. `difference`:
    the mean of b's score less a's. `correlation`: Pearson's. `alpha`: Krippendorff's, with two raters. Each has beside it
    `..._ci`, the 95 % bootstrap interval over sessions. What is undefined is None.
    """
    raters: dict[Rater, list[Record]] = defaultdict(list)
    for record in records:
        raters[Rater(record["judge"], record["model"])].append(record)
    scores = {rater: _scores(found) for rater, found in raters.items()}
    return [
        _compared(a, b, pairs)
        for a, b in combinations(scores, 2)
        if a.judge == b.judge or a.model == b.model
        if (
            pairs := [
                (scores[a][each], scores[b][each]) for each in scores[a] if each in scores[b]
            ]
        )
    ]


def _scores(records: Sequence[Record]) -> dict[str, float]:
    return {
        session: sum(scores) / len(scores)
        for session, scores in scores_by_session(records).items()
    }


def _compared(a: Rater, b: Rater, pairs: Sequence[Pair]) -> dict[str, Any]:
    return {
        "a": a._asdict(),
        "b": b._asdict(),
        "sessions": len(pairs),
        "difference": _difference(pairs),
        "difference_ci": interval(pairs, _difference),
        "correlation": correlation(pairs),
        "correlation_ci": interval(pairs, correlation),
        "alpha": interval_alpha(pairs),
        "alpha_ci": interval(pairs, interval_alpha),
    }


def _difference(pairs: Sequence[Pair]) -> float | None:
    return mean([b - a for a, b in pairs])
