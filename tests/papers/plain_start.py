"""The risk beside a plain start, on the same draws of the runs of 14 agents: `python -m tests.papers.plain_start`, a table of docs/references.md.

The plain start is a logistic regression over counts (calls, failed and repeated calls, departures, new arguments) and the mean
surprise of the next tool. Which agents lend moves all figures, so only the same draws can be compared.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from collector.offline.risk.figures import ScorePair, area, area_within, mean
from collector.offline.risk.protocol import TaskSplit, scores_of, split_of
from collector.offline.risk.scored_runs import POINTS, points_of
from collector.offline.risk.task_references import by_task
from collector.offline.risk.train_model import Weights, folds, rows_of
from monitor.spec.risk_features import FEATURES
from tests.papers.agentdojo import RUNS, WRITES, records, seen

DRAWS: Final = 24

PLAIN: Final = (
    "surprise_mean", "departures", "other_arguments", "extra_calls", "skipped_calls",
    "repeated_calls", "repeated_tools", "failed_calls", "new_writes", "new_reads",
    "new_write_arguments", "known_writes", "length", "ended", "ended_surprise",
    "ended_left_out", "ended_unwritten",
)  # fmt: skip

Scores = dict[str, list[ScorePair]]
"""By point, a score for each judged run."""


def plain(split: TaskSplit) -> Scores:
    """The scores of the plain start: no weight sees the task that it judges."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    columns = [list(FEATURES).index(name) for name in PLAIN]
    found: Scores = {point: [] for point in POINTS}
    for part in folds(each.run.task for each in split.judged):
        judged = [each for each in split.judged if each.run.task in part]
        if not judged:
            continue
        taught = [each for each in split.taught if each.run.task not in part]
        rows, outcomes, weights = rows_of(taught, columns)
        scaler = StandardScaler().fit(rows)
        model = LogisticRegression(C=0.05, max_iter=2_000)
        model.fit(scaler.transform(rows), outcomes, sample_weight=weights)
        for each in judged:
            for point, place in points_of(len(each.vectors) - 2).items():
                row = scaler.transform([[each.vectors[place][n] for n in columns]])
                score = float(model.decision_function(row)[0])
                found[point].append(ScorePair(score, each.failed, each.run.task))
    return found


def ours(split: TaskSplit) -> Scores:
    """The scores of the risk, uncalibrated."""
    runs = scores_of(split, Weights(calibrated=False))
    return {
        point: [
            ScorePair(run.risks[point], run.failed, run.task)
            for run in runs
            if point in run.risks
        ]
        for point in POINTS
    }


def report(draws: int = DRAWS) -> Iterator[str]:
    """The table: pooled / within tasks, means over the draws."""
    tasks = by_task(seen(each, success=each["success"]) for each in records(None))
    splits = [split_of(tasks, WRITES, random.Random(number)) for number in range(draws)]
    yield f"{draws} draws: pooled / within tasks, at {', '.join(POINTS)}"
    for name, way in (("the risk", ours), ("the plain start", plain)):
        scores = [way(split) for split in splits]
        yield f"{name}: {', '.join(_cell([each[point] for each in scores]) for point in POINTS)}"


def _cell(draws: Sequence[Sequence[ScorePair]]) -> str:
    return f"{mean(map(area, draws)):.2f} / {mean(map(area_within, draws)):.2f}"


if __name__ == "__main__":
    if not RUNS.exists():
        sys.exit(f"skipped: the runs are not here: {RUNS}")
    for line in report():
        print(line, flush=True)
