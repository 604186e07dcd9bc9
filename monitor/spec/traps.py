"""Traps: states from which no accepting state can be reached.

Idea: the reverse search from the accepting states finds every state that is no trap. A policy's
joint states may be too many to list, so the search is done in areas: one for each group of
constraints that share symbols, since other constraints do not influence them. Where a group has too
many joint states, each constraint that may be open is searched together with its nearest neighbours
(a block).

Invariant: every trap that is found is one. A state that cannot be reached in a block cannot be
reached in the whole, so a trap of a few constraints is a trap of all. The reverse does not hold: in
a group that is cut, a trap that more constraints make together is not found. The compiler warns of
such a group (`too_many_joint_states`).

Example: `response: [open, close]` and `at_most: [close, 1]`. After `open close open`, the session
owes a `close` that the count refuses: a trap of two constraints.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from monitor.automaton.dfa import Area, Machine
from monitor.automaton.paths import dead_states
from monitor.spec.constraints import SideBySide

__all__ = ["Trap", "find_traps", "listed_areas"]

WORK_MAX: Final = 500_000
"""Constraints that may be looked at to list the states of a group: a quarter of a second."""

BLOCKS_WORK_MAX: Final = 200_000
"""The same for all neighbourhoods."""

STATES_MAX: Final = 10_000

BLOCK_STATES_MAX: Final = 1_024
"""Joint states of one constraint and its neighbours."""


class Trap(NamedTuple):
    """The traps of some constraints, or of an automaton."""

    area: Area
    states: dict[int, None]
    """States of the area's machine, the nearest to its start first."""


def find_traps(machine: Machine) -> tuple[Trap, ...]:
    """The traps of a machine."""
    found: list[Trap] = []
    for area in listed_areas(machine):
        part = area.machine
        if isinstance(part, SideBySide):
            part = part.reduced()
        dead = dead_states(part, max(STATES_MAX, len(area.states)))
        if dead:
            found.append(Trap(area, dict.fromkeys(dead)))
    return tuple(found)


def listed_areas(machine: Machine) -> tuple[Area, ...]:
    """The machine in areas, each whole or of few constraints.

    What cannot be reached in one of them cannot be reached at all.
    """
    return _listed(machine) if isinstance(machine, SideBySide) else machine.areas(())


@lru_cache(4)  # the compiler asks for them again and again
def _listed(machine: SideBySide) -> tuple[Area, ...]:
    groups = machine.groups([(symbol,) for symbol in range(len(machine.symbols))])
    found: list[Area] = []
    left = BLOCKS_WORK_MAX
    for number, members in enumerate(groups):
        area = machine.area(members, number, STATES_MAX, WORK_MAX)
        if area is not None:
            found.append(area)
            continue
        seen: set[tuple[int, ...]] = set()
        for seed in members:
            if left <= 0 or not machine.may_be_open(seed):
                continue
            block = tuple(machine.block(seed, members, BLOCK_STATES_MAX))
            left -= len(members)
            if block in seen:
                continue
            seen.add(block)
            area = machine.area(block, number, BLOCK_STATES_MAX, left)
            left -= len(machine.symbols) * len(block)
            if area is not None:
                left -= len(area.states) * len(block)
                found.append(area)
    return tuple(found)
