"""The alarms and the risk on real runs of an airline agent have the figures of docs/references.md."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.papers.airline import (
    RUNS,
    WAYS,
    Judged,
    alarm,
    aucs,
    compared,
    judged,
    report,
    tried,
    watched_risks,
)

PAGE = Path(__file__).parents[2] / "docs" / "references.md"

pytestmark = pytest.mark.skipif(
    not RUNS.exists(), reason="the recorded airline runs are absent"
)


@cache
def found() -> tuple[Judged, ...]:
    """All runs with calls, each judged online by the other runs of its task."""
    return tuple(judged(tried()))


def test_unexpected_write() -> None:
    """An unexpected write is worth a page: precise, and it finds most failures."""
    figures = alarm(found(), "unexpected_write")

    assert figures.precision >= 0.88
    assert figures.recall >= 0.68
    assert figures.false_rate <= 0.08


def test_first_two_is_a_hint() -> None:
    """The first two names alone predict failure weakly on these tasks, so they give only a hint."""
    figures = alarm(found(), "first_two_diverged")

    assert figures.false_rate <= 0.22
    levels = {
        each["level"]
        for one in found()
        for each in one.object["alarms"]
        if each["alarm"] == "first_two"
    }
    assert levels == {"hint"}


def test_risk_within_a_task() -> None:
    """The risk of failed runs is above that of good ones, at every point of the run."""
    step_2, step_4, half, end = aucs(watched_risks(found()))

    assert step_2 >= 0.69
    assert step_4 >= 0.68
    assert half >= 0.68
    assert end >= 0.70


def test_risk_is_not_beaten_across_tasks() -> None:
    """Learnt from other tasks the tools called say as much as the richer models, but for noise."""
    runs = tried()
    ours = aucs(compared(runs, WAYS["tools called"], within=False))

    for name in ("prefix tree", "bigram ratio", "ALERGIA ratio"):
        theirs = aucs(compared(runs, WAYS[name], within=False))
        assert sum(ours) > sum(theirs), name


def test_number_of_reference_runs_betrays_the_label() -> None:
    """Leaving a task out, the share of failures alone is an oracle turned round: not a result."""
    assert max(aucs(compared(tried(), WAYS["share of failures"], within=False))) < 0.2


def test_each_step_has_its_risk() -> None:
    """Every judged run shows a risk from 0 to 1 at each step, the last that of the session."""
    for one in found():
        risks = [step["risk"] for step in one.object["steps"]]

        assert len(risks) == len(one.tried.run.calls)
        assert all(0 <= risk <= 1 for risk in risks)
        assert risks[-1] == one.object["risk"]


def levenshtein(one: list[str], other: list[str]) -> int:
    """By its recursion, row by row: nothing of it is the library's."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def medoids(runs: list[list[str]]) -> list[list[str]]:
    """All runs with the highest mean similarity to the others (papers/002, Definition 3)."""
    sums = [sum(1 - levenshtein(a, b) / max(len(a), len(b), 1) for b in runs) for a in runs]
    return [run for run, total in zip(runs, sums, strict=True) if total > max(sums) - 1e-9]


def test_first_two_by_an_independent_script() -> None:
    """The online flag is that of the definitions: some medoid's first two names, call by call."""
    runs = tried()
    differing = 0
    for one in found():
        usual = [
            each.names
            for each in runs
            if (each.task, each.failed) == (one.tried.task, False)
            and each.run.session != one.tried.run.session
        ]
        if not usual:
            continue
        names = one.tried.names[:2]
        said = {names != medoid[:2][: len(names)] for medoid in medoids(usual)}
        assert one.object["first_two_diverged"] in said
        differing += len(said) > 1
    # Where medoids tie they may disagree; that is rare.
    assert differing <= 2


@pytest.mark.long
def test_the_report_is_fresh() -> None:
    """docs/references.md has every line of the tables that the one command prints."""
    text = PAGE.read_text()

    assert [line for line in report() if line.startswith("| ") and line not in text] == []
