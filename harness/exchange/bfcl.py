"""Multi-turn tasks in BFCL's form brought in: tasks, ground truth, descriptions of functions, and classes that have them.

    TASKS.json                     {"id", "question": [[{"role", "content"}], ...], "initial_config", "involved_classes"}
    possible_answer/TASKS.json     {"id", "ground_truth": [["cd(folder='a')", ...], ...]}
    FUNCTIONS/MODULE.json          {"name", "description", "parameters"}
    CLASSES/MODULE.py              class NAME, with `_load_scenario(scenario, long_context=False)`

All but the classes have an object a line. A world is made for each set of classes that tasks have; files are copied beside it.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.exchange.bfcl_files import (
    BFCLError,
    BFCLTask,
    arguments_of,
    read_functions,
    read_tasks,
)
from harness.exchange.bfcl_world import CHECK, START, TRACE, USER, digest
from harness.exchange.documents import write_document
from harness.exchange.learnt_spec import learnt_spec
from harness.sandbox.process import Sandbox, ToolFault
from harness.tasks.criteria import check_arguments

__all__ = ["BFCLSources", "ImportedTasks", "import_bfcl"]

STEPS_A_TURN: Final = 20
"""Answers of an agent in a turn; the benchmark's own limit."""
CALL_SECONDS: Final = 30.0
MORE_FUNCTIONS: Final = "You have more functions now. Can you do it with them?"
"""What the user says where functions come that were held back."""
READING: Final = ("check_", "display_", "find_", "get_", "list_", "read_", "search_", "show_", "view_")  # fmt: skip
"""How the names of tools begin that are taken to change nothing, where no ground truth has shown it."""

_FUNCTIONS: Final = "functions.json"
_MODULE: Final = '''"""Classes in BFCL's form: {classes}. Written by `offrails harness import bfcl`."""

from harness.exchange.bfcl_world import world_of

world, STATE = world_of(__file__, "{functions}", {files})
'''

Call = dict[str, Any]
"""Tool and arguments."""


@dataclass(frozen=True, slots=True)
class BFCLSources:
    """Where things are."""

    tasks: Sequence[Path]
    functions: Path
    """Folder of descriptions."""
    classes: Path
    """Folder of modules."""
    answers: Path | None = None
    """Folder of ground truths; None is `possible_answer` beside each file of tasks."""


class ImportedTasks(NamedTuple):
    """What became of tasks."""

    written: int
    left_out: tuple[str, ...]
    """Why tasks were not taken, one by one."""


class _LeftOutError(Exception):
    """A task cannot be taken; the message says why."""


class _World(NamedTuple):
    """A world that was written."""

    folder: Path
    module: Path
    functions: Mapping[str, Sequence[str]]
    """Function -> its parameters."""


def import_bfcl(sources: BFCLSources, folder: Path, sandbox: Sandbox) -> ImportedTasks:
    """Writes worlds, tasks and specs. Ground truths are made in the sandbox, to see what they change.

    Args:
        sources: where everything is.
        folder: gets a folder a set of classes.
        sandbox: where classes are run.

    Raises:
        BFCLError: a file cannot be read, is not of this form, or lacks a class.
        OSError: a file cannot be written.
    """
    modules = _modules(sources.classes)
    by_classes: dict[tuple[str, ...], list[BFCLTask]] = defaultdict(list)
    for file in sources.tasks:
        answers = sources.answers or file.parent / "possible_answer"
        for task in read_tasks(file, answers / file.name):
            by_classes[tuple(task.classes)].append(task)
    left_out: list[str] = []
    written = 0
    for classes, tasks in by_classes.items():
        world = _written(classes, tasks[0].where, modules, sources, folder)
        found = [*_documents(world, tasks, sandbox, left_out)]
        for document, spec in found:
            name = document["task"].rpartition("/")[2]
            write_document(world.folder / f"{name}.spec.yaml", spec)
            write_document(world.folder / f"{name}.yaml", document)
        written += len(found)
    return ImportedTasks(written, tuple(left_out))


# --- worlds ---------------------------------------------------------------------------------------


def _modules(folder: Path) -> dict[str, Path]:
    """Class -> its module, read without running it."""
    found: dict[str, Path] = {}
    for file in sorted(folder.glob("*.py")):
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError) as problem:
            raise BFCLError(f"{file}: {problem}") from None
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, file)
    return found


def _written(
    classes: Sequence[str],
    where: str,
    modules: Mapping[str, Path],
    sources: BFCLSources,
    folder: Path,
) -> _World:
    """Writes the world of some classes."""
    for name in classes:
        if name not in modules:
            raise BFCLError(f"{where}: involved_classes: {sources.classes} has no class {name}")
    name = _snake("_".join(classes))
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    files = list(dict.fromkeys(modules[each] for each in classes))
    functions = _functions(files, sources.functions, where)
    (place / _FUNCTIONS).write_text(json.dumps(functions, indent=1), encoding="utf-8")
    # A module is not the world's own, whatever it is called.
    copies = {f"bfcl_{file.name}": file for file in files}
    for copy, file in copies.items():
        shutil.copyfile(file, place / copy)
    digests = {each: digest(place / each) for each in (*copies, _FUNCTIONS)}
    module = place / f"{name}.py"
    text = _MODULE.format(classes=", ".join(classes), functions=_FUNCTIONS, files=digests)
    module.write_text(text, encoding="utf-8")
    names = {each["name"]: list(each["parameters"].get("properties", {})) for each in functions}
    return _World(place, module.resolve(), names)


def _functions(files: Sequence[Path], folder: Path, where: str) -> list[dict[str, Any]]:
    """The functions of modules; two classes of one task cannot have the same."""
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        for each in read_functions(folder / f"{file.stem}.json"):
            if each["name"] in found:
                raise BFCLError(
                    f"{where}: involved_classes: two have a function {each['name']}"
                )
            found[each["name"]] = each
    return list(found.values())


def _snake(name: str) -> str:
    """A name of a world or a task: small letters, digits and underscores."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    found = re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")
    return found if found[:1].isalpha() else f"w_{found}"


# --- tasks ----------------------------------------------------------------------------------------


def _documents(
    world: _World, tasks: Sequence[BFCLTask], sandbox: Sandbox, left_out: list[str]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The tasks of a world and their specs. Which tools write is known once all their ground truths were made."""
    made: list[tuple[BFCLTask, list[list[Call]]]] = []
    writing: dict[str, bool] = {}
    for task in tasks:
        try:
            truth = _truth(task, world)
            changes = _changes(task, truth, world, sandbox)
        except _LeftOutError as problem:
            left_out.append(f"{task.where}: {task.id}: {problem}")
            continue
        made.append((task, truth))
        for call, changed in zip(
            (call for turn in truth for call in turn), changes, strict=True
        ):
            writing[call["tool"]] = writing.get(call["tool"], False) or changed
    reading = [
        name for name in world.functions if not writing.get(name, not name.startswith(READING))
    ]
    for task, truth in made:
        document = _document(task, truth, world)
        calls = document["golden"][0]
        have = set(document["toolkit"])
        yield (
            document,
            learnt_spec(
                document["task"],
                document["instruction"],
                calls,
                [each for each in reading if each in have],
            ),
        )


def _truth(task: BFCLTask, world: _World) -> list[list[Call]]:
    if len(task.truth) != len(task.turns):
        raise _LeftOutError(
            f"question: it has {len(task.turns)} turns, and its ground truth {len(task.truth)}"
        )
    if not any(task.truth):
        raise _LeftOutError("its ground truth has no call")
    for number, said in enumerate(task.turns):
        if not said.strip() and number not in task.late.values():
            raise _LeftOutError(f"question: turn {number} has no message")
    _check_late(task, world)
    return [[_call(each, world) for each in turn] for turn in task.truth]


def _check_late(task: BFCLTask, world: _World) -> None:
    """Whether functions that come later are there when they are called."""
    for name in task.late:
        if name not in world.functions:
            raise _LeftOutError(f"missed_function: there is no description of {name}")
    for number, turn in enumerate(task.truth):
        for name in map(_name, turn):
            if task.late.get(name, 0) > number:
                raise _LeftOutError(
                    f"ground_truth: turn {number} calls {name}, which comes in turn {task.late[name]}"
                )


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _call(call: ast.Call, world: _World) -> Call:
    name = _name(call)
    if name not in world.functions:
        raise _LeftOutError(f"ground_truth: there is no description of {name}")
    try:
        return {"tool": name, "arguments": arguments_of(call, world.functions[name])}
    except (ValueError, TypeError, SyntaxError, RecursionError) as problem:
        raise _LeftOutError(f"ground_truth: {ast.unparse(call)}: {problem}") from None


def _changes(
    task: BFCLTask, truth: Sequence[Sequence[Call]], world: _World, sandbox: Sandbox
) -> list[bool]:
    """Of each call of a ground truth, whether it changes anything."""
    calls = [call for turn in truth for call in turn]
    state = {**START, **_scene(task)}
    given = {**check_arguments({}, "", ()), "calls": calls}
    sandbox.move(world.folder.resolve(), packages=True)
    try:
        found = sandbox.call(world.module, state, TRACE, given, CALL_SECONDS)
    except ToolFault as problem:
        raise _LeftOutError(f"its ground truth cannot be made: {problem}") from None
    if found.error:
        raise _LeftOutError(f"its ground truth fails: {found.result}")
    return list(found.result)


def _scene(task: BFCLTask) -> dict[str, Any]:
    return {
        "classes": list(task.classes),
        "scenario": task.scenario,
        "long_context": any(each in task.id for each in ("long_context", "composite")),
    }


def _document(task: BFCLTask, truth: Sequence[Sequence[Call]], world: _World) -> dict[str, Any]:
    name = _snake(task.id)
    turns = _turns(task)
    late = {
        name: turn for name, turn in task.late.items() if turn and name not in task.excluded
    }
    plain = [[[call["tool"], call["arguments"]] for call in turn] for turn in truth]
    return {
        "task": f"{world.folder.name}/{name}",
        "benchmark": "bfcl",
        "world": world.module.stem,
        "instruction": turns[0],
        "spec": f"{name}.spec.yaml",
        "toolkit": [each for each in world.functions if each not in task.excluded],
        **({"held_back": late} if late else {}),
        "environment": {
            "packages": True,
            "user": USER,
            "state": {**_scene(task), "turns": turns, "truth": plain},
        },
        "execution": {"max_steps": STEPS_A_TURN * len(turns)},
        "evaluation": {"criterion": "check", "check": CHECK},
        "golden": [_steps(truth)],
    }


def _turns(task: BFCLTask) -> list[str]:
    """What the user says. Where functions come, the form has no message."""
    return [said if said.strip() else MORE_FUNCTIONS for said in task.turns]


def _steps(truth: Sequence[Sequence[Call]]) -> list[dict[str, Any]]:
    """The calls of all turns; before the first one of a turn, the agent says that the turns before are done."""
    found: list[dict[str, Any]] = []
    said: list[str] = []
    for turn in truth:
        for call in turn:
            found.append({**call, "say": said} if said else call)
            said = []
        said = [*said, "Done."]
    return found
