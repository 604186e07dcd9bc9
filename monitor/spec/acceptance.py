"""Accepted calls: where they hold, until when, and the machine that lets them pass.

An accepted call changes nothing: where it is undefined it becomes a self-loop, so the session
stays where it is, and the call counts as a read. Where a constraint refuses it, it is a self-loop
of that constraint alone; the others see the call as ever. The last day is the entry's own; the
first day after it the call is harmful again, in sessions that begin from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import Final, NamedTuple

from monitor.automaton.dfa import UNDEFINED, Automaton, Machine
from monitor.spec.constraints import SideBySide
from monitor.spec.spec import Acceptance, Spec
from monitor.spec.traps import find_traps

__all__ = [
    "DAY_NS",
    "NoSuchPlace",
    "accepting",
    "day_of",
    "expires_ns",
    "in_force",
    "is_needless",
    "place_of",
]

DAY_NS: Final = 24 * 3_600 * 1_000_000_000
_EPOCH: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal() - _EPOCH

SHOWN_MAX: Final = 8
"""Constraints or states that a message lists."""


class NoSuchPlace(NamedTuple):
    """Why an entry holds nowhere."""

    code: str
    """Code of the finding."""
    key: str
    """Key of the entry; "" for the whole of it."""
    message: str


class _Place(NamedTuple):
    """Where an entry holds, in the numbers of the machine."""

    constraint: int
    """-1 in an automaton."""
    state: int
    symbol: int


# --- days -----------------------------------------------------------------------------------------


def day_of(now_ns: int) -> date:
    """The day of a moment, in UTC.

    Args:
        now_ns: Unix nanoseconds.
    """
    return date.fromordinal(_EPOCH + min(now_ns // DAY_NS, _LAST_DAY))


def expires_ns(acceptance: Acceptance) -> int:
    """When the entry holds no longer, Unix nanoseconds."""
    return (acceptance.until.toordinal() + 1 - _EPOCH) * DAY_NS


def in_force(spec: Spec, day: date) -> Spec:
    """The spec as it is on a day: without the entries that have expired by then."""
    kept = tuple(each for each in spec.accepted if each.until >= day)
    if kept == spec.accepted or spec.bare is None:
        return spec
    machine = accepting(spec.bare, kept)
    return replace(spec, accepted=kept, machine=machine, traps=find_traps(machine))


# --- places ---------------------------------------------------------------------------------------


def place_of(acceptance: Acceptance, machine: Machine) -> _Place | NoSuchPlace:
    """Where an entry of a declared symbol holds."""
    symbol = machine.symbols.index(acceptance.symbol)
    if isinstance(machine, SideBySide):
        return _in_constraint(acceptance, machine, symbol)
    if acceptance.constraint is not None:
        return NoSuchPlace("invalid_document", "constraint", "the spec has no constraints")
    states = machine.states if isinstance(machine, Automaton) else ()
    if acceptance.state not in states:
        return _no_state(acceptance.state, states)
    return _Place(-1, states.index(acceptance.state), symbol)


def _in_constraint(
    acceptance: Acceptance, machine: SideBySide, symbol: int
) -> _Place | NoSuchPlace:
    if acceptance.constraint not in machine.texts:
        message = f"name the constraint: {_listed(machine.texts)}"
        key = "constraint" if acceptance.constraint is not None else ""
        return NoSuchPlace("invalid_document", key, message)
    index = machine.texts.index(acceptance.constraint)
    states = machine.constraints[index].automaton.states
    if acceptance.state not in states:
        return _no_state(acceptance.state, states)
    return _Place(index, states.index(acceptance.state), symbol)


def _no_state(name: str, states: Sequence[str]) -> NoSuchPlace:
    message = f"there is no state {name!r}, but {_listed(states)}"
    return NoSuchPlace("undeclared_state", "state", message)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:SHOWN_MAX])) + ", ..." * (len(names) > SHOWN_MAX)


def is_needless(place: _Place, machine: Machine) -> bool:
    """True if the call is allowed without the entry."""
    if not isinstance(machine, SideBySide):
        return machine.step(place.state, place.symbol) != UNDEFINED
    constraint = machine.constraints[place.constraint]
    letter = constraint.letter(place.symbol)
    return letter == UNDEFINED or constraint.automaton.step(place.state, letter) != UNDEFINED


def accepting(machine: Machine, acceptances: Iterable[Acceptance]) -> Machine:
    """The machine in which the accepted calls are self-loops."""
    found = [place_of(each, machine) for each in acceptances]
    places = [
        place
        for place in found
        if not (isinstance(place, NoSuchPlace) or is_needless(place, machine))
    ]
    if not places:
        return machine
    if isinstance(machine, SideBySide):
        return machine.accepting(places)
    assert isinstance(machine, Automaton)
    table, width = list(machine.table), len(machine.symbols)
    for place in places:
        table[place.state * width + place.symbol] = place.state
    return replace(machine, table=tuple(table))
