"""Runs scored by a model at the points at which the protocol looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from collector.offline.risk.task_references import Example, Vector
from monitor.reference.travelling_risk import TravellingRisk
from monitor.spec.risk_model import RiskModel

__all__ = ["POINTS", "ScoredRun", "odds_of", "points_of", "scored"]

POINTS: Final = ("call 2", "call 4", "half", "end")
"""Points at which runs are looked at. `half` is known only once a run is over: it is for comparison."""


class ScoredRun(NamedTuple):
    """A judged run."""

    task: str
    agent: str
    failed: bool
    risks: Mapping[str, float]
    """Risk by point, without the points that the run did not reach."""
    alarmed: int
    """Number of the call after which the risk raised its alarm; 0: it did not."""
    new_write: int
    new_arguments: int
    """Numbers of the first such calls; 0: none."""


def odds_of(model: RiskModel, vectors: Sequence[Vector]) -> list[float]:
    """The log-odds of each vector, uncalibrated."""
    risk = TravellingRisk(model)
    return [risk.odds(vector) for vector in vectors]


def points_of(calls: int) -> dict[str, int]:
    """The points that a run of so many calls reaches, and where they are among its vectors."""
    places = {"call 2": 2, "call 4": 4, "half": (calls + 1) // 2}
    return {name: place for name, place in places.items() if 0 < place <= calls} | {
        "end": calls + 1
    }


def scored(model: RiskModel, example: Example) -> ScoredRun:
    """A run's risks under a model."""
    risk = TravellingRisk(model)
    risks = [risk.of(vector) for vector in example.vectors]
    calls, raised = len(risks) - 2, [each >= model.alarm for each in risks]
    return ScoredRun(
        example.run.task,
        example.run.agent,
        example.failed,
        {name: risks[place] for name, place in points_of(calls).items()},
        min(raised.index(True), calls) or 1 if True in raised else 0,
        example.new_write,
        example.new_arguments,
    )
