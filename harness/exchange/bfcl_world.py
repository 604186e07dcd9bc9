"""Classes in BFCL's form as a world: their methods are tools, and a user gives the turns of the task.

A class has `_load_scenario(scenario, long_context=False)`, or needs no scenario. What its instances hold need not be JSON:
the state of the world is the scenario with the calls that were made, and instances are made of it anew where they are not
at hand. So classes have to be deterministic. Attributes that begin with `_` are nobody's concern.

This module is loaded in the sandbox.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.world.world import State, Tool, ToolError, World

__all__ = ["CHECK", "START", "TRACE", "USER", "digest", "world_of"]

START: Final[State] = {
    "classes": [],
    "scenario": {},
    "long_context": False,
    "turns": [],
    "truth": [],
    "calls": [],
    "ends": [],
}
"""`turns`: what the user says, turn by turn; `truth`: the calls of each turn; `ends`: how many calls there were after each."""

CHECK: Final = "is_as_ground_truth"
TRACE: Final = "what_calls_change"
USER: Final = "next_turn"

_SCENE: Final = ("classes", "scenario", "long_context")
_KEPT_MAX: Final = 8
"""Instances that are kept for the call that follows: a process makes one rollout after the other."""

Call = Sequence[Any]
"""Name and arguments."""


def digest(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def world_of(module: str, functions: str, files: Mapping[str, str]) -> tuple[World, State]:
    """The world of a folder, and the state that it begins with.

    Args:
        module: file of the world's module; classes and functions lie beside it.
        functions: file with a list of functions, each with `class`.
        files: digests of all files that the world is made of: the world's code is all of them.

    Raises:
        ValueError: a file was changed since.
    """
    folder = Path(module).parent
    for name, wanted in files.items():
        if digest(folder / name) != wanted:
            raise ValueError(f"{name}: it was changed; import it again")
    known = json.loads((folder / functions).read_text(encoding="utf-8"))
    found = _Classes(_loaded(folder, [name for name in files if name.endswith(".py")]))
    world = World(Path(module).stem)
    for each in known:
        world.tools[each["name"]] = found.tool(each)
    world.check(reads=("truth", "calls", "ends", *_SCENE))(found.is_as_ground_truth)
    world.check(reads=_SCENE)(found.what_calls_change)
    world.user(reads=("turns", "calls"), writes=("ends",))(next_turn)
    return world, dict(START)


def next_turn(state: State, said: str, turn: int) -> str | None:  # noqa: ARG001 - whatever was said
    """What the user says next; None after the last turn."""
    state["ends"].append(len(state["calls"]))
    return state["turns"][turn + 1] if turn + 1 < len(state["turns"]) else None


def _loaded(folder: Path, files: Sequence[str]) -> dict[str, Any]:
    """The classes of modules, by name."""
    classes: dict[str, Any] = {}
    for name in files:
        spec = importlib.util.spec_from_file_location(f"bfcl_{Path(name).stem}", folder / name)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        classes.update(inspect.getmembers(module, inspect.isclass))
    return classes


class _Scene:
    """Instances of a task's classes."""

    def __init__(self, classes: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        self.instances = {name: classes[name]() for name in state["classes"]}
        for name, instance in self.instances.items():
            load = getattr(instance, "_load_scenario", None)
            if load is not None:
                load(
                    _copied(state["scenario"].get(name, {})), long_context=state["long_context"]
                )

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Makes a call.

        Raises:
            ToolError: no class has it, it raised, or it returned nothing but an error.
        """
        for instance in self.instances.values():
            method = getattr(instance, name, None)
            if inspect.ismethod(method) and not name.startswith("_"):
                return _called(method, arguments)
        raise ToolError(f"there is no {name} in {', '.join(self.instances)}")

    def make(self, calls: Sequence[Call]) -> list[str]:
        """Makes calls that work; returns their results as texts."""
        return [_text(self.call(name, arguments)) for name, arguments in calls]

    def is_like(self, other: _Scene) -> bool:
        """Whether all that is not private is equal."""
        return all(
            _public(instance) == _public(other.instances[name])
            for name, instance in self.instances.items()
        )


class _Classes:
    """Tools, checks and instances of classes."""

    def __init__(self, classes: Mapping[str, Any]) -> None:
        self._classes = classes
        self._kept: dict[str, _Scene] = {}
        """Instances after the calls of a state."""

    def tool(self, function: Mapping[str, Any]) -> Tool:
        """The tool of a function's description."""
        name = function["name"]
        return Tool(
            name,
            function["description"],
            function["parameters"],
            _SCENE,
            ("calls",),
            self._method(name),
        )

    def _method(self, name: str) -> Callable[..., Any]:
        def call(state: State, /, **arguments: Any) -> Any:
            scene = self._after(state)
            result = scene.call(name, arguments)
            state["calls"].append([name, arguments])
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[_key(state)] = scene
            return _json(result)

        return call

    def _after(self, state: Mapping[str, Any]) -> _Scene:
        """Instances that nobody else has, after the calls of a state."""
        found = self._kept.pop(_key(state), None)
        if found is None:
            found = _Scene(self._classes, state)
            found.make(state["calls"])
        return found

    # --- checks -----------------------------------------------------------------------------------

    def is_as_ground_truth(
        self, state: State, start: State, answer: str, calls: Sequence[Any]  # noqa: ARG002 - BFCL's criterion asks for neither
    ) -> bool:  # fmt: skip
        """BFCL's criterion: after each turn that has a truth, instances are as after its calls, and have given what it gives."""
        if len(state["ends"]) < len(state["truth"]):
            return False
        own, right = _Scene(self._classes, state), _Scene(self._classes, state)
        given: list[str] = []
        begin = 0
        for end, truth in zip(state["ends"], state["truth"], strict=False):
            given += own.make(state["calls"][begin:end])
            wanted = right.make(truth)
            if truth and not (end > begin and own.is_like(right) and _holds(given, wanted)):
                return False
            begin = end
        return True

    def what_calls_change(
        self, state: State, start: State, answer: str, calls: Sequence[Mapping[str, Any]]  # noqa: ARG002 - a check has them
    ) -> list[bool]:  # fmt: skip
        """Of each call, whether it changes anything that is not private."""
        here, before = _Scene(self._classes, state), _Scene(self._classes, state)
        found = []
        for each in calls:
            here.call(each["tool"], each["arguments"])
            found.append(not here.is_like(before))
            before.call(each["tool"], each["arguments"])
        return found


def _called(method: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    try:
        result = method(**_copied(arguments))
    except Exception as problem:  # noqa: BLE001 - whatever a class raises is for the agent to read
        raise ToolError(f"{type(problem).__name__}: {problem}") from None
    if isinstance(result, Mapping) and result.keys() == {"error"}:
        raise ToolError(str(result["error"]))
    return result


def _public(instance: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(instance).items() if name[:1] != "_"}


def _holds(given: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether all wanted texts are among those that were given, each as often."""
    left = list(given)
    for each in wanted:
        if each not in left:
            return False
        left.remove(each)
    return True


def _key(state: Mapping[str, Any]) -> str:
    return json.dumps([*(state[key] for key in _SCENE), state["calls"]], sort_keys=True)


def _json(value: Any) -> Any:
    """A result as JSON, or as a text where it is none."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return str(value)


def _text(value: Any) -> str:
    found = _json(value)
    return found if isinstance(found, str) else json.dumps(found)


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return [*map(_copied, value)] if isinstance(value, list) else value
