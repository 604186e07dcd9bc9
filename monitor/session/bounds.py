"""What a spec says of a session's time and future: deadlines, idle limits, traps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from monitor.automaton.dfa import Machine
from monitor.automaton.paths import dead_states
from monitor.automaton.position import Position, likely
from monitor.spec.spec import Deadline, Spec

__all__ = ["Bounds", "bounds_of"]

TRAP_STATES_MAX: Final = 10_000
"""Joint states of constraints that are looked through for traps."""


class Bounds:
    """Deadlines, idle limits and traps of one spec, ready to be asked. Times in nanoseconds."""

    __slots__ = ("_idle_by_state", "_idle_ns", "_machine", "deadlines", "shortest_ns", "traps")

    def __init__(
        self,
        machine: Machine,
        deadlines: tuple[Deadline, ...],
        idle_ns: int,
        idle_by_state: Mapping[int, int],
        traps: frozenset[int],
    ) -> None:
        self.deadlines = deadlines
        self.traps = traps
        """States from which no accepting state can be reached."""
        self._machine = machine
        self._idle_ns = idle_ns
        self._idle_by_state = idle_by_state
        times = [each.within_ns for each in deadlines] + [idle_ns, *idle_by_state.values()]
        self.shortest_ns = min((time for time in times if time), default=0)
        """The shortest of all times; 0 where there are none."""

    def hopeless(self, position: Position) -> bool:
        """True where every state the session may be in is a trap."""
        if isinstance(position, int):
            return position in self.traps
        return bool(position) and all(state in self.traps for state, _ in position)

    def idle_ns(self, position: Position) -> int:
        """How long no call may come there; 0 where that is not limited, or not for certain."""
        limits = [self._limit(state) for state in likely(position)]
        return max(limits) if limits and all(limits) else 0

    def _limit(self, state: int) -> int:
        if self._idle_by_state:
            return self._idle_by_state.get(state, 0)
        return self._idle_ns if self._idle_ns and not self._machine.accepts(state) else 0


def bounds_of(spec: Spec, machine: Machine) -> Bounds | None:
    """The bounds of a spec whose sessions step `machine`; None where there are none.

    Traps are looked for where the compiler has found one: every other spec costs nothing here. A
    reference judges nothing.
    """
    if spec.kind == "reference":
        return None
    trapped = any(finding.code == "trap" for finding in spec.findings)
    traps = frozenset(dead_states(machine, TRAP_STATES_MAX)) if trapped else frozenset[int]()
    if not (spec.deadlines or spec.idle_ns or spec.idle_by_state or traps):
        return None
    return Bounds(machine, spec.deadlines, spec.idle_ns, spec.idle_by_state, traps)
