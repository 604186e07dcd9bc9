"""Results of a run in its folder: written as rollouts end, read when it is gone on with, sorted when it is over."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from harness.rollout.executor import FinishedRollout
from harness.rollout.record import Rollout
from harness.rollout.spans import otlp_line
from harness.tasks.json_lines import read_lines, with_keys

__all__ = [
    "ROLLOUTS",
    "SPANS",
    "ResultsError",
    "ResultsFolder",
    "calls_of_run",
    "read_rollouts",
]

ROLLOUTS: Final = "rollouts.jsonl"
SPANS: Final = "spans.otlp.jsonl"

_ROLLOUT_KEYS: Final = tuple(field.name for field in fields(Rollout))

Key = tuple[str, str, int]
Read = TypeVar("Read")


class ResultsError(Exception):
    """A file of results cannot be read; the message says which line."""


class ResultsFolder:
    """The files of one run. Safe for threads.

    A rollout's spans are written before its line: a run that is killed between the two makes the rollout again, and its
    first spans go.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._rollouts = folder / ROLLOUTS
        self._spans = folder / SPANS
        self._lock = threading.Lock()
        self.done: dict[Key, str] = {}
        """Key of a rollout -> its session."""
        self._mend()

    def add(self, finished: FinishedRollout) -> None:
        """Writes one rollout."""
        spans = otlp_line(finished.spans) + "\n"
        line = json.dumps(finished.rollout.as_json(), ensure_ascii=False) + "\n"
        with self._lock:
            for file, text in ((self._spans, spans), (self._rollouts, line)):
                with file.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(text)
            self.done[finished.rollout.key] = finished.rollout.session

    def sort(self) -> None:
        """Sorts both files by task, agent and seed."""
        order = {session: key for key, session in self.done.items()}
        _sort(self._rollouts, lambda line: _key(json.loads(line)))
        _sort(self._spans, lambda line: order[_session(_spans(line))])

    def _mend(self) -> None:
        """Leaves out what a killed run has not written whole."""
        rollouts = _kept(self._rollouts, _rollout)
        self.done.update((each["key"], each["session"]) for _, each in rollouts)
        sessions = set(self.done.values())
        spans = _kept(self._spans, lambda line: _session(_spans(line)))
        _replace(self._rollouts, [line for line, _ in rollouts])
        _replace(self._spans, [line for line, session in spans if session in sessions])


def _kept(file: Path, read: Callable[[str], Read]) -> list[tuple[str, Read]]:
    """The lines of a file, and what they say; none where there is no file yet."""
    if not file.exists():
        return []
    return read_lines(file, lambda line: (line, read(line)), ResultsError)


def _key(line: dict[str, Any]) -> Key:
    return line["task"], line["agent"], line["seed"]


def _rollout(line: str) -> dict[str, Any]:
    found = with_keys(json.loads(line), *_ROLLOUT_KEYS)
    return {**found, "key": _key(found)}


def _spans(line: str) -> list[dict[str, Any]]:
    """The spans of a line, which are one rollout's."""
    found: list[dict[str, Any]] = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return found


def _session(spans: Sequence[Mapping[str, Any]]) -> str:
    """Their conversation."""
    return str(_texts(spans[0])["gen_ai.conversation.id"])


def _texts(span: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a span that are texts."""
    return {each["key"]: each["value"].get("stringValue") for each in span["attributes"]}


def _sort(file: Path, key: Callable[[str], Key]) -> None:
    _replace(file, [line for line, _ in sorted(_kept(file, key), key=itemgetter(1))])


def _replace(file: Path, lines: Sequence[str]) -> None:
    """Writes a file anew, so that it is whole at any time."""
    beside = file.with_suffix(".new")
    beside.write_text("".join(lines), encoding="utf-8")
    beside.replace(file)


def read_rollouts(folder: Path) -> list[dict[str, Any]]:
    """The rollouts of a run.

    Raises:
        ResultsError: there are none, or a line is none.
    """
    return read_lines(folder / ROLLOUTS, _rollout, ResultsError)


def calls_of_run(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The calls of each session of a run, in order, as its spans have them: tool, arguments, result, error.

    Raises:
        ResultsError: there are none, or a line of spans is none.
    """
    return dict(read_lines(folder / SPANS, _session_calls, ResultsError))


def _session_calls(line: str) -> tuple[str, list[dict[str, Any]]]:
    spans = _spans(line)
    return _session(spans), [_call(span) for span in spans if _is_call(span)]


def _is_call(span: Mapping[str, Any]) -> bool:
    return str(span["name"]).startswith("execute_tool ")


def _call(span: Mapping[str, Any]) -> dict[str, Any]:
    values = _texts(span)
    error = "error.type" in values
    result = span["status"].get("message") if error else values.get("gen_ai.tool.call.result")
    return {
        "tool": values["gen_ai.tool.name"],
        "arguments": json.loads(values["gen_ai.tool.call.arguments"]),
        "result": result or "",
        "error": error,
    }
