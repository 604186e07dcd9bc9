"""The deadlines, idle limits and traps of a spec.

Idea: a *trap* is a state from which no accepting state can be reached. Each area of a machine has its
own traps (`monitor.spec.traps`). A session with an uncertain position is trapped only if each state
it may be in is a trap.

Example: a position may be state 3 or state 5. If only 5 is a trap, the session may still finish. If
both are traps, it cannot.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Final

from monitor.automaton.position import Position, Stepper
from monitor.spec.spec import Spec
from monitor.spec.timing import NO_TIMING, SpecTiming
from monitor.spec.traps import Trap

__all__ = ["DeadlinesAndTraps", "deadlines_and_traps_of"]

COMBINED_MAX: Final = 4_096
"""Limit of the combinations of states that are tested for traps. Beyond it, none is claimed."""

_CACHE_MAX: Final = 4_096


class DeadlinesAndTraps:
    """Deadlines, idle limits and traps of one spec. Times are nanoseconds."""

    __slots__ = (
        "_hopeless",
        "_idle",
        "_idle_by_state",
        "_idle_ns",
        "_stepper",
        "deadlines",
        "shortest_ns",
        "traps",
    )

    def __init__(
        self,
        stepper: Stepper,
        timing: SpecTiming,
        traps: tuple[Trap, ...],
    ) -> None:
        self.deadlines = timing.deadlines
        self.traps = traps
        """States from which no accepting state can be reached."""
        self._stepper = stepper
        self._idle_ns = timing.idle_ns
        self._idle_by_state = timing.idle_by_state
        self._hopeless: dict[Position, bool] = {}
        self._idle: dict[Position, int] = {}
        self.shortest_ns = min(timing.times(), default=0)
        """The shortest of all times; 0 if there are none."""

    def hopeless(self, position: Position) -> bool:
        """True if every state the session may be in is a trap."""
        found = self._hopeless.get(position)
        if found is None:
            if len(self._hopeless) >= _CACHE_MAX:
                self._hopeless.clear()
            found = any(self._always(trap, position) for trap in self.traps)
            self._hopeless[position] = found
        return found

    def _always(self, trap: Trap, position: Position) -> bool:
        """True if each combination of the states that the position's areas may be in is a trap."""
        shares = [
            {trap.area.part(value) for value in values}
            for values in self._stepper.possible(position)
        ]
        if prod(map(len, shares)) > COMBINED_MAX:
            return False  # too many to test: the position is not shown to be a trap
        return all(sum(each) in trap.states for each in product(*shares))

    def idle_ns(self, position: Position) -> int:
        """The idle limit at a position; 0 if a state that the session may be in has none."""
        if not self._idle_by_state:
            limited = self._idle_ns and self._stepper.cannot_accept(position)
            return self._idle_ns if limited else 0
        if isinstance(position, int):
            return self._idle_by_state.get(position, 0)
        found = self._idle.get(position)
        if found is None:
            if len(self._idle) >= _CACHE_MAX:
                self._idle.clear()
            (states,) = self._stepper.possible(position)
            limits = [self._idle_by_state.get(state, 0) for state in states]
            found = self._idle[position] = max(limits) if all(limits) else 0
        return found


def deadlines_and_traps_of(spec: Spec, stepper: Stepper) -> DeadlinesAndTraps | None:
    """Those of a spec, for sessions that `stepper` steps; None if it has none. References have none."""
    if spec.kind == "reference":
        return None
    traps = spec.traps
    if spec.timing == NO_TIMING and not traps:
        return None
    return DeadlinesAndTraps(stepper, spec.timing, traps)
