"""JSON of published automata, in the forms it comes in -> tasks.

The data set is a list of records `{prompt_id, world, prompt, nodes, alphabet}`. Automata also
come one a file, as `{dfa, alphabet, expected_sequence}`, where `dfa` holds the nodes as the data
set does, or states and transitions by the usual names. Nothing is checked here:
`dataset.defects` lists what is wrong with a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from monitor.errors import OffrailsError
from monitor.spec.core_import.dataset import DatasetState, Edge, Symbol, Task

__all__ = ["FormError", "read_task", "records", "without_world"]


class FormError(OffrailsError):
    """A record is no automaton; the message says what is missing, and where."""


def records(data: Any, file_name: str) -> Iterator[tuple[str, Any]]:
    """The records of one JSON file, each with its id, of whatever form they turn out to be.

    Args:
        data: what the file holds.
        file_name: its name without suffix, the id of an automaton that is a file of its own.
    """
    if isinstance(data, list):
        for place, record in enumerate(data):
            yield _own_id(record) or f"{file_name}[{place}]", record
    elif isinstance(data, Mapping) and data and not _is_automaton(data) and _are_tasks(data):
        for key, record in data.items():
            yield _own_id(record) or key, record
    else:
        alone = isinstance(data, Mapping) and "dfa" in data
        yield file_name if alone else _own_id(data) or file_name, data


def _own_id(record: Any) -> str:
    known = record.get("prompt_id") if isinstance(record, Mapping) else None
    return str(known) if isinstance(known, str | int) else ""


def _is_automaton(data: Mapping[str, Any]) -> bool:
    return any(key in data for key in ("dfa", "alphabet", *_NODES))


def _are_tasks(data: Mapping[str, Any]) -> bool:
    return all(isinstance(each, Mapping) and _is_automaton(each) for each in data.values())


# --- one record -------------------------------------------------------------------------------

_NODES: Final = ("nodes", "states", "Q")
_EDGES: Final = ("transitions", "edges", "delta")
_INITIAL: Final = ("initial", "initial_state", "start", "start_state", "q0")
_FINAL: Final = ("accepting", "accepting_states", "accept_states", "accept", "final",
                 "final_states", "finals", "F")  # fmt: skip
_STATE_NAME: Final = ("name", "id", "state")
_IS_FINAL: Final = ("is_final", "is_accepting", "final", "accepting", "accept")
_IS_INITIAL: Final = ("is_initial", "is_start", "initial", "start")
_SYMBOLS: Final = ("symbols", "symbol", "on", "input", "label")
_SOURCE: Final = ("from", "source", "src", "from_state")
_TARGET: Final = ("to", "target", "dst", "to_state", "next", "next_state")
_TOOL: Final = ("name", "tool", "function", "tool_name", "function_name")
_ARGUMENTS: Final = ("arguments", "args", "parameters", "params")


def read_task(id_: str, record: Any) -> Task:
    """One record as a task.

    Raises:
        FormError: it has not the shape of an automaton; the message names the place.
    """
    if not isinstance(record, Mapping):
        raise FormError(f"expected an object, found {_kind(record)}")
    dfa = record.get("dfa", record)
    if isinstance(dfa, list):
        dfa = {"nodes": dfa}
    if not isinstance(dfa, Mapping):
        raise FormError(f"dfa: expected an object or a list of nodes, found {_kind(dfa)}")
    alphabet = _find(record, ("alphabet",))
    if alphabet is None:
        alphabet = _find(dfa, ("alphabet",))
    states, initial = _states(dfa)
    return Task(
        id=id_,
        description=_text(_find(record, ("prompt", "description", "task"))),
        world=_text(record.get("world")),
        initial=initial,
        states=states,
        alphabet=_alphabet(alphabet),
        expected=_find(record, ("expected_sequence", "expected_sequences")),
    )


def _find(mapping: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((mapping[key] for key in names if mapping.get(key) is not None), None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _kind(value: Any) -> str:
    known = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    return known.get(type(value), "nothing" if value is None else "a number")


def _label(value: Any, where: str) -> str:
    """A state's or symbol's name; numbers are names too."""
    if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        return str(value)
    raise FormError(f"{where}: expected a name, found {_kind(value)}")


# --- states and edges -------------------------------------------------------------------------


def _states(dfa: Mapping[str, Any]) -> tuple[tuple[DatasetState, ...], str]:
    """The states as they are listed, and the initial one: the first unless another is marked."""
    if dfa and all(map(_looks_like_node, dfa.values())):
        dfa = {"nodes": dfa}
    nodes = _nodes(dfa)
    ends = {_label(end, "accepting") for end in _listed(_find(dfa, _FINAL))}
    outside = _outside_edges(dfa)
    for name in outside:
        if not any(name == known for known, _ in nodes):
            nodes.append((name, {}))
    if not nodes:
        raise FormError("there are no nodes (or states)")
    found = []
    seen: set[str] = set()
    for name, node in nodes:
        edges = _edges(_find(node, _EDGES), name, f"transitions of {name}")
        if name not in seen:
            edges += outside.get(name, [])
        seen.add(name)
        final = name in ends or _is_marked(node, _IS_FINAL)
        found.append(DatasetState(name, final=final, edges=tuple(edges)))
    return tuple(found), _initial(dfa, nodes)


def _initial(dfa: Mapping[str, Any], nodes: list[tuple[str, Mapping[str, Any]]]) -> str:
    named = _listed(_find(dfa, _INITIAL))
    if len(named) > 1:
        raise FormError(f"initial: expected one state, found {len(named)}")
    if named:
        return _label(named[0], "initial")
    return next((name for name, node in nodes if _is_marked(node, _IS_INITIAL)), nodes[0][0])


def _is_marked(node: Mapping[str, Any], keys: Iterable[str]) -> bool:
    return any(node.get(key) in (True, "true") for key in keys)


def _nodes(dfa: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Name and node of each listed state; a state that is only named has an empty node."""
    raw = _find(dfa, _NODES)
    if isinstance(raw, Mapping):
        return [
            (_label(key, "nodes"), _node(node, f"nodes.{key}")) for key, node in raw.items()
        ]
    if not isinstance(raw, list | None):
        raise FormError(f"nodes: expected a list, found {_kind(raw)}")
    nodes: list[tuple[str, Mapping[str, Any]]] = []
    for place, node in enumerate(raw or ()):
        where = f"nodes[{place}]"
        if isinstance(node, Mapping):
            nodes.append((_label(_find(node, _STATE_NAME), f"{where}.name"), node))
        else:
            nodes.append((_label(node, where), {}))
    return nodes


def _looks_like_node(node: Any) -> bool:
    return isinstance(node, Mapping) and any(key in node for key in (*_EDGES, *_IS_FINAL))


def _node(node: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(node, Mapping):
        raise FormError(f"{where}: expected an object, found {_kind(node)}")
    return node


def _outside_edges(dfa: Mapping[str, Any]) -> dict[str, list[Edge]]:
    """Edges that are listed beside the states, by the state they start from."""
    raw = _find(dfa, _EDGES)
    edges: dict[str, list[Edge]] = {}
    if isinstance(raw, Mapping):
        for state, row in raw.items():
            edges[state] = _edges(row, state, f"transitions.{state}")
    else:
        for edge in _edges(raw, None, "transitions"):
            edges.setdefault(edge.source, []).append(edge)
    return edges


def _edges(raw: Any, state: str | None, where: str) -> list[Edge]:
    """Edges of `state`: objects, triples, or a mapping symbol -> target."""
    if raw is None:
        return []
    if isinstance(raw, Mapping):
        return [
            Edge((symbol,), state or "", _label(target, f"{where}.{symbol}"))
            for symbol, targets in raw.items()
            for target in _listed(targets)
        ]
    if not isinstance(raw, list):
        raise FormError(f"{where}: expected a list, found {_kind(raw)}")
    return [_edge(each, state, f"{where}[{place}]") for place, each in enumerate(raw)]


def _edge(raw: Any, state: str | None, where: str) -> Edge:
    if isinstance(raw, list) and len(raw) == 3:
        source, symbols, target = raw
    elif isinstance(raw, Mapping):
        source = _find(raw, _SOURCE)
        symbols, target = _find(raw, _SYMBOLS), _find(raw, _TARGET)
    else:
        raise FormError(f"{where}: expected an edge with from, symbols and to")
    return Edge(
        tuple(_label(symbol, f"{where}.symbols") for symbol in _listed(symbols)),
        _label(state if source is None else source, f"{where}.from"),
        _label(target, f"{where}.to"),
    )


def _listed(value: Any) -> list[Any]:
    """A list as it is; one thing as a list of one; nothing as none."""
    return value if isinstance(value, list) else [] if value is None else [value]


# --- the alphabet -----------------------------------------------------------------------------


def _alphabet(raw: Any) -> dict[str, Symbol]:
    if isinstance(raw, list):
        named = [(each.get("symbol"), each) for each in raw if isinstance(each, Mapping)]
        raw = {_label(symbol, "alphabet"): each for symbol, each in named}
    if not isinstance(raw, Mapping) or not raw:
        raise FormError("there is no alphabet")
    return {str(symbol): _symbol(each, f"alphabet.{symbol}") for symbol, each in raw.items()}


def _symbol(raw: Any, where: str) -> Symbol:
    if not isinstance(raw, Mapping):
        raise FormError(f"{where}: expected a tool's name and arguments, found {_kind(raw)}")
    tool = _find(raw, _TOOL)
    if not isinstance(tool, str) or not tool:
        raise FormError(f"{where}.name: expected a tool's name, found {_kind(tool)}")
    return Symbol(without_world(tool), _arguments(_find(raw, _ARGUMENTS), where))


def without_world(tool: str) -> str:
    """`World__tool` is `tool`."""
    world, _, rest = tool.partition("__")
    return rest if world and rest else tool


def _arguments(raw: Any, where: str) -> dict[str, Any] | None:
    if isinstance(raw, list):
        raw = {
            _label(
                _find(_node(each, f"{where}.arguments"), ("name",)), f"{where}.arguments"
            ): each
            for each in raw
        }
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        raise FormError(f"{where}.arguments: expected an object, found {_kind(raw)}")
    return {str(argument): _pattern(each) for argument, each in raw.items()}


_SLOT: Final = frozenset({"name", "value", "excluded_values", "type", "description"})


def _pattern(raw: Any) -> Any:
    """Equality with a value; else anything but the excluded ones; else anything at all.

    `type` is a hint of the authors', wrong here and there, and decides nothing.
    """
    if not (isinstance(raw, Mapping) and raw.keys() <= _SLOT):
        return _exact(raw)
    value, excluded = raw.get("value"), _listed(raw.get("excluded_values"))
    if value is not None:
        return _exact(value)
    return {"not_in": excluded} if excluded else {"any": True}


def _exact(value: Any) -> Any:
    if value is None:
        return {"any": True}
    return {"exact": value} if isinstance(value, Mapping) else value
