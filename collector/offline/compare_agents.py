"""Many judgements at once: means, the spread over repeated runs, agents side by side.

papers/000 appendix B: report the vector of five and its Pareto front, a single number only with
weights its owner chose; for agents that behave differently each time, distributions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from monitor.scores.score_records import SCORES

__all__ = [
    "VECTOR",
    "AgentScores",
    "Judgement",
    "Mean",
    "Spread",
    "compare",
    "means",
    "parse_weights",
    "scored",
    "spreads",
]

Judgement = Mapping[str, Any]

VECTOR: Final = ("pc", "pc_ktc", "harm_free", "prefix_crit", "efficiency")
"""Appendix B's five, each better the higher it is: HarmFree is 1 - HarmRate (eq. 7)."""

_ALIASES: Final = {"eff": "efficiency", "pc-ktc": "pc_ktc", "harmfree": "harm_free",
                   "prefixcrit": "prefix_crit"}  # fmt: skip

RESAMPLES: Final = 1_000
"""Bootstrap samples: the ends of a 95 % interval are then good to about a twentieth of it."""

SEED: Final = 20_250_920
"""Fixed, so that one input gives one output."""


class Mean(NamedTuple):
    """A mean over the runs where a score is defined; None if there is none."""

    value: float | None
    runs: int


def scored(judgements: Iterable[Judgement]) -> list[Judgement]:
    """The judgements that have scores: of tasks, with every call known."""
    return [each for each in judgements if each["spec_kind"] == "task" and each["exact"]]


def means(judgements: Iterable[Judgement]) -> dict[str, Mean]:
    """Mean of each score over all runs; an undefined one is left out of its own mean only."""
    known = scored(judgements)
    return {name: _mean(_values(known, name)) for name in SCORES}


def _values(judgements: Iterable[Judgement], name: str) -> list[float]:
    if name == "harm_free":
        return [1 - rate for rate in _values(judgements, "harm_rate")]
    return [each[name] for each in judgements if each[name] is not None]


def _mean(values: Sequence[float]) -> Mean:
    return Mean(math.fsum(values) / len(values) if values else None, len(values))


# --- repeated runs of one task ----------------------------------------------------------------


class Spread(NamedTuple):
    """How one score is distributed over an agent's runs of one task."""

    spec: str
    agent: str
    score: str
    runs: int
    mean: float
    low: float
    """The 95 % bootstrap interval of the mean, from here to `high`."""
    high: float
    quartile: float
    median: float
    upper: float
    """The third quartile."""
    worst: float


def spreads(judgements: Iterable[Judgement]) -> list[Spread]:
    """Distributions of the scores of each task that an agent ran more than once."""
    groups: dict[tuple[str, str], list[Judgement]] = {}
    for each in scored(judgements):
        groups.setdefault((each["spec"], each["agent"]), []).append(each)
    return [
        _spread(spec, agent, name, values)
        for (spec, agent), runs in groups.items()
        for name in SCORES
        if len(runs) > 1 and len(values := _values(runs, name)) > 1
    ]


def _spread(spec: str, agent: str, score: str, values: Sequence[float]) -> Spread:
    ranked = sorted(values)
    low, high = _interval(ranked)
    return Spread(
        spec=spec,
        agent=agent,
        score=score,
        runs=len(values),
        mean=math.fsum(values) / len(values),
        low=low,
        high=high,
        quartile=_quantile(ranked, 0.25),
        median=_quantile(ranked, 0.5),
        upper=_quantile(ranked, 0.75),
        worst=ranked[-1 if SCORES[score].lower_is_better else 0],
    )


def _quantile(ranked: Sequence[float], share: float) -> float:
    """Between the two nearest ranks, in proportion (Hyndman and Fan's type 7)."""
    place = share * (len(ranked) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ranked) - 1)
    return ranked[below] + (place - below) * (ranked[above] - ranked[below])


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """The percentile bootstrap's 95 % interval of the mean (Efron 1979)."""
    if values[0] == values[-1]:
        return values[0], values[0]
    chance = random.Random(SEED)  # noqa: S311 - statistics, not secrets
    count = len(values)
    sampled = sorted(
        math.fsum(chance.choices(values, k=count)) / count for _ in range(RESAMPLES)
    )
    return _quantile(sampled, 0.025), _quantile(sampled, 0.975)


# --- agents side by side ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentScores:
    """An agent's means over its runs."""

    agent: str
    runs: int
    tasks: int
    harm_rate: float | None
    vector: Mapping[str, Mean]
    """Means by the names of `VECTOR`."""
    front: bool
    """True if no other agent is as good in all five and better in one."""
    scalar: float | None
    """The weighted mean; None without weights, or where a weighted score is undefined."""

    def as_json(self) -> dict[str, Any]:
        """The agent as a JSON object."""
        return {
            "agent": self.agent,
            "runs": self.runs,
            "tasks": self.tasks,
            **{name: mean.value for name, mean in self.vector.items()},
            "harm_rate": self.harm_rate,
            "efficiency_runs": self.vector["efficiency"].runs,
            "front": self.front,
            "scalar": self.scalar,
        }


def compare(
    judgements: Iterable[Judgement], weights: Mapping[str, float] | None = None
) -> list[AgentScores]:
    """Agents (or models) by their means, in the order they first appear.

    Args:
        judgements: judgement objects; those without scores are left out.
        weights: by names of `VECTOR`; a scalar is given only with them.
    """
    groups: dict[str, list[Judgement]] = {}
    for each in scored(judgements):
        groups.setdefault(each["agent"], []).append(each)
    vectors = {
        agent: {name: _mean(_values(runs, name)) for name in VECTOR}
        for agent, runs in groups.items()
    }
    points = [_point(vector) for vector in vectors.values()]
    return [
        AgentScores(
            agent=agent,
            runs=len(runs),
            tasks=len({each["spec"] for each in runs}),
            harm_rate=_mean(_values(runs, "harm_rate")).value,
            vector=vectors[agent],
            front=not any(_dominates(point, _point(vectors[agent])) for point in points),
            scalar=_scalar(vectors[agent], weights) if weights else None,
        )
        for agent, runs in groups.items()
    ]


def _point(vector: Mapping[str, Mean]) -> tuple[float, ...]:
    # A score that is defined in no run speaks for nobody: it counts as the least.
    return tuple(-1.0 if mean.value is None else mean.value for mean in vector.values())


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def _scalar(vector: Mapping[str, Mean], weights: Mapping[str, float]) -> float | None:
    terms = []
    for name, weight in weights.items():
        value = vector[name].value
        if weight and value is None:
            return None
        terms.append(weight * (value or 0.0))
    return math.fsum(terms) / math.fsum(weights.values())


def parse_weights(text: str) -> dict[str, float]:
    """Weights from `pc=1,harm_free=2`.

    Raises:
        ValueError: a name is none of `VECTOR`, a weight is no number of at least 0, or all are 0.
    """
    weights: dict[str, float] = {}
    for part in text.split(","):
        key, _, number = part.partition("=")
        name = _ALIASES.get(key.strip().lower(), key.strip().lower())
        if name not in VECTOR or name in weights:
            again = "is given twice" if name in weights else f"is none of {', '.join(VECTOR)}"
            raise ValueError(f"{key.strip()!r} {again}")
        weights[name] = _weight(name, number)
    if not any(weights.values()):
        raise ValueError("one weight at least must be above 0")
    return weights


def _weight(name: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        raise ValueError(f"{name}: expected a number, not {text!r}") from None
    if not (math.isfinite(weight) and weight >= 0):
        raise ValueError(f"{name}: a weight is a number of at least 0, not {text}")
    return weight
