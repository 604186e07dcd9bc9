"""How alike an agent goes about a task that it does again (papers/002 section 3.2), over the rollouts of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from monitor.scores.consistency import (
    TraceCall,
    consistency,
    flatten,
    output_agreement,
)

__all__ = ["COMPARED_MAX", "REPEATS", "repeats_of"]

REPEATS: Final = (
    "tss", "ac_paper", "ac_repository", "unique_sequences", "divergence_point", "first_two_agreement",
    "output_agreement",
)  # fmt: skip
"""Measures of a task that was done twice or more."""

COMPARED_MAX: Final = 400
"""Rollouts of a task whose pairs are compared: those of the lowest seeds."""

Line = Mapping[str, Any]


def repeats_of(lines: Sequence[Line]) -> dict[str, list[float | None]]:
    """The measures of each task of a group, by name; None where one is not defined.

    Args:
        lines: rollouts of one agent under one scaffold, each with its calls as `made`, as `calls_of_run` gives them; those
            with None are not compared.
    """
    by_task: dict[str, list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: line["seed"]):
        if line["made"] is not None:
            by_task[line["task"]].append(line)
    found = [_task(each[:COMPARED_MAX]) for each in by_task.values() if len(each) > 1]
    return {name: [each[name] for each in found] for name in REPEATS}


def _task(lines: Sequence[Line]) -> dict[str, float | None]:
    traces = [
        [TraceCall(call["tool"], flatten(call["arguments"])) for call in line["made"]]
        for line in lines
    ]
    answers = [line["answer"] for line in lines if line["answer"]]
    scores = consistency(traces)._asdict()
    scores["output_agreement"] = output_agreement(answers) if len(answers) > 1 else None
    return {name: scores[name] for name in REPEATS}
