"""Bounds and times of a monitor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["SECOND", "Limits"]

SECOND: Final = 1_000_000_000
"""In nanoseconds, as all times of the monitor."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds and times; times in nanoseconds."""

    window_ns: int = 10 * SECOND
    """A verdict is final this long after its call was received."""
    idle_ns: int = 30 * 60 * SECOND
    """A session without calls for this long has ended."""
    hold_ns: int = 5 * 60 * SECOND
    """A finished session counts in the gauges for this long, so that short ones are seen."""
    sessions_max: int = 100_000
    """Live sessions; beyond it the least recently active is evicted."""
    pairs_max: int = 2_000
    """Pairs of agent and spec with series of their own; more fold into one, visibly."""
    history_complete: bool = False
    """Every session is seen from its first call, whatever its times."""
    keep_arguments: bool = False
    """Keep arguments as long as their step, and show them."""
    fold: bool = True
    """False keeps every step (replay)."""
