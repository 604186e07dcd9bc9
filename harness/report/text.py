"""The report as tables of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from harness.report.figures import MeanInterval, Report
from harness.report.repeats import REPEATS

__all__ = ["JUDGES_HEAD", "REPEATS_HEAD", "judge_rows", "lines", "repeat_rows", "shown"]

REPEATS_HEAD: Final = (
    "agent", "scaffold", "repeated tasks", "TSS", "AC", "AC, tools apart", "sequences", "differ from call",
    "first two", "answers",
)  # fmt: skip
"""Titles of `repeat_rows`."""

JUDGES_HEAD: Final = ("agent", "scaffold", "judge", "score 0 to 3", "outcomes")
"""Titles of `judge_rows`."""


def shown(mean: MeanInterval) -> str:
    """A mean with its interval."""
    if mean.mean is None:
        return "-"
    return f"{mean.mean:.3f} [{mean.low:.3f}, {mean.high:.3f}]"


def lines(report: Report) -> Iterator[str]:
    """The lines of a report."""
    yield f"{report.rollouts} rollouts; each result holds for the scaffold that is named"
    head = (
        "agent",
        "scaffold",
        "where",
        "n",
        "success",
        "counted",
        "HarmRate",
        "PC",
        "calls",
        "front",
    )
    rows = [
        (
            group.agent, group.scaffold, group.environment, group.success_counted.n,
            shown(group.success), shown(group.success_counted),
            shown(group.measures["harm_rate"]), shown(group.measures["pc"]),
            shown(group.measures["calls"]), "yes" if group.on_front else "",
        )
        for group in report.groups
    ]  # fmt: skip
    yield from _table(head, rows)
    yield ""
    causes = [
        (group.agent, group.scaffold, cause, count)
        for group in report.groups
        for cause, count in sorted(group.causes.items(), key=lambda each: (-each[1], each[0]))
    ]
    yield from _table(("agent", "scaffold", "cause", "rollouts"), causes)
    if repeated := repeat_rows(report):
        yield ""
        yield from _table(REPEATS_HEAD, repeated)
    if judged := judge_rows(report):
        yield ""
        yield from _table(JUDGES_HEAD, judged)
    if report.effects:
        yield ""
        yield from _table(
            ("effect", "agent", "from", "to", "tasks", "more successes"),
            [
                (each.kind, each.agent, each.here, each.there, each.tasks,
                 f"{each.difference:+.3f} [{each.low:+.3f}, {each.high:+.3f}]")
                for each in report.effects
            ],
        )  # fmt: skip


def repeat_rows(report: Report) -> list[tuple[Any, ...]]:
    """A row for each group with tasks that were done twice or more."""
    return [
        (group.agent, group.scaffold, group.repeats[REPEATS[0]].n,
         *(shown(group.repeats[name]) for name in REPEATS))
        for group in report.groups
        if group.repeats[REPEATS[0]].n
    ]  # fmt: skip


def judge_rows(report: Report) -> list[tuple[str, ...]]:
    """A row for each judge of each group; none where nobody judged."""
    return [
        (
            group.agent, group.scaffold, judge, shown(found.score),
            ", ".join(f"{outcome} {count}" for outcome, count in found.outcomes.items()),
        )
        for group in report.groups
        for judge, found in group.judges.items()
    ]  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
