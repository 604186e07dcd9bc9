"""A document's machine, from whichever form it has: transitions, golden sequences, constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from monitor.automaton import paths
from monitor.automaton.dfa import Automaton, Machine, build
from monitor.spec import constraints
from monitor.spec.constraints import Constraint, ConstraintError, SideBySide
from monitor.spec.document.faults import Notes
from monitor.spec.document.schema import SpecDocument
from monitor.spec.document.yaml_text import Path
from monitor.spec.suggestions import closest

__all__ = ["FORMS", "form_of", "is_declared", "no_state", "read_machine"]

FORMS: Final = ("transitions", "golden", "constraints")

TABLE_MAX: Final = 2_000_000
"""States times symbols: 16 MB of table."""

Edges = dict[tuple[str, str], str]


def form_of(model: SpecDocument) -> str:
    """The key the machine is written under."""
    return next(name for name in FORMS if getattr(model, name) is not None)


def no_state(name: str) -> str:
    """What to say of a state that does not exist."""
    return f"there is no state {name!r}"


def is_declared(name: str, model: SpecDocument, notes: Notes, *path: str | int) -> bool:
    """Whether the alphabet has the symbol; a finding at `path` where it has not."""
    if name in model.alphabet:
        return True
    close = closest(name, model.alphabet) if len(model.alphabet) < 200 else ""
    hint = f"; did you mean {close!r}?" if close else ""
    notes.add("undeclared_symbol", f"{name!r} is not in the alphabet{hint}", *path)
    return False


def read_machine(model: SpecDocument, notes: Notes) -> Machine | None:
    """The machine of whichever form the document has, or None if that is refused."""
    own = Notes(notes.file, notes.read)
    machine = _read(model, own)
    notes.found += own.found
    return None if own.refuse else machine


def _read(model: SpecDocument, notes: Notes) -> Machine | None:
    given = [name for name in FORMS if getattr(model, name) is not None]
    if len(given) != 1:
        instead = f", not {' and '.join(given)}" if given else ""
        message = f"write one of {', '.join(FORMS)}{instead}"
        notes.add("invalid_document", message, *given[1:2])
        return None
    if model.transitions is not None:
        return _from_transitions(model, model.transitions, notes)
    for name in ("initial", "accepting", "states"):
        if getattr(model, name) is not None:
            notes.add("invalid_document", f"{name!r} goes with transitions only", name)
    if model.golden is not None:
        return _from_golden(model, model.golden, notes)
    return _from_constraints(model, model.constraints or [], notes)


def _from_transitions(
    model: SpecDocument, transitions: Mapping[str, Mapping[str, str | list[str]]], notes: Notes
) -> Automaton | None:
    if model.initial is None or not model.accepting:
        for name in ("initial", "accepting"):
            if not getattr(model, name):
                message = f"transitions need the key {name!r}"
                notes.add("invalid_document", message, *[name] * ((name,) in notes.read.places))
        return None
    edges = _edges(model, transitions, notes)
    if model.states is None:
        states = _mentioned(model, edges)
    else:
        states = dict.fromkeys(model.states)
        _check_states(model, states, edges, notes)
    return _automaton(model, tuple(states), model.initial, model.accepting, edges, notes)


def _edges(
    model: SpecDocument, transitions: Mapping[str, Mapping[str, str | list[str]]], notes: Notes
) -> Edges:
    edges: Edges = {}
    for state, row in transitions.items():
        for symbol, target in row.items():
            path = ("transitions", state, symbol)
            if not is_declared(symbol, model, notes, *path):
                continue
            targets = list(dict.fromkeys([target] if isinstance(target, str) else target))
            if len(targets) > 1:
                message = f"{symbol!r} leads from {state!r} to {' and to '.join(targets)}"
                notes.add("nondeterministic", message, *path)
            elif not targets:
                notes.add("invalid_document", f"{symbol!r} leads nowhere", *path)
            else:
                edges[state, symbol] = targets[0]
    return edges


def _mentioned(model: SpecDocument, edges: Edges) -> dict[str, None]:
    """States in the order the transitions name them; one that is named elsewhere only, last."""
    states: dict[str, None] = {}
    for state in model.transitions or {}:
        states[state] = None
    for target in edges.values():
        states.setdefault(target)
    for state in (model.initial, *(model.accepting or ())):
        if state is not None:
            states.setdefault(state)
    return states


def _check_states(
    model: SpecDocument, states: Mapping[str, None], edges: Edges, notes: Notes
) -> None:
    """Every state that is used is in the list `states`, and is there once."""
    seen: set[str] = set()
    for place, name in enumerate(model.states or []):
        if name in seen:
            notes.add("duplicate_state", f"{name!r} is already listed", "states", place)
        seen.add(name)
    used: list[tuple[str, Path]] = [(str(model.initial), ("initial",))]
    used += [(name, ("accepting", i)) for i, name in enumerate(model.accepting or [])]
    used += [(name, ("transitions", name)) for name in model.transitions or {}]
    used += [(target, ("transitions", *source)) for source, target in edges.items()]
    for name, path in used:
        if name not in states:
            notes.add("undeclared_state", no_state(name), *path)


def _from_golden(
    model: SpecDocument, golden: list[list[str]], notes: Notes
) -> Automaton | None:
    """The smallest automaton of just these words; states G0, G1, ... breadth first."""
    letters = {name: index for index, name in enumerate(model.alphabet)}
    known = [
        is_declared(name, model, notes, "golden", place, step)
        for place, word in enumerate(golden)
        for step, name in enumerate(word)
    ]
    if not all(known):
        return None
    words = [[letters[name] for name in word] for word in golden]
    rows, accepting = _minimal(words)
    if not _fits(len(rows), len(letters), notes):
        return None
    names, symbols = [f"G{index}" for index in range(len(rows))], list(letters)
    edges = {
        (names[state], symbols[letter]): names[target]
        for state, row in enumerate(rows)
        for letter, target in row.items()
    }
    return _automaton(
        model, tuple(names), "G0", [names[state] for state in sorted(accepting)], edges, notes
    )


def _minimal(words: Iterable[list[int]]) -> tuple[list[dict[int, int]], set[int]]:
    """Minimal acyclic DFA of a finite set of words: edges by state, and accepting states.

    A prefix tree whose equal subtrees are merged from the leaves up (Revuz 1992); states are
    numbered breadth first, letters in order.
    """
    tree: list[dict[int, int]] = [{}]
    ends: set[int] = set()
    for word in words:
        node = 0
        for letter in word:
            if letter not in tree[node]:
                tree[node][letter] = len(tree)
                tree.append({})
            node = tree[node][letter]
        ends.add(node)
    merged: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {}
    kept = [0] * len(tree)
    for node in reversed(range(len(tree))):  # children are made after their parents
        row = tuple(sorted((letter, kept[child]) for letter, child in tree[node].items()))
        kept[node] = merged.setdefault((node in ends, row), node)
    return _number_states(tree, ends, kept)


def _number_states(
    tree: list[dict[int, int]], ends: set[int], kept: list[int]
) -> tuple[list[dict[int, int]], set[int]]:
    number = {kept[0]: 0}
    queue = [kept[0]]
    rows: list[dict[int, int]] = []
    for node in queue:  # grows while it is read
        row = {letter: kept[child] for letter, child in sorted(tree[node].items())}
        for child in row.values():
            if child not in number:
                number[child] = len(number)
                queue.append(child)
        rows.append({letter: number[child] for letter, child in row.items()})
    return rows, {number[node] for node in queue if node in ends}


def _automaton(
    model: SpecDocument,
    states: tuple[str, ...],
    initial: str,
    accepting: list[str],
    edges: Edges,
    notes: Notes,
) -> Automaton | None:
    if not _fits(len(states), len(model.alphabet), notes):
        return None
    loops = _reads(model, frozenset(states), edges, notes)
    if notes.refuse:
        return None
    return build(states, model.alphabet, initial, accepting, {**loops, **edges})


def _fits(states: int, symbols: int, notes: Notes) -> bool:
    if states <= paths.STATES_MAX and states * symbols <= TABLE_MAX:
        return True
    message = (
        f"{states:,} states and {symbols:,} symbols; at most {paths.STATES_MAX:,} states and "
    )
    notes.add("too_large", f"{message}{TABLE_MAX:,} pairs of both fit")
    return False


def _reads(model: SpecDocument, states: frozenset[str], edges: Edges, notes: Notes) -> Edges:
    """The self-loops that `reads` stands for."""
    if isinstance(model.reads, list):
        listed = [
            name
            for place, name in enumerate(model.reads)
            if is_declared(name, model, notes, "reads", place)
        ]
        return {
            (state, name): state
            for name in listed
            for state in states
            if (state, name) not in edges
        }
    loops: Edges = {}
    for state, names in model.reads.items():
        if state not in states:
            notes.add("undeclared_state", no_state(state), "reads", state)
        for place, name in enumerate(names):
            path = ("reads", state, place)
            if is_declared(name, model, notes, *path):
                if edges.get((state, name), state) != state:
                    message = (
                        f"{name!r} both stays in {state!r} and leads to {edges[state, name]!r}"
                    )
                    notes.add("read_and_edge", message, *path)
                loops[state, name] = state
    return loops


def _from_constraints(model: SpecDocument, raw: list[Any], notes: Notes) -> SideBySide | None:
    if model.reads:
        notes.add("invalid_document", "'reads' goes with transitions or golden", "reads")
    parsed: list[Constraint] = []
    symbols = tuple(model.alphabet)
    for place, each in enumerate(raw):
        try:
            parsed += constraints.parse(each, symbols)
        except ConstraintError as problem:
            notes.add(problem.code, str(problem), "constraints", place)
        states = sum(len(each.automaton.states) for each in parsed)
        if len(parsed) > constraints.CONSTRAINTS_MAX or states > constraints.STATES_MAX:
            message = f"at most {constraints.CONSTRAINTS_MAX} constraints with at most "
            message += f"{constraints.STATES_MAX:,} states (a count to n has n + 1) fit"
            notes.add("too_large", message, "constraints", place)
            break
    if not raw:
        notes.add("invalid_document", "there is no constraint", "constraints")
    if notes.refuse:
        return None
    return constraints.side_by_side(symbols, parsed)
