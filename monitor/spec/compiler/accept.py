"""The `accept:` entries of a document, with findings of those that say nothing (any more)."""

from __future__ import annotations

from datetime import date

from monitor.automaton.dfa import Machine
from monitor.spec.acceptance import NoSuchPlace, is_needless, place_of
from monitor.spec.compiler.machine import is_declared
from monitor.spec.document.faults import Notes
from monitor.spec.document.schema import AcceptDocument, SpecDocument
from monitor.spec.document.yaml_text import Path
from monitor.spec.spec import Acceptance

__all__ = ["read_accept"]


def read_accept(
    model: SpecDocument, machine: Machine, notes: Notes, day: date | None
) -> tuple[Acceptance, ...]:
    """The entries that hold on `day`; None: whatever the day, all of them."""
    found = []
    for number, entry in enumerate(model.accept):
        acceptance = _read(entry, model, notes, number)
        if acceptance is None or not _holds(acceptance, machine, notes, number):
            continue
        if day is not None and acceptance.until < day:
            message = f"{entry.symbol!r} was accepted by {entry.who} until {entry.until}"
            notes.add("expired_acceptance", message, "accept", number, "until")
        else:
            found.append(acceptance)
    return tuple(found)


def _read(
    entry: AcceptDocument, model: SpecDocument, notes: Notes, number: int
) -> Acceptance | None:
    declared = is_declared(entry.symbol, model, notes, "accept", number, "symbol")
    try:
        until = date.fromisoformat(entry.until)
    except ValueError:
        message = f"{entry.until!r} is no day; write it as 2026-12-31"
        notes.add("invalid_document", message, "accept", number, "until")
        return None
    if not declared:
        return None
    return Acceptance(entry.symbol, entry.state, entry.constraint, entry.who, entry.why, until)


def _holds(acceptance: Acceptance, machine: Machine, notes: Notes, number: int) -> bool:
    """False, and a finding, where there is no such place."""
    place = place_of(acceptance, machine)
    if isinstance(place, NoSuchPlace):
        path: Path = ("accept", number, place.key) if place.key else ("accept", number)
        notes.add(place.code, place.message, *path)
        return False
    if is_needless(place, machine):
        message = f"{acceptance.symbol!r} is allowed in {acceptance.state!r} anyway"
        notes.add("needless_acceptance", message, "accept", number)
    return True
