"""A learnt reference as plain data. Learning and watching are `monitor.reference`'s business."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from monitor.spec.risk_model import RiskModel

__all__ = [
    "FALSE_PER_1000_MAX",
    "PAGE_PRECISION",
    "SURPRISE_LEVELS",
    "Alarm",
    "AlarmCounts",
    "LearntReference",
    "PrefixNode",
    "RiskCeiling",
]

PAGE_PRECISION: Final = 0.5
"""Precision that an alarm needs to page, where a document says nothing else."""


FALSE_PER_1000_MAX: Final = 100
"""False alarms per 1,000 runs beyond which an alarm is noisy."""

SURPRISE_LEVELS: Final = (0, 10, 25, 50, 75, 90, 95, 99, 100)
"""Percentiles of the usual runs whose surprise a reference keeps, the least surprising first."""


@dataclass(frozen=True, slots=True)
class PrefixNode:
    """A node of the prefix tree; the root has no parent and no tool (-1)."""

    parent: int
    tool: int
    runs: int
    ends: int
    digests: frozenset[str] | None
    """Arguments seen here; None if they vary, or are unknown."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Figures of an alarm on recorded runs; None if they are not defined."""

    precision: float | None
    recall: float | None
    false_per_1000: float
    raised: int
    runs: int
    at_most_per_1000: float | None = None
    """Number of 1,000 further usual runs in which it is raised at most, by the conformal rule; None: not measured."""


class AlarmCounts:
    """In how many runs an alarm was raised, by outcome: what its figures are made of."""

    __slots__ = ("bad", "false", "good", "hits", "judged")

    def __init__(self) -> None:
        self.judged: dict[str, bool] = {}
        """Usual runs by id, and whether it was raised in one, by any reference that judged it."""
        self.hits = 0
        """Failed runs in which it was raised."""
        self.false = 0
        self.bad = 0
        self.good = 0

    def add_from(self, run: str, *, raised: bool, good: bool) -> None:
        """Counts one run of several references by its id."""
        self.add(raised=raised, good=good)
        if good:
            self.judged[run] = raised or self.judged.get(run, False)

    def _at_most(self) -> float | None:
        """A further usual run is as likely to have any rank among those that were judged and itself."""
        if not self.judged:
            return None
        return 1000 * (sum(self.judged.values()) + 1) / (len(self.judged) + 1)

    def add(self, *, raised: bool, good: bool) -> None:
        """Counts one run."""
        self.good += good
        self.bad += not good
        self.false += raised and good
        self.hits += raised and not good

    def alarm(self, *, labelled: bool) -> Alarm:
        """The figures; precision and recall are defined if outcomes are known."""
        raised, runs = self.hits + self.false, self.good + self.bad
        return Alarm(
            precision=self.hits / raised if raised and labelled else None,
            recall=self.hits / self.bad if self.bad and labelled else None,
            false_per_1000=1000 * self.false / runs if runs else 0.0,
            raised=raised,
            runs=runs,
            at_most_per_1000=self._at_most(),
        )


@dataclass(frozen=True, slots=True)
class RiskCeiling:
    """What the whole run tells of its outcome. What a risk misses then cannot be seen in the calls."""

    area: float | None
    """Area under the ROC curve of the risk of ended runs; None if not both outcomes were judged."""
    runs: int
    """Judged runs, each once."""
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntReference:
    """A reference as plain data."""

    tools: tuple[str, ...]
    writes: frozenset[str]
    medoid: tuple[str, ...]
    expected_writes: tuple[str, ...]
    nodes: tuple[PrefixNode, ...]
    write_calls: Mapping[str, frozenset[str]]
    alarms: Mapping[str, Alarm]
    """Figures on the learning runs, each judged by the others."""
    successes: int
    failures: int
    called_by: Mapping[str, tuple[int, int]]
    """Tool -> (successes, failures) that called it."""
    runs: int
    """Number of seen runs."""
    source: Mapping[str, Any]
    consistency: Mapping[str, Any] | None
    writes_from: str = "inferred"
    split_alarms: Mapping[str, Alarm] = field(default_factory=dict)
    """Figures on runs of other agents, or other runs, than those that lent the reference: what alarms are worth."""
    ceiling: RiskCeiling | None = None
    """Ceiling of its risk; None if it was not measured."""
    risk_alarm: float | None = None
    """Risk of the tools called from which an alarm is raised; 1: none is. None: the document does not say it."""
    agent_records: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Agent -> (successes, failures) at other tasks: known before the first call, and no part of the risk."""
    model: RiskModel | None = None
    """A risk learnt on many tasks; None: the risk is that of the tools called."""
    usual_calls: tuple[tuple[int, tuple[tuple[int, str], ...]], ...] = ()
    """How many usual runs made which calls, the most frequent first: numbers of tools and digests of arguments.

    The risk of other tasks reads them.
    """
    agreed_arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Writing tool -> argument -> digest of the value that all usual runs gave it."""
    page_precision: float = PAGE_PRECISION
    """An alarm that measures below is a hint."""
    page_false_per_1000: float | None = None
    """An alarm that may be false in more of 1,000 usual runs (`Alarm.at_most_per_1000`) is a hint; None: no bound."""
    provenance: bool = False
    """Whether a write pages only if its values may come from an earlier result, and the user said none of them."""
    surprise: tuple[float, ...] | None = None
    """Bits a call of the usual runs, each under the others, at `SURPRISE_LEVELS`; empty: too few runs.

    None: the reference does not tell how unlikely a path is.
    """
