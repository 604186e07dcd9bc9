"""The `deadlines` and `idle` of a document."""

from __future__ import annotations

from typing import Final

from monitor.automaton.dfa import UNDEFINED, Automaton, Machine
from monitor.automaton.paths import reachable
from monitor.spec.compiler.machine import is_declared, no_state
from monitor.spec.document.faults import Notes
from monitor.spec.document.schema import DeadlineDocument, SpecDocument
from monitor.spec.timing import Deadline, SpecTiming

__all__ = ["read_timing"]

_SECOND: Final = 1_000_000_000


WORK_MAX: Final = 100_000
"""States times symbols times deadlines: more are not searched."""


def read_timing(model: SpecDocument, machine: Machine, notes: Notes) -> SpecTiming:
    """Deadlines and idle limits; what is wrong with them is a finding."""
    deadlines = [
        deadline
        for number, entry in enumerate(model.deadlines)
        if (deadline := _deadline(entry, model, machine, notes, number)) is not None
    ]
    if not isinstance(model.idle, dict):
        return SpecTiming(tuple(deadlines), round((model.idle or 0) * _SECOND))
    return SpecTiming(tuple(deadlines), 0, _by_state(model.idle, machine, notes))


def _deadline(
    entry: DeadlineDocument, model: SpecDocument, machine: Machine, notes: Notes, number: int
) -> Deadline | None:
    first = _symbols(entry.from_, model, notes, number, "from")
    then = _symbols(entry.to, model, notes, number, "to")
    if not first or not then:
        return None
    text = f"{_shown(first)} -> {_shown(then)} within {entry.within:g} s"
    within_ns = round(entry.within * _SECOND)
    deadline = Deadline(_numbers(first, machine), _numbers(then, machine), within_ns, text)
    few = (
        isinstance(machine, Automaton) and len(machine.table) * len(model.deadlines) < WORK_MAX
    )
    if few and _is_hopeless(deadline, machine):
        message = f"after {_shown(first)} no {_shown(then)} is ever allowed"
        notes.add("impossible_deadline", message, "deadlines", number)
    return deadline


def _symbols(
    named: str | list[str], model: SpecDocument, notes: Notes, number: int, key: str
) -> list[str]:
    """The symbols of one side; [] and a finding where there is a fault."""
    names = [named] if isinstance(named, str) else named
    if not names:
        notes.add("invalid_document", "name a symbol, or several", "deadlines", number, key)
    known = [is_declared(name, model, notes, "deadlines", number, key) for name in names]
    return names if all(known) else []


def _numbers(names: list[str], machine: Machine) -> frozenset[int]:
    return frozenset(machine.symbols.index(name) for name in names)


def _shown(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _is_hopeless(deadline: Deadline, machine: Machine) -> bool:
    """True if an automaton nowhere allows the second call after the first one."""
    if not isinstance(machine, Automaton):
        return False
    targets = {
        target
        for state in machine.everywhere()
        for symbol in deadline.first
        if (target := machine.step(state, symbol)) != UNDEFINED
    }
    return not any(
        machine.step(state, symbol) != UNDEFINED
        for state in reachable(machine, targets) or ()
        for symbol in deadline.then
    )


def _by_state(idle: dict[str, float], machine: Machine, notes: Notes) -> dict[int, int]:
    if not isinstance(machine, Automaton):
        message = "constraints have no states to name: write one time for all"
        notes.add("invalid_document", message, "idle")
        return {}
    number = {name: index for index, name in enumerate(machine.states)}
    for state in idle:
        if state not in number:
            notes.add("undeclared_state", no_state(state), "idle", state)
    return {
        number[state]: round(seconds * _SECOND)
        for state, seconds in idle.items()
        if state in number
    }
