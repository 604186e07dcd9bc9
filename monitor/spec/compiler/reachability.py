"""Whether a spec's machine makes sense: what cannot be reached, finished, or used."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from monitor.automaton import paths
from monitor.automaton.dfa import UNDEFINED, Automaton, Machine
from monitor.spec.compiler.machine import form_of
from monitor.spec.constraints import Constraint, SideBySide, side_by_side
from monitor.spec.document.faults import Notes
from monitor.spec.document.schema import SpecDocument
from monitor.spec.document.yaml_text import Path
from monitor.spec.traps import Trap, find_traps, listed_areas

__all__ = ["can_finish", "check_areas", "check_graph", "check_traps", "states_max"]


WORK_MAX: Final = 500_000
"""Steps a search of constraints side by side may take: a quarter of a second."""


CORE_WORK_MAX: Final = 1_000_000
"""Steps that may be taken to say which constraints contradict each other."""


def states_max(machine: Machine) -> int:
    """How many states are worth looking at: fewer where each has a long row."""
    if not isinstance(machine, SideBySide):
        return paths.STATES_MAX
    return min(paths.STATES_MAX, WORK_MAX // machine.width)


def can_finish(machine: Machine, notes: Notes) -> bool:
    """Whether some session can end well; a finding where none can."""
    for area in listed_areas(machine):
        part = area.machine
        if any(part.accepts(state) for state in area.states):
            continue
        key = "constraints" if isinstance(part, SideBySide) else "accepting"
        message = f"no accepting state can be reached from {machine.name(machine.initial)!r}"
        if isinstance(part, SideBySide):
            texts = " and ".join(repr(each.text) for each in _core(part))
            message = f"no session can satisfy {texts}: the constraints contradict each other"
        notes.add("no_accepting_state_reachable", message, key)
        return False
    return True


def _core(machine: SideBySide) -> tuple[Constraint, ...]:
    """A few of the constraints that contradict each other already without the rest.

    Each is left out in turn, and stays out where the others still contradict each other. The work
    is bounded, so more than the fewest may be left.
    """
    kept = list(machine.constraints)
    budget = CORE_WORK_MAX
    for constraint in machine.constraints:
        fewer = [each for each in kept if each is not constraint]
        if not fewer or budget <= 0:
            break
        part = side_by_side(machine.symbols, fewer)
        states = paths.reachable(part, (part.initial,), states_max(part))
        budget -= part.width * (len(states) if states is not None else states_max(part))
        if states is not None and not any(part.accepts(state) for state in states):
            kept = fewer
    return tuple(kept)


def _check_impossible(machine: SideBySide, notes: Notes) -> None:
    """Finds calls that each constraint allows somewhere, and all of them together nowhere."""
    possible = set(range(len(machine.symbols)))
    for area in listed_areas(machine):
        assert isinstance(area.machine, SideBySide)
        part, states = area.machine, area.states
        kinds = {part.likeness(symbol): symbol for symbol in possible}
        allowed = {
            kind
            for kind, symbol in kinds.items()
            if any(part.step(state, symbol) != UNDEFINED for state in states)
        }
        possible = {symbol for symbol in possible if part.likeness(symbol) in allowed}
    for symbol, name in enumerate(machine.symbols):
        if symbol in possible or any(each.forbids(symbol) for each in machine.constraints):
            continue
        rules = [each for each in machine.constraints if each.letter(symbol) != UNDEFINED]
        texts = " and ".join(repr(each.text) for each in rules)
        notes.add("impossible_call", f"{texts} leave no place for {name!r}", "constraints")


def check_graph(model: SpecDocument, machine: Machine, notes: Notes) -> None:
    """Finds states and symbols without use, and progress cycles of tasks."""
    _check_unused(model, machine, notes)
    if isinstance(machine, SideBySide):
        _check_impossible(machine, notes)
    if not isinstance(machine, Automaton):
        return
    reached = frozenset(machine.everywhere())
    for state, name in enumerate(machine.states):
        if state not in reached:
            message = f"no edge leads to {name!r}"
            notes.add("unreachable_state", message, *_place_of_state(model, name))
    if model.kind == "task":
        for group in paths.progress_cycles(machine):
            message = ", ".join(repr(machine.name(state)) for state in group)
            where = _place_of_state(model, machine.name(group[0]))
            notes.add("progress_cycle", f"{message} lie on a cycle", *where)


def _check_unused(model: SpecDocument, machine: Machine, notes: Notes) -> None:
    accepted = {entry.symbol for entry in model.accept}
    for symbol, name in enumerate(machine.symbols):
        used = _is_used(machine, symbol) or _narrows(model, machine, name)
        if name not in accepted and not used:
            notes.add("unused_symbol", f"nothing uses {name!r}", "alphabet", name)


def _narrows(model: SpecDocument, machine: Machine, name: str) -> bool:
    """True if a symbol takes calls from another one of its tool that is used: what is fine is declared, the rest forbidden."""
    mine = model.alphabet[name]
    return any(
        model.alphabet[other].tool == mine.tool and _is_used(machine, symbol)
        for symbol, other in enumerate(machine.symbols)
    )


def _is_used(machine: Machine, symbol: int) -> bool:
    if isinstance(machine, SideBySide):
        return machine.mentions(symbol)
    states = range(len(machine.states)) if isinstance(machine, Automaton) else ()
    return any(machine.step(state, symbol) != UNDEFINED for state in states)


def check_traps(model: SpecDocument, machine: Machine, notes: Notes) -> tuple[Trap, ...]:
    """Finds states that no session can finish from, accepted calls included.

    Args:
        model: the document.
        machine: its machine, with the calls that it accepts.
        notes: takes the findings.
    """
    traps = find_traps(machine)
    for area, states in traps:
        if isinstance(area.machine, SideBySide):
            first = next(iter(states))
            open_ones = " and ".join(map(repr, area.machine.unsatisfied(first)))
            message = f"after {area.machine.name(first)!r} no session can satisfy {open_ones}"
            notes.add("trap", f"{message} any more", "constraints")
            break
        for state in states:
            name = machine.name(state)
            message = f"from {name!r} no accepting state can be reached"
            notes.add("trap", message, *_place_of_state(model, name))
    return traps


def check_areas(machine: Machine, together: Iterable[Collection[int]], notes: Notes) -> None:
    """Finds constraints that cannot be read as one where something is not known.

    Args:
        machine: with the calls that it accepts.
        together: symbols that one call may be.
        notes: takes the finding.
    """
    groups = [area.group for area in machine.areas(together)]
    if len(set(groups)) < len(groups):
        message = "constraints over the same calls have too many states together to list them"
        notes.add("too_many_joint_states", message, "constraints")


def _place_of_state(model: SpecDocument, name: str) -> Path:
    if model.transitions is not None and name in model.transitions:
        return ("transitions", name)
    if model.states is not None and name in model.states:
        return ("states", model.states.index(name))
    return (form_of(model),)
