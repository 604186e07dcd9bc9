"""Where results of calls come from: the sandbox, the sandbox with a recording beside it, or a recording alone.

A recording is three files: `worlds.jsonl` (what each world has), `states.jsonl` (states by their hash) and
`results.jsonl` (a result by state, tool and arguments). A state is a world's code and its data: a world of the same name with
other code has other states. Lines are sorted, so that equal recordings are equal files.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from harness.sandbox.process import Sandbox, ToolFault, WorldTools
from harness.tasks.criteria import canonical, state_hash
from harness.tasks.json_lines import read_lines, with_keys
from harness.tasks.read import BenchTask
from harness.world.world import ToolResult

__all__ = [
    "LiveToolbox",
    "Miss",
    "MissedResult",
    "OfflineToolbox",
    "ResultSnapshot",
    "SnapshotError",
    "TimedResult",
    "Toolbox",
]

Miss = Literal["fail", "nearest", "live"]
"""What is done where a recording has no result."""


class TimedResult(NamedTuple):
    """What came of a call, and how long it took."""

    outcome: ToolResult
    seconds: float


class MissedResult(Exception):  # noqa: N818 - an outcome of its own
    """A recording has no such result."""


class SnapshotError(Exception):
    """A recording cannot be read; the message says where."""


class Toolbox(Protocol):
    """What a rollout makes its calls with."""

    def describe(self, task: BenchTask) -> WorldTools:
        """What the task's world has."""
        ...

    def call(
        self,
        task: BenchTask,
        state: Mapping[str, Any],
        tool: str,
        arguments: Mapping[str, Any],
        seconds: float,
    ) -> TimedResult:
        """Makes one call.

        Raises:
            ToolFault: it hung, died or flooded.
            MissedResult: it is not recorded.
        """  # fmt: skip
        ...


def _key(state: str, tool: str, arguments: Mapping[str, Any]) -> str:
    return canonical([state, tool, arguments])


def _code(task: BenchTask) -> str:
    """SHA-256 of the world's code, in hexadecimal digits."""
    return _digest(task.module, task.module.stat().st_mtime_ns)


@cache
def _digest(file: Path, changed_ns: int) -> str:  # noqa: ARG001 - what the cache forgets by
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _place(task: BenchTask, state: Mapping[str, Any]) -> str:
    """A state's name: SHA-256 of code and data."""
    return state_hash({"code": _code(task), "state": state})


@dataclass(slots=True)
class ResultSnapshot:
    """A recording. Safe for threads."""

    worlds: dict[str, Any] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def read(cls, folder: Path) -> ResultSnapshot:
        """Reads a recording.

        Raises:
            SnapshotError: a file is missing, or is none.
        """
        found = cls()
        found.worlds.update(read_lines(folder / "worlds.jsonl", _world, SnapshotError))
        found.states.update(read_lines(folder / "states.jsonl", _state, SnapshotError))
        found.results.update(read_lines(folder / "results.jsonl", _result, SnapshotError))
        after = (line["after"] for line in found.results.values() if "after" in line)
        for state in after:
            if state not in found.states:
                raise SnapshotError(f"{folder / 'states.jsonl'}: expected the state {state}")
        return found

    @classmethod
    def read_or_new(cls, folder: Path) -> ResultSnapshot:
        """Reads a recording that is gone on with; an empty one where there is none.

        Raises:
            SnapshotError: a file is none.
        """
        return cls.read(folder) if (folder / "results.jsonl").exists() else cls()

    def write(self, folder: Path) -> None:
        """Writes the recording."""
        folder.mkdir(parents=True, exist_ok=True)
        worlds = [
            {"code": code, "tools": each.tools, "state": each.state}
            for code, each in self.worlds.items()
        ]
        states = [{"hash": key, "state": state} for key, state in self.states.items()]
        files = {"worlds": worlds, "states": states, "results": list(self.results.values())}
        for name, lines in files.items():
            text = "".join(sorted(canonical(line) + "\n" for line in lines))
            (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


def _world(line: str) -> tuple[str, WorldTools]:
    found = with_keys(json.loads(line), "code", "tools", "state")
    return found["code"], WorldTools(found["tools"], found["state"])


def _state(line: str) -> tuple[str, Any]:
    found = with_keys(json.loads(line), "hash", "state")
    return found["hash"], found["state"]


def _result(line: str) -> tuple[str, dict[str, Any]]:
    found = with_keys(json.loads(line), "state", "tool", "arguments", "seconds")
    if "fault" not in found:
        with_keys(found, "result", "error", "after")
    return _key(found["state"], found["tool"], found["arguments"]), found


class LiveToolbox:
    """Makes calls in sandboxes, as many as there are calls at the same time. For one rollout after the other.

    Args:
        sandbox: the first one.
        recording: where results are kept, too.
    """

    def __init__(self, sandbox: Sandbox, recording: ResultSnapshot | None = None) -> None:
        self._made = [sandbox]
        self._free = [sandbox]
        self._recording = recording
        self._worlds: dict[Path, WorldTools] = {}

    def close(self) -> None:
        """Ends all processes."""
        for sandbox in self._made:
            sandbox.close()

    @contextmanager
    def _sandbox(self, task: BenchTask) -> Iterator[Sandbox]:
        """A sandbox that nobody else has."""
        folder, packages = task.module.parent, task.document.environment.packages
        try:
            found = self._free.pop()
        except IndexError:
            found = Sandbox(self._made[0].kind, folder, packages=packages)
            self._made.append(found)
        try:
            found.move(folder, packages=packages)
            yield found
        finally:
            self._free.append(found)

    def describe(self, task: BenchTask) -> WorldTools:
        """What the task's world has."""
        if task.module not in self._worlds:
            with self._sandbox(task) as sandbox:
                self._worlds[task.module] = sandbox.describe(task.module)
        found = self._worlds[task.module]
        if self._recording is not None:
            self._recording.worlds[_code(task)] = found
        return found

    def call(
        self,
        task: BenchTask,
        state: Mapping[str, Any],
        tool: str,
        arguments: Mapping[str, Any],
        seconds: float,
    ) -> TimedResult:
        """Makes one call, and keeps what came of it."""  # fmt: skip
        began = time.perf_counter()
        try:
            with self._sandbox(task) as sandbox:
                outcome = sandbox.call(task.module, state, tool, arguments, seconds)
        except ToolFault as problem:
            took = time.perf_counter() - began
            self._keep(task, state, tool, arguments, {"fault": str(problem)}, took)
            raise
        took = time.perf_counter() - began
        told = {"result": outcome.result, "error": outcome.error, "after": outcome.state}
        self._keep(task, state, tool, arguments, told, took)
        return TimedResult(outcome, took)

    def _keep(
        self, task: BenchTask, state: Mapping[str, Any], tool: str, arguments: Mapping[str, Any],
        told: dict[str, Any], seconds: float,
    ) -> None:  # fmt: skip
        if self._recording is None:
            return
        before = _place(task, state)
        line: dict[str, Any] = {"world": task.document.world, "state": before, "tool": tool}
        line |= {"arguments": arguments, **told, "seconds": round(seconds, 6)}
        with self._recording.lock:
            self._recording.states[before] = state
            if "after" in told:
                line["after"] = _place(task, told["after"])
                self._recording.states[line["after"]] = told["after"]
            key = _key(before, tool, arguments)
            self._recording.results.setdefault(key, line)


class OfflineToolbox:
    """Gives recorded results.

    Args:
        recording: where from.
        miss: what is done where there is none.
        live: what makes the call then, for `live`.
    """

    def __init__(self, recording: ResultSnapshot, miss: Miss, live: LiveToolbox | None) -> None:
        self._recording = recording
        self._miss = miss
        self._live = live

    def describe(self, task: BenchTask) -> WorldTools:
        """What the task's world had."""
        found = self._recording.worlds.get(_code(task))
        if found is None:
            if self._live is not None:
                return self._live.describe(task)
            raise MissedResult(f"world {task.document.world}")
        return WorldTools(*found)

    def call(
        self,
        task: BenchTask,
        state: Mapping[str, Any],
        tool: str,
        arguments: Mapping[str, Any],
        seconds: float,
    ) -> TimedResult:
        """The recorded result."""  # fmt: skip
        here = _place(task, state)
        line = self._recording.results.get(_key(here, tool, arguments))
        if line is None and self._miss == "nearest":
            line = self._nearest(here, tool, arguments)
        if line is not None:
            return self._told(line)
        if self._live is not None:
            return self._live.call(task, state, tool, arguments, seconds)
        raise MissedResult(f"no recorded result of {tool} in this state")

    def _told(self, line: Mapping[str, Any]) -> TimedResult:
        if "fault" in line:
            raise ToolFault(line["fault"], line["seconds"])
        after = self._recording.states[line["after"]]
        return TimedResult(ToolResult(line["result"], line["error"], after), line["seconds"])

    def _nearest(
        self, state: str, tool: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The result of the same tool in the same state whose arguments are most alike; of equals the first one."""
        wanted = canonical(arguments)
        alike = [
            line
            for _, line in sorted(self._recording.results.items())
            if (line["state"], line["tool"]) == (state, tool)
        ]
        return max(alike, key=lambda line: _likeness(wanted, line), default=None)


def _likeness(wanted: str, line: Mapping[str, Any]) -> float:
    return difflib.SequenceMatcher(None, wanted, canonical(line["arguments"])).ratio()
