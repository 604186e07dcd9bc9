"""Bounds and times of a monitor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "HELD_BYTES_MAX",
    "NAMES_BYTES_MAX",
    "SECOND",
    "SESSION_BYTES_MAX",
    "SHARED_LATE_NS",
    "SHARED_THINGS_BYTES_MAX",
    "SHARED_THINGS_MAX",
    "THINGS_MAX",
    "Limits",
]

SECOND: Final = 1_000_000_000
"""One second in nanoseconds, the unit of all times of the monitor."""

SESSION_BYTES_MAX: Final = 192 << 20
"""Approximate bytes of all live sessions: 100,000 with a dozen calls each."""

HELD_BYTES_MAX: Final = 16 << 20
"""Bytes of calls that wait for another spec to be bound, with their arguments."""

NAMES_BYTES_MAX: Final = 8 << 20
"""Bytes of tools' names that no spec has, in the steps of sessions."""


THINGS_MAX: Final = 10_000
"""Things of one session under one spec with `each`."""


SHARED_THINGS_MAX: Final = 100_000
"""Things that sessions have in common, of all specs with `across`: about 500 bytes each, and 270 for each further call."""


SHARED_THINGS_BYTES_MAX: Final = 64 << 20
"""Approximate bytes of things that sessions have in common."""

SHARED_LATE_NS: Final = 60 * SECOND
"""A thing of several sessions is forgotten so long after its time, since calls on it may come late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds and times; times in nanoseconds."""

    window_ns: int = 10 * SECOND
    """A verdict is final this long after its call was received."""
    confirm_ns: int = 60 * SECOND
    """A call that was decided, and that nothing confirms, is not final for this long after its decision."""
    idle_ns: int = 30 * 60 * SECOND
    """A session without calls for this long has ended."""
    remember_ns: int = 24 * 60 * 60 * SECOND
    """The state of an ended session is kept for this long after its end, in case it goes on."""
    hold_ns: int = 5 * 60 * SECOND
    """A finished session counts in the gauges for this long, so that short ones are seen."""
    sessions_max: int = 100_000
    """Live sessions; beyond it the least recently active is evicted."""
    sessions_bytes_max: int = SESSION_BYTES_MAX
    """Approximate bytes of live sessions; beyond it the least recently active is evicted."""
    held_bytes_max: int = HELD_BYTES_MAX
    """Calls that wait for another spec, with their arguments; beyond it they wait no longer."""
    names_bytes_max: int = NAMES_BYTES_MAX
    """Names of tools that no spec has; beyond it new names count as one."""
    things_max: int = THINGS_MAX
    """Things of one session under one spec; beyond it those that accept and were not carried for longest are dropped."""
    shared_things_max: int = SHARED_THINGS_MAX
    """Things that sessions have in common; beyond it those that were longest untouched are dropped, of who has most."""
    shared_things_bytes_max: int = SHARED_THINGS_BYTES_MAX
    """Approximate bytes of these; beyond it the same."""
    pairs_max: int = 2_000
    """Pairs of agent and spec with series of their own; more fold into one, visibly."""
    agents_max: int | None = None
    """Agents of one namespace with series of their own; more fold into one, by spec. None: as many as `pairs_max` allows."""
    namespace_label: Literal["auto", "always", "never"] = "auto"
    """Whether sums are kept by namespace, and say so: `auto` says so where it is not empty."""
    history_complete: bool = False
    """True if every session is seen from its first call, whatever its times."""
    keep_arguments: bool = False
    """Keep arguments as long as their step, and show them."""
    fold: bool = True
    """False keeps every step (replay)."""
