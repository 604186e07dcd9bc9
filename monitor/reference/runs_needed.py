"""How many usual runs a reference needs: `new_write_tool` under references of few runs, on the runs left out."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from monitor.reference.runs import SeenRun, writes_anew
from monitor.spec.learnt_reference import PAGE_PRECISION

__all__ = ["RunsNeeded", "runs_needed", "runs_needed_lines"]

RUNS_MAX: Final = 5
"""References of one run to so many are drawn."""
DRAWS: Final = 20
SPARE: Final = 2
"""Usual runs that a draw must leave to be judged."""


class RunsNeeded(NamedTuple):
    """What `new_write_tool` does under references of some number of runs, over all draws."""

    references: int
    hits: int
    """Failed runs in which it was raised."""
    false: int
    failures: int
    successes: int

    @property
    def precision(self) -> float | None:
        """None if it was never raised, or if no run failed."""
        raised = self.hits + self.false
        return self.hits / raised if raised and self.failures else None


def runs_needed(
    tasks: Iterable[Sequence[SeenRun]], writes: Iterable[str] | None
) -> list[RunsNeeded]:
    """The figures for references of 1 to 5 usual runs; without those for which too few runs are left.

    Args:
        tasks: the runs of each reference.
        writes: tools that change something, beside those that do by their names.
    """
    known = frozenset(writes or ())
    groups = [_by_outcome(runs) for runs in tasks]
    found = [_needed(groups, count, known) for count in range(1, RUNS_MAX + 1)]
    return [each for each in found if each.successes]


_Outcomes = tuple[list[SeenRun], list[SeenRun]]
"""Usual runs, and failed ones."""


def _by_outcome(runs: Sequence[SeenRun]) -> _Outcomes:
    labelled = any(run.success is not None for run in runs)
    # In the order of what they did, so that the order of the input makes no difference.
    ranked = sorted((run for run in runs if run.calls), key=_did)
    usual = [run for run in ranked if run.success or not labelled]
    return usual, [run for run in ranked if labelled and not run.success]


def _did(run: SeenRun) -> tuple[tuple[tuple[str, str, bool], ...], str]:
    return tuple((call.tool, call.digest, call.failed) for call in run.calls), run.id


def _needed(groups: Sequence[_Outcomes], count: int, writes: frozenset[str]) -> RunsNeeded:
    chance = random.Random(count)  # noqa: S311 - statistics, not secrets
    hits = false = failures = successes = 0
    for usual, failed in groups:
        if len(usual) < count + SPARE:
            continue
        for _ in range(DRAWS):
            drawn = set(chance.sample(range(len(usual)), count))
            known = {tool for place in drawn for tool in usual[place].names}
            others = [run for place, run in enumerate(usual) if place not in drawn]
            hits += sum(writes_anew(run, known.__contains__, writes) for run in failed)
            false += sum(writes_anew(run, known.__contains__, writes) for run in others)
            failures += len(failed)
            successes += len(others)
    return RunsNeeded(count, hits, false, failures, successes)


def runs_needed_lines(found: Sequence[RunsNeeded]) -> Iterator[str]:
    """The figures for people, and how many runs the precision of a page needs."""
    if not found:
        yield "too few usual runs to tell how many a reference needs"
        return
    yield f"new_write_tool by the number of usual runs ({DRAWS} draws, judged by runs that were left out):"
    for each in found:
        precision = "-" if each.precision is None else f"{each.precision:.2f}"
        recall = f"{each.hits / each.failures:.2f}" if each.failures else "-"
        yield (
            f"  {each.references}: precision {precision}  recall {recall}  "
            f"false alarms per 1,000 usual runs {1000 * each.false / each.successes:.0f}"
        )
    if any(each.precision is not None for each in found):
        yield _enough(found)


def _enough(found: Sequence[RunsNeeded]) -> str:
    """From which number on the precision stays enough to page."""
    need: int | None = None
    for each in reversed(found):
        if each.precision is not None and each.precision < PAGE_PRECISION:
            break
        need = each.references
    if need is None:
        return (
            f"precision {PAGE_PRECISION} needs more than {found[-1].references} usual runs here"
        )
    return f"precision {PAGE_PRECISION} needs {need} usual {'run' if need == 1 else 'runs'}"
