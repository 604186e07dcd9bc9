"""Files in BFCL's form read: tasks with their ground truth, and descriptions of functions. An object a line."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.tasks.json_lines import documents

__all__ = ["BFCLError", "BFCLTask", "arguments_of", "read_functions", "read_tasks"]

_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "list": "array"}
_JSON_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object"})


class BFCLError(Exception):
    """A file cannot be used; the message says where, and what was expected."""


@dataclass(frozen=True, slots=True)
class BFCLTask:
    """One task."""

    id: str
    where: str
    """File and line."""
    turns: Sequence[str]
    """What the user says, turn by turn."""
    scenario: Mapping[str, Any]
    classes: Sequence[str]
    excluded: Sequence[str]
    """Functions that the agent does not have."""
    late: Mapping[str, int]
    """Functions that the agent gets in a later turn, and in which one, from 0."""
    truth: Sequence[Sequence[ast.Call]]
    """The calls of each turn, as they are written."""


# --- tasks ----------------------------------------------------------------------------------------


def read_tasks(file: Path, answers: Path) -> list[BFCLTask]:
    """The tasks of a file, with their ground truth from another.

    Raises:
        BFCLError: a file cannot be read, or is not of this form, or a task has no ground truth.
    """
    known = {_key(line, where, "id", str): (line, where) for line, where in _lines(answers)}
    return [_task(line, where, known, answers) for line, where in _lines(file)]


def _task(
    line: dict[str, Any], where: str, known: Mapping[str, Any], answers: Path
) -> BFCLTask:
    id_ = _key(line, where, "id", str)
    if id_ not in known:
        raise BFCLError(f"{answers}: expected the ground truth of {id_}")
    turns = [_said(turn, where) for turn in _key(line, where, "question", list)]
    truth = _truth(*known[id_])
    return BFCLTask(
        id_,
        where,
        turns,
        _key(line, where, "initial_config", dict, {}),
        _key(line, where, "involved_classes", list),
        _key(line, where, "excluded_function", list, []),
        _late(line, where, len(turns)),
        truth,
    )


def _late(line: dict[str, Any], where: str, turns: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for turn, names in _key(line, where, "missed_function", dict, {}).items():
        if not (turn.isdecimal() and int(turn) < turns) or not isinstance(names, list):
            raise BFCLError(
                f"{where}: missed_function: expected lists of functions by the number of a turn below {turns}, found {turn!r}"
            )
        found.update(dict.fromkeys(map(str, names), int(turn)))
    return found


def _said(turn: Any, where: str) -> str:
    if not isinstance(turn, list) or not all(
        isinstance(each, dict) and isinstance(each.get("content"), str) for each in turn
    ):
        raise BFCLError(
            f"{where}: question: expected a list of messages a turn, each with role and content"
        )
    return "\n".join(each["content"] for each in turn)


def _truth(line: dict[str, Any], where: str) -> list[list[ast.Call]]:
    turns = _key(line, where, "ground_truth", list)
    if not all(isinstance(turn, list) for turn in turns):
        raise BFCLError(f"{where}: ground_truth: expected a list of calls a turn")
    return [[_call(each, where) for each in turn] for turn in turns]


def _call(text: Any, where: str) -> ast.Call:
    try:
        found = ast.parse(str(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, ast.Call) or not isinstance(found.func, ast.Name):
        raise BFCLError(f"{where}: ground_truth: expected a call, found {text!r}")
    return found


def arguments_of(call: ast.Call, names: Sequence[str]) -> dict[str, Any]:
    """The arguments of a call by name, as JSON values.

    Args:
        call: as it is written.
        names: of the function's parameters, in their order.

    Raises:
        ValueError: one is no literal, or there are too many.
    """
    if len(call.args) > len(names) or not all(each.arg for each in call.keywords):
        raise ValueError("expected at most the parameters of its function")
    pairs = [*zip(names, call.args, strict=False)]
    pairs += [(str(each.arg), each.value) for each in call.keywords]
    return {name: json.loads(json.dumps(ast.literal_eval(value))) for name, value in pairs}


# --- functions ------------------------------------------------------------------------------------


def read_functions(file: Path) -> list[dict[str, Any]]:
    """The functions of a file: name, description, parameters as JSON Schema.

    Raises:
        BFCLError: the file cannot be read, or is not of this form.
    """
    return [
        {
            "name": _key(line, where, "name", str),
            "description": _key(line, where, "description", str),
            "parameters": _schema(_key(line, where, "parameters", dict)),
        }
        for line, where in _lines(file)
    ]


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """JSON Schema of what has Python's names of types; a type that JSON has none of may be anything."""
    found = dict(given)
    kind = _TYPES.get(str(given.get("type")), given.get("type"))
    found.pop("type", None)
    if kind in _JSON_TYPES:
        found["type"] = kind
    if isinstance(given.get("properties"), dict):
        found["properties"] = {
            name: _schema(each) for name, each in given["properties"].items()
        }
    if isinstance(given.get("items"), dict):
        found["items"] = _schema(given["items"])
    return found


# --- lines ----------------------------------------------------------------------------------------


def _lines(file: Path) -> Iterator[tuple[dict[str, Any], str]]:
    for where, found in documents(file, BFCLError):
        if not isinstance(found, dict):
            raise BFCLError(f"{where}: expected an object")
        yield found, where


def _key(line: dict[str, Any], where: str, key: str, kind: type, default: Any = None) -> Any:
    found = line.get(key, default)
    if not isinstance(found, kind):
        raise BFCLError(f"{where}: {key}: expected {_SAID[kind]}, found {found!r:.80}")
    return found


_SAID: Final[Mapping[type, str]] = {str: "a text", list: "a list", dict: "an object"}
