"""Rollouts as PrefixGuard's lines, and such lines as plain runs, which `learn`, `check --runs` and `replay` read.

    {trajectory_id, task_id, final_success, failure_bucket, split, metadata, steps: [
        {context, action_text, tool_name, tool_args, result_text, status}]}

`failure_bucket` is the category and kind of a rollout's cause, or NONE. `context` is what the call before has returned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.bench.results_folder import ResultsError, calls_of_run, read_rollouts
from harness.tasks.json_lines import documents

__all__ = ["ExchangedLines", "export_prefixguard", "import_prefixguard"]

_NONE: Final = "NONE"
_FAILED: Final = frozenset({"error", "failed", "failure"})
_FACTS: Final = ("agent", "world", "scaffold", "seed", "harmful", "attacked", "end")


class ExchangedLines(NamedTuple):
    """What became of lines."""

    written: int
    left_out: int
    """Rollouts without a call, which the form does not have; or steps without a tool."""


def export_prefixguard(folders: Sequence[Path], file: Path) -> ExchangedLines:
    """Writes the rollouts of runs.

    Raises:
        ResultsError: a run cannot be read.
        OSError: the file cannot be written.
    """
    rollouts = [(folder, each) for folder in folders for each in read_rollouts(folder)]
    calls = {folder: calls_of_run(folder) for folder in folders}
    lines = [
        _line(rollout, calls[folder][rollout["session"]])
        for folder, rollout in rollouts
        if calls[folder].get(rollout["session"])
    ]
    _write(file, lines)
    return ExchangedLines(len(lines), len(rollouts) - len(lines))


def _line(rollout: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    cause = rollout["cause"]
    bucket = (
        _NONE if cause is None else "/".join(filter(None, (cause["category"], cause["kind"])))
    )
    contexts = ["", *(each["result"] for each in calls)]
    return {
        "trajectory_id": rollout["session"],
        "task_id": rollout["task"],
        "final_success": rollout["success"],
        "failure_bucket": bucket,
        "split": "train",
        "metadata": {key: rollout[key] for key in _FACTS},
        "steps": [_step(*each) for each in zip(calls, contexts, strict=False)],
    }


def _step(call: Mapping[str, Any], context: str) -> dict[str, Any]:
    shown = json.dumps(call["arguments"], ensure_ascii=False)
    return {
        "context": context,
        "action_text": f"{call['tool']}({shown})",
        "tool_name": call["tool"],
        "tool_args": call["arguments"],
        "result_text": call["result"],
        "status": "error" if call["error"] else "ok",
    }


def import_prefixguard(files: Sequence[Path], folder: Path) -> ExchangedLines:
    """Writes lines as plain runs, `runs.jsonl` in a folder.

    Raises:
        ResultsError: a line is none.
        OSError: a file cannot be written.
    """
    runs = [
        _run(line, where) for file in files for where, line in documents(file, ResultsError)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "runs.jsonl", [run for run, _ in runs])
    return ExchangedLines(len(runs), sum(left_out for _, left_out in runs))


def _run(line: Any, where: str) -> tuple[dict[str, Any], int]:
    """A line as a plain run, and how many of its steps name no tool."""
    _demand(isinstance(line, dict), where, "a trajectory")
    steps, task = line.get("steps"), line.get("task_id")
    _demand(isinstance(task, str), where, "task_id, a text")
    _demand(isinstance(line.get("final_success"), bool), where, "final_success, true or false")
    _demand(
        isinstance(steps, list) and all(isinstance(each, dict) for each in steps),
        where,
        "steps, a list of mappings",
    )
    calls = [_call(each) for each in steps if each.get("tool_name")]
    metadata = line.get("metadata")
    run = {
        "run": str(line.get("trajectory_id") or where),
        "task": task,
        "agent": str(metadata.get("agent", "")) if isinstance(metadata, dict) else "",
        "success": line["final_success"],
        "failure_bucket": line.get("failure_bucket", _NONE),
        "calls": calls,
    }
    return run, len(steps) - len(calls)


def _call(step: Mapping[str, Any]) -> dict[str, Any]:
    failed = str(step.get("status") or "ok").casefold() in _FAILED
    return {
        "name": str(step["tool_name"]),
        "arguments": step.get("tool_args") or {},
        "status": "error" if failed else "ok",
        "result": step.get("result_text", ""),
    }


def _demand(fine: bool, where: str, expected: str) -> None:
    if not fine:
        raise ResultsError(f"{where}: expected {expected}")


def _write(file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in lines)
    file.write_text(text, encoding="utf-8", errors="backslashreplace")
