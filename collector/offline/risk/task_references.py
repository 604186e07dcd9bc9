"""References of tasks, drawn from runs, and what a run looks like under one."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from monitor.reference.comparison import Comparison
from monitor.reference.learn import tells_origins, usual
from monitor.reference.runs import SeenRun
from monitor.spec.risk_model import RiskModel

__all__ = ["Example", "Vector", "by_task", "draw", "seen_under", "taught_examples"]

Vector = list[float]

REFERENCES: Final = 5
"""Usual runs that a reference is drawn of."""

_NO_MODEL: Final = RiskModel("", (), (), 0.0, 1.0, 0.0, 1.0)
"""A model without trees: with it the features are computed."""


class Example(NamedTuple):
    """A run under one reference."""

    run: SeenRun
    vectors: list[Vector]
    """The features before the first call, after each call, and last those of the ended run."""
    new_write: int
    """Number of the first call, from 1, that wrote by a tool of no usual run and did not fail; 0: none."""
    new_arguments: int
    """Number of the first such call of a usual tool, with arguments that no usual run gave it."""
    carried_write: int
    """Number of the first call of `new_write` whose values may come from an earlier result."""

    @property
    def failed(self) -> bool:
        """Whether the task was not done."""
        return not self.run.success


def by_task(runs: Iterable[SeenRun]) -> dict[str, list[SeenRun]]:
    """Runs with a task and an outcome, by task."""
    found: dict[str, list[SeenRun]] = {}
    for run in sorted(runs, key=lambda run: (run.task, run.agent, run.id)):
        if run.task and run.success is not None:
            found.setdefault(run.task, []).append(run)
    return found


def draw(runs: Sequence[SeenRun], count: int, chance: random.Random) -> list[SeenRun]:
    """So many of the successes."""
    good = [run for run in runs if run.success]
    return chance.sample(good, min(count, len(good)))


def seen_under(
    runs: Sequence[SeenRun], references: Sequence[SeenRun], writes: Iterable[str] | None
) -> list[Example]:
    """What the runs look like under a reference of other runs."""
    told = tells_origins([*references, *runs])
    comparison = Comparison(replace(usual(references, writes, _NO_MODEL), provenance=told))
    return [_example(run, comparison) for run in runs]


def _example(run: SeenRun, comparison: Comparison) -> Example:
    at, firsts = comparison.start(), {"new_write_tool": 0, "new_arguments": 0}
    carried = 0
    vectors = [comparison.vector(at, ended=False)]
    for number, call in enumerate(run.calls, start=1):
        token = comparison.token_of(call)
        comparison.step(at, token)
        vectors.append(comparison.vector(at, ended=False))
        new = comparison.new_write(token)
        if new is not None and not call.failed:
            firsts[new.alarm] = firsts[new.alarm] or number
            if new.alarm == "new_write_tool" and new.is_sure:
                carried = carried or number
    vectors.append(comparison.vector(at, ended=True))
    return Example(run, vectors, firsts["new_write_tool"], firsts["new_arguments"], carried)


def taught_examples(
    tasks: dict[str, list[SeenRun]],
    writes: Iterable[str] | None,
    draws: int,
    chance: random.Random,
) -> list[Example]:
    """Each run under references of other runs of its task, drawn several times.

    A success leaves one success less to draw from than a failure does. Both are given equally many.
    """
    found: list[Example] = []
    for runs in tasks.values():
        good = sum(bool(run.success) for run in runs)
        for run in runs if good >= LEAST else ():
            others = [other for other in runs if other is not run]
            for _ in range(draws):
                count = min(chance.randint(LEAST, REFERENCES), good - 1)
                found += seen_under([run], draw(others, count, chance), writes)
    return found


LEAST: Final = 3
"""Successes of a task without which it teaches nothing."""
