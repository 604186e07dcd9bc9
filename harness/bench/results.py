"""Results of a run in its folder: written as rollouts end, read when it is gone on with, sorted when it is over."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from harness.rollout.executor import FinishedRollout
from harness.rollout.spans import otlp_line

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

Key = tuple[str, str, int]


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
        rollouts = sorted(_complete(self._rollouts), key=lambda line: _key(json.loads(line)))
        order = {session: key for key, session in self.done.items()}
        spans = sorted(_complete(self._spans), key=lambda line: order[_session(line)])
        _replace(self._rollouts, rollouts)
        _replace(self._spans, spans)

    def _mend(self) -> None:
        """Leaves out what a killed run has not written whole."""
        whole = list(_complete(self._rollouts))
        for line in whole:
            found = json.loads(line)
            self.done[_key(found)] = found["session"]
        kept = set(self.done.values())
        _replace(self._rollouts, whole)
        _replace(
            self._spans, [line for line in _complete(self._spans) if _session(line) in kept]
        )


def _key(line: dict[str, Any]) -> Key:
    return line["task"], line["agent"], line["seed"]


def _session(line: str) -> str:
    """The conversation of a line of spans."""
    request = json.loads(line)
    span = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    return next(
        str(each["value"]["stringValue"])
        for each in span["attributes"]
        if each["key"] == "gen_ai.conversation.id"
    )


def _complete(file: Path) -> Iterator[str]:
    """Lines that end; the last one of a killed run may not."""
    if not file.exists():
        return
    # JSON has other ends of lines inside its texts: only this one ends a line of the file.
    for line in file.read_text(encoding="utf-8").split("\n")[:-1]:
        yield line + "\n"


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
    file = folder / ROLLOUTS
    try:
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as problem:
        raise ResultsError(f"{file}: {getattr(problem, 'strerror', None) or problem}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            rollout = json.loads(line)
            found.append({**rollout, "key": _key(rollout)})
        except (ValueError, KeyError, TypeError) as problem:
            raise ResultsError(f"{file}:{number}: no rollout: {problem!r}") from None
    return found


def calls_of_run(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The calls of each session of a run, in order, as its spans have them: tool, arguments, result, error.

    Raises:
        ResultsError: a line of spans is none.
    """
    file = folder / SPANS
    found: dict[str, list[dict[str, Any]]] = {}
    for number, line in enumerate(_complete(file), start=1):
        try:
            spans = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
            found[_session(line)] = [_call(span) for span in spans if _is_call(span)]
        except (ValueError, KeyError, IndexError, TypeError) as problem:
            raise ResultsError(f"{file}:{number}: no spans: {problem!r}") from None
    return found


def _is_call(span: dict[str, Any]) -> bool:
    return str(span["name"]).startswith("execute_tool ")


def _call(span: dict[str, Any]) -> dict[str, Any]:
    values = {each["key"]: each["value"].get("stringValue") for each in span["attributes"]}
    error = span["status"].get("message") if "error.type" in values else None
    return {
        "tool": values["gen_ai.tool.name"],
        "arguments": json.loads(values["gen_ai.tool.call.arguments"]),
        "result": values.get("gen_ai.tool.call.result") or error or "",
        "error": error is not None,
    }
