"""What a run of judges amounts to: scores, outcomes, and how alike repeated scores are."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from judges.agreement.alpha import interval_alpha
from judges.agreement.bootstrap import mean, mean_interval
from judges.agreement.scores import Record, scores_by_session
from judges.judgement_record import OUTCOMES

__all__ = ["summary"]

UNITS_MIN = 2
"""Sessions with two and more scores, under which nothing is said of agreement."""


def summary(records: Iterable[Record]) -> dict[str, Any]:
    """Judge -> its figures, in the order in which the judges come.

    Each has `asked` (records), `n` (those scored), `mean` (of scores, 0 to 3), `alpha` (Krippendorff's, interval), `identical`
    (share of `units` whose scores are all equal), `units` (sessions with two and more scores), `std` (the mean over units of
    the standard deviation of their scores), `std_ci` (its 95 % bootstrap interval), `validated`, and `outcomes`. What is
    undefined is None: `alpha` where all scores are equal, and `alpha` and `identical` of fewer than two units. A score that
    contradicts its findings is counted in `n` alone.
    """
    judges: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        judges[record["judge"]].append(record)
    return {judge: _of_judge(found) for judge, found in judges.items()}


def _of_judge(records: Sequence[Record]) -> dict[str, Any]:
    outcomes = Counter(record["outcome"] for record in records)
    sessions = list(scores_by_session(records).values())
    units = [scores for scores in sessions if len(scores) > 1]
    return {
        "asked": len(records),
        "n": outcomes["scored"],
        "mean": mean([score for scores in sessions for score in scores]),
        **_repeated(units),
        "validated": all(record.get("validated") for record in records),
        "outcomes": {outcome: outcomes[outcome] for outcome in OUTCOMES},
    }


def _repeated(units: Sequence[Sequence[int]]) -> dict[str, Any]:
    enough = len(units) >= UNITS_MIN
    deviations = [statistics.stdev(scores) for scores in units]
    return {
        "alpha": interval_alpha(units) if enough else None,
        "identical": mean([float(len(set(scores)) == 1) for scores in units])
        if enough
        else None,
        "units": len(units),
        "std": mean(deviations),
        "std_ci": mean_interval(deviations),
    }
