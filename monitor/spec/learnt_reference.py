"""A learnt reference as plain data. Learning and watching are `monitor.reference`'s business."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from monitor.spec.risk_model import RiskModel

__all__ = ["PAGE_PRECISION", "SURPRISE_LEVELS", "Alarm", "LearntReference", "PrefixNode"]

PAGE_PRECISION: Final = 0.5
"""Precision that an alarm needs to page, where a document says nothing else."""


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
    """Leave-one-out figures of an alarm; None if they are not defined."""

    precision: float | None
    recall: float | None
    false_per_1000: float
    raised: int
    runs: int


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
    successes: int
    failures: int
    called_by: Mapping[str, tuple[int, int]]
    """Tool -> (successes, failures) that called it."""
    runs: int
    """Number of seen runs."""
    source: Mapping[str, Any]
    consistency: Mapping[str, Any] | None
    writes_from: str = "inferred"
    model: RiskModel | None = None
    """A risk learnt on many tasks; None: the risk is that of the tools called."""
    agreed_arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Writing tool -> argument -> digest of the value that all usual runs gave it."""
    page_precision: float = PAGE_PRECISION
    """An alarm that measures below is a hint."""
    surprise: tuple[float, ...] | None = None
    """Bits a call of the usual runs, each under the others, at `SURPRISE_LEVELS`; empty: too few runs.

    None: the reference does not tell how unlikely a path is.
    """
