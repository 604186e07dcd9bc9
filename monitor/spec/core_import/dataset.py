"""The published data set of CORE's authors -> our spec documents.

    JSON --published_forms--> Task --published_repairs--> Task --document--> YAML text

A task keeps the states and edges as they were listed, so that defects can be reported and repaired
visibly. The importer reports every repair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from monitor.alphabet.pattern import same
from monitor.spec.document.write import flow, name

__all__ = [
    "DatasetState",
    "Defect",
    "Edge",
    "Repair",
    "Symbol",
    "Task",
    "defects",
    "document",
]


@dataclass(frozen=True, slots=True)
class Edge:
    """What is listed under a state: on any of `symbols`, from `source` to `target`."""

    symbols: tuple[str, ...]
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class DatasetState:
    """A state as it is listed."""

    name: str
    final: bool
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A tool and the patterns of its arguments, as our documents write them."""

    tool: str
    arguments: Mapping[str, Any] | None
    """None: any arguments; {}: none at all."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task as published."""

    id: str
    description: str
    world: str
    initial: str
    states: tuple[DatasetState, ...]
    alphabet: Mapping[str, Symbol]
    expected: Any = None
    """The expected sequences, in whatever form they are given."""


@dataclass(frozen=True, slots=True)
class Defect:
    """What is wrong with a task.

    Codes are those of `monitor.findings`, and one that only such data can have:
    `wrong_edge_source`, an edge listed under a state it does not start from.
    """

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class Repair:
    """A defect and what was done about it."""

    defect: Defect
    done: str

    def __str__(self) -> str:
        return f"{self.defect}; {self.done}"


# --- defects ----------------------------------------------------------------------------------


def defects(task: Task) -> tuple[Defect, ...]:
    """Everything that is wrong with a task, in reading order."""
    finders = (_duplicate_states, _wrong_sources, _undeclared, _undeclared_states, _choices,
               _ties, _dead_ends)  # fmt: skip
    return tuple(defect for find in finders for defect in find(task))


def _duplicate_states(task: Task) -> Iterator[Defect]:
    seen: set[str] = set()
    for state in task.states:
        if state.name in seen:
            yield Defect("duplicate_state", f"state {state.name!r} is listed twice")
        seen.add(state.name)


def _wrong_sources(task: Task) -> Iterator[Defect]:
    for state, edge in _listed(task):
        if edge.source != state.name:
            message = (
                f"an edge listed under {state.name!r} says that it starts from {edge.source!r}"
            )
            yield Defect("wrong_edge_source", message)


def _undeclared(task: Task) -> Iterator[Defect]:
    for state, edge in _listed(task):
        for symbol in edge.symbols:
            if symbol not in task.alphabet:
                message = f"{symbol!r} on an edge of {state.name!r} is not in the alphabet"
                yield Defect("undeclared_symbol", message)


def _undeclared_states(task: Task) -> Iterator[Defect]:
    names = {state.name for state in task.states}
    if task.initial not in names:
        yield Defect("undeclared_state", f"the initial state {task.initial!r} is not listed")
    for state, edge in _listed(task):
        if edge.target not in names:
            message = f"an edge of {state.name!r} leads to {edge.target!r}, which is not listed"
            yield Defect("undeclared_state", message)


def _choices(task: Task) -> Iterator[Defect]:
    for state in task.states:
        targets: dict[str, list[str]] = {}
        for edge in state.edges:
            for symbol in edge.symbols:
                known = targets.setdefault(symbol, [])
                if edge.target not in known:
                    known.append(edge.target)
        for symbol, found in targets.items():
            if len(found) > 1:
                message = f"{symbol!r} leads from {state.name!r} to {' and to '.join(found)}"
                yield Defect("nondeterministic", message)


def _ties(task: Task) -> Iterator[Defect]:
    """Symbols that mean the very same calls."""
    for (one, first), (other, second) in combinations(task.alphabet.items(), 2):
        if first.tool == second.tool and same(first.arguments, second.arguments):
            message = f"{one!r} and {other!r} have the same pattern"
            yield Defect("overlapping_patterns", message)


def _dead_ends(task: Task) -> Iterator[Defect]:
    ends = {state.name for state in task.states if state.final}
    if not ends:
        yield Defect("no_accepting_state_reachable", "no state is marked as final")
        return
    edges: dict[str, set[str]] = {}
    for _, edge in _listed(task):
        if any(symbol in task.alphabet for symbol in edge.symbols):
            edges.setdefault(edge.source, set()).add(edge.target)
    reached = {task.initial}
    todo = [task.initial]
    while todo:
        new = edges.get(todo.pop(), set()) - reached
        reached |= new
        todo += new
    if not ends & reached:
        message = f"no accepting state can be reached from {task.initial!r}"
        yield Defect("no_accepting_state_reachable", message)


def _listed(task: Task) -> Iterator[tuple[DatasetState, Edge]]:
    return ((state, edge) for state in task.states for edge in state.edges)


# --- our document -----------------------------------------------------------------------------

_LINE_MAX: Final = 96


def document(task: Task, repairs: tuple[Repair, ...] = ()) -> str:
    """The task as a spec document, scored by the published conventions.

    Args:
        task: without defects, or the compiler says what is wrong with the document.
        repairs: listed in comments at the top.
    """
    lines = [f"# Imported{f', world {task.world}' if task.world else ''}."]
    lines += [f"# Repaired: {each}" for each in repairs]
    lines += ["", f"id: {flow(task.id)}"]
    if task.description:
        lines.append(f"description: {flow(task.description)}")
    lines += ["conventions: core", "", "alphabet:"]
    for symbol, meaning in task.alphabet.items():
        lines += _symbol(symbol, meaning)
    accepting = dict.fromkeys(state.name for state in task.states if state.final)
    lines += ["", f"initial: {name(task.initial)}", f"accepting: {_names(accepting)}"]
    lines += ["transitions:", *(_row(state, loops=False) for state in task.states)]
    loops = [_row(state, loops=True) for state in task.states if _symbols(state, loops=True)]
    lines += ["reads:", *loops] if loops else []
    return "\n".join(map(_printable, lines)) + "\n"


def _symbol(symbol: str, meaning: Symbol) -> list[str]:
    """On one line where it fits."""
    given = meaning.arguments
    arguments = "" if given is None else f", arguments: {flow(given)}"
    line = f"  {name(symbol)}: {{tool: {name(meaning.tool)}{arguments}}}"
    if len(line) <= _LINE_MAX or not given:
        return [line]
    patterns = [f"      {name(key)}: {flow(value)}" for key, value in given.items()]
    return [
        f"  {name(symbol)}:",
        f"    tool: {name(meaning.tool)}",
        "    arguments:",
        *patterns,
    ]


def _row(state: DatasetState, *, loops: bool) -> str:
    symbols = _symbols(state, loops=loops)
    if loops:
        return f"  {name(state.name)}: {_names(symbols)}"
    row = ", ".join(f"{name(symbol)}: {name(target)}" for symbol, target in symbols.items())
    return f"  {name(state.name)}: {{{row}}}"


def _symbols(state: DatasetState, *, loops: bool) -> dict[str, str]:
    """Target by symbol of the state's loops, or of its other edges."""
    return {
        symbol: edge.target
        for edge in state.edges
        if (edge.target == state.name) is loops
        for symbol in edge.symbols
    }


def _names(names: Mapping[str, object]) -> str:
    return "[" + ", ".join(map(name, names)) + "]"


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in line)
