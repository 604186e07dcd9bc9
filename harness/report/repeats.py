"""How alike an agent goes about a task that it does again (papers/002 section 3.2), over the rollouts of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from collector.offline.consistency import AVERAGED, TaskRun, repeats
from monitor.reference.runs import SeenRun, seen_call

__all__ = ["REPEATS", "repeats_of"]

REPEATS: Final = AVERAGED
"""Measures of a task that was done twice or more."""

Line = Mapping[str, Any]


def repeats_of(lines: Sequence[Line]) -> dict[str, list[float | None]]:
    """The measures of each task of a group, by name; None where one is not defined.

    Args:
        lines: rollouts of one agent under one scaffold, each with its calls as `made`, as `calls_of_run` gives them; those
            with None are not compared.
    """
    runs = (_run(line) for line in lines if line["made"] is not None)
    found = [each for each in repeats(runs) if each.scores is not None]
    return {name: [each.value(name) for each in found] for name in REPEATS}


def _run(line: Line) -> TaskRun:
    calls = (
        seen_call(each["tool"], each["arguments"], failed=each["error"])
        for each in line["made"]
    )
    seen = SeenRun(line["session"], line["agent"], tuple(calls))
    return TaskRun(line["agent"], line["task"], seen, line["answer"])
