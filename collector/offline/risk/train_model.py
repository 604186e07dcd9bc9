"""Trains the risk that travels across tasks: small boosted trees by scikit-learn, kept as plain data."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from collector.client.verb_error import VerbError
from collector.offline.risk.scored_runs import odds_of
from collector.offline.risk.task_references import Example
from monitor.reference.risk import sigmoid
from monitor.reference.runs import SeenRun
from monitor.reference.settings import RISK_FALSE_PER_1000
from monitor.scores.conformal import conformal
from monitor.scores.roc_area import roc_area
from monitor.spec.learnt_reference import Alarm, AlarmCounts, RiskCeiling
from monitor.spec.risk_features import FEATURES
from monitor.spec.risk_model import RiskModel, RiskNode

__all__ = [
    "FOLDS",
    "NoTrainer",
    "TooFewRuns",
    "TrainedRisk",
    "Weights",
    "folds",
    "rows_of",
    "train",
    "trainer",
]

FOLDS: Final = 5
TREES: Final = 60
RATE: Final = 0.08
DEPTH: Final = 3
LEAF_LEAST: Final = 60
L2: Final = 5.0
SHARE_OF_FEATURES: Final = 0.3
"""Settings of the trees. They were chosen on the shared runs (docs/references.md)."""

FAILURES_LEAST: Final = 20
SUCCESSES_LEAST: Final = 20
TASKS_LEAST: Final = 5
"""Runs of either outcome, and tasks, without which nothing is learnt that would travel."""

THREADED_FROM: Final = 100_000
"""Rows from which a training is worth more than one thread."""


class NoTrainer(VerbError):  # noqa: N818 - it names what is missing
    """scikit-learn is not installed."""

    code = 2


class TooFewRuns(Exception):  # noqa: N818 - it names what is missing
    """There are too few runs, failures or tasks to learn a risk from; the message says which."""


class Weights(NamedTuple):
    """What may be left out where many models are compared."""

    groups: frozenset[str] = frozenset()
    """Groups of features that are left out."""
    calibrated: bool = True


def trainer() -> Any:
    """The class of scikit-learn that is trained.

    Raises:
        NoTrainer: the extra is not installed.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise NoTrainer("a risk needs scikit-learn: pip install 'offrails[learn]'") from None
    return HistGradientBoostingClassifier


def folds(tasks: Iterable[str]) -> list[frozenset[str]]:
    """Tasks in parts that are judged by what the other parts teach; always the same ones."""
    mixed = sorted(set(tasks))
    random.Random(len(mixed)).shuffle(mixed)  # noqa: S311 - statistics, not secrets
    return [frozenset(mixed[start::FOLDS]) for start in range(FOLDS)]


class TrainedRisk(NamedTuple):
    """A model, and what it does on tasks that were left out."""

    model: RiskModel
    ceilings: dict[str, RiskCeiling]
    """Ceilings by task, and by "" over all tasks; none if the model is not calibrated."""
    alarm: Alarm | None


def train(id_: str, examples: Sequence[Example], weights: Weights | None = None) -> TrainedRisk:
    """One model over all prefixes of some runs.

    Args:
        id_: of the model.
        examples: runs under references of other runs, each several times.
        weights: what is left out.

    Raises:
        NoTrainer: scikit-learn is not installed.
        TooFewRuns: the runs cannot teach one.
    """
    weights = weights or Weights()
    _enough(examples)
    names = [name for name, each in FEATURES.items() if each.group not in weights.groups]
    model = _fitted(id_, examples, names)
    if not weights.calibrated:
        return TrainedRisk(model, {}, None)
    scores = _judged_apart(examples, names)
    model = _calibrated(model, scores)
    return TrainedRisk(model, _ceilings(scores), _alarm(model, scores))


def _ceilings(scores: Sequence[_Score]) -> dict[str, RiskCeiling]:
    """By task, what the risk reaches with whole runs; "": over all tasks."""
    by_task: dict[str, list[_Score]] = {"": list(scores)}
    for each in scores:
        by_task.setdefault(each.run.task, []).append(each)
    return {task: _ceiling(found) for task, found in by_task.items()}


def _ceiling(scores: Sequence[_Score]) -> RiskCeiling:
    area = roc_area((each.odds[-1], each.failed) for each in scores)
    runs = {each.run.id: each.run for each in scores}.values()
    failures = sum(not run.success for run in runs)
    return RiskCeiling(None if math.isnan(area) else area, len(runs), failures)


def _alarm(model: RiskModel, scores: Sequence[_Score]) -> Alarm:
    """What the alarm of the risk is worth on tasks that did not teach it."""
    counts = AlarmCounts()
    for each in scores:
        risk = sigmoid(model.offset + model.slope * max(each.odds))
        counts.add(raised=risk >= model.alarm, good=not each.failed)
    return counts.alarm(labelled=True)


def _enough(examples: Sequence[Example]) -> None:
    if not examples:
        raise TooFewRuns("no task has three successes to refer to")
    runs = {each.run.id: each.run for each in examples}.values()
    failures = sum(not run.success for run in runs)
    tasks = {run.task for run in runs}
    counts = (
        (failures, FAILURES_LEAST, "failed runs"),
        (len(runs) - failures, SUCCESSES_LEAST, "successful runs"),
        (len(tasks), TASKS_LEAST, "tasks"),
    )
    for found, least, what in counts:
        if found < least:
            raise TooFewRuns(
                f"{found} {what}; at least {least} are needed, of tasks with references"
            )


def rows_of(examples: Sequence[Example], columns: Sequence[int]) -> tuple[Any, Any, Any]:
    """Every prefix of every run: features, outcomes, weights. A run's prefixes weigh as its end does."""
    import numpy as np

    rows, outcomes, weights = [], [], []
    for each in examples:
        before = len(each.vectors) - 1
        rows += each.vectors
        outcomes += [int(each.failed)] * len(each.vectors)
        weights += [1 / max(1, before - 1)] * before + [1.0]
    return np.array(rows, dtype=float)[:, list(columns)], np.array(outcomes), np.array(weights)


def _fitted(id_: str, examples: Sequence[Example], names: Sequence[str]) -> RiskModel:
    """The model of some rows, uncalibrated."""
    places = {name: place for place, name in enumerate(FEATURES)}
    rows, outcomes, weights = rows_of(examples, [places[name] for name in names])
    # Rows are many and alike; the order of runs and the seed are fixed, so the model is the same each time.
    classifier = trainer()(
        max_iter=TREES,
        learning_rate=RATE,
        max_depth=DEPTH,
        min_samples_leaf=LEAF_LEAST,
        l2_regularization=L2,
        max_features=SHARE_OF_FEATURES,
        monotonic_cst=[FEATURES[name].direction for name in names],
        early_stopping=False,
        random_state=0,
    )
    # Threads wait for each other: on few rows that takes longer than the work, on a busy machine five times as long.
    with _threads(None if len(rows) >= THREADED_FROM else 1):
        fitted = classifier.fit(rows, outcomes, sample_weight=weights)
    runs = {each.run.id: each.run for each in examples}.values()
    return RiskModel(
        id=id_,
        features=tuple(names),
        trees=tuple(_tree(each[0].nodes) for each in fitted._predictors),  # noqa: SLF001 - nothing public has its trees
        base=round(float(fitted._baseline_prediction[0, 0]), 6),  # noqa: SLF001
        slope=1.0,
        offset=0.0,
        alarm=1.0,
        source={
            "runs": len(runs),
            "failures": sum(not run.success for run in runs),
            "tasks": len({run.task for run in runs}),
            "agents": len({run.agent for run in runs}),
        },
    )


def _threads(most: int | None) -> Any:
    """While it is open, scikit-learn has so many threads; None: as many as it likes."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(most)


def _tree(nodes: Any) -> tuple[RiskNode, ...]:
    """A tree of scikit-learn, its nodes in the order of ours: the left one below is the next."""
    order: list[int] = []
    waiting = [0]
    while waiting:
        place = waiting.pop()
        order.append(place)
        if not nodes[place]["is_leaf"]:
            waiting += [int(nodes[place]["right"]), int(nodes[place]["left"])]
    places = {place: number for number, place in enumerate(order)}
    return tuple(_node(nodes[place], places) for place in order)


def _node(node: Any, places: dict[int, int]) -> RiskNode:
    value = round(float(node["value"]), 6)
    if node["is_leaf"]:
        return RiskNode(-1, 0.0, 0, value)
    threshold = float(node["num_threshold"])
    return RiskNode(int(node["feature_idx"]), threshold, places[int(node["right"])], value)


class _Score(NamedTuple):
    """A run, judged by what other tasks taught."""

    run: SeenRun
    odds: list[float]
    """After each prefix, and at the end."""

    @property
    def failed(self) -> bool:
        return not self.run.success


def _judged_apart(examples: Sequence[Example], names: Sequence[str]) -> list[_Score]:
    found: list[_Score] = []
    for part in folds(each.run.task for each in examples):
        inside = [each for each in examples if each.run.task in part]
        others = [each for each in examples if each.run.task not in part]
        if inside and len({each.failed for each in others}) == 2:
            model = _fitted("", others, names)
            found += [_Score(each.run, odds_of(model, each.vectors)) for each in inside]
    return found


def _calibrated(model: RiskModel, scores: Sequence[_Score]) -> RiskModel:
    """The model, with the slope, offset and alarm that are right on tasks it was not taught."""
    pairs = [(odds, each.failed) for each in scores for odds in each.odds]
    slope, offset = _logistic(pairs)
    worst = [max(each.odds) for each in scores if not each.failed]
    odds = conformal(worst, RISK_FALSE_PER_1000)
    slope, offset = round(slope, 6), round(offset, 6)
    # Rounded up: many runs have the score below, and none of them may reach it.
    alarm = 1.0 if odds is None else math.ceil(1e6 * sigmoid(offset + slope * odds)) / 1e6
    return replace(model, slope=slope, offset=offset, alarm=min(alarm, 1.0))


def _logistic(pairs: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    """Slope and offset of outcomes over log-odds; the slope never turns the order round."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    odds = np.array([[each] for each, _ in pairs])
    fitted = LogisticRegression(C=1e6).fit(odds, [failed for _, failed in pairs])
    return max(0.05, float(fitted.coef_[0, 0])), float(fitted.intercept_[0])
