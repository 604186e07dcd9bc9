"""A document's rules over data: what it remembers, and what its arguments are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from monitor.alphabet.alphabet import SymbolPatterns
from monitor.alphabet.data_conditions import USER, DataCondition
from monitor.alphabet.pattern import Pattern
from monitor.spec.data_rules import DataRules, RememberedValue, data_rules
from monitor.spec.document.faults import Notes
from monitor.spec.document.schema import RememberDocument, SpecDocument
from monitor.spec.suggestions import closest
from monitor.value_paths import PathError, path_of

__all__ = ["read_data_rules"]

NAMED_MAX: Final = 200
"""Tools that a name is compared with."""

ALIKE: Final = 0.88
"""How alike two names are, of 1, of which one may be a typing error: `users` is as like `user`."""


def read_data_rules(
    model: SpecDocument, symbols: Mapping[str, SymbolPatterns], notes: Notes
) -> DataRules | None:
    """The rules of a document; None if it has none. Names that lead nowhere are findings."""
    remembered = {
        name: value
        for name, each in model.remember.items()
        if (value := _remembered(name, each, notes)) is not None
    }
    used: set[str] = set()
    for name, value in remembered.items():
        _check_sources(value.tools, model, notes, "remember", name, "at")
    for symbol, (_, patterns) in symbols.items():
        for each in _conditions(patterns):
            used.add(each.value)
            _check_sources(
                each.tools, model, notes, "alphabet", symbol, "arguments", each.argument
            )
            if each.value and each.value not in model.remember:
                _undeclared(symbol, each, model, notes)
    for name in model.remember:
        if name not in used:
            notes.add("unused_value", f"nothing is compared with {name!r}", "remember", name)
    if notes.refuse:
        return None
    found = ((tool, _conditions(patterns)) for tool, patterns in symbols.values())
    return data_rules(found, remembered)


def _check_sources(
    named: Iterable[str], model: SpecDocument, notes: Notes, *path: str | int
) -> None:
    """Finds names that seem to mean another tool. Tools that the alphabet does not have may be sources, too."""
    tools = {symbol.tool for symbol in model.alphabet.values()}
    for name in named:
        if name in tools:
            continue
        symbol = model.alphabet.get(name)
        meant = symbol.tool if symbol is not None else ""
        if not meant and len(tools) < NAMED_MAX:
            meant = closest(name, (*tools, USER), ALIKE)
        if meant:
            what = "is a symbol" if symbol is not None else "is the tool of no symbol"
            message = f"{name!r} {what}: did you mean {meant!r}?"
            notes.add("undeclared_source", message, *path)


def _conditions(patterns: Mapping[str, Pattern] | None) -> Iterator[DataCondition]:
    for each in (patterns or {}).values():
        if isinstance(each.operand, DataCondition):
            yield each.operand


def _remembered(name: str, each: RememberDocument, notes: Notes) -> RememberedValue | None:
    where = ("remember", name)
    written = each.result if each.argument is None else each.argument
    if written is None or (each.result is not None and each.argument is not None):
        message = "write where the value is: either result or argument, with a path"
        notes.add("invalid_document", message, *where)
        return None
    of_result = each.argument is None
    try:
        path = path_of(written)
    except PathError as problem:
        notes.add("invalid_path", str(problem), *where, "result" if of_result else "argument")
        return None
    tools = (each.at,) if isinstance(each.at, str) else tuple(dict.fromkeys(each.at))
    return RememberedValue(name, tools, path, of_result, each.as_ == "text")


def _undeclared(symbol: str, each: DataCondition, model: SpecDocument, notes: Notes) -> None:
    close = closest(each.value, model.remember)
    hint = f"; did you mean {close!r}?" if close else ""
    message = f"`remember` has no {each.value!r}{hint}"
    notes.add("undeclared_value", message, "alphabet", symbol, "arguments", each.argument)
