"""Stepping a log again behind a change, in one or two readings at once, with resume points on the way.

Idea: a walk begins at the last resume point before the change, or at the checkpoint. Both readings are stepped part by part,
so that it is known whether the plain one ever has more harms than the wide one (`apart`).

Example: the log has 100 steps and points at 32 and 64. A call is inserted at place 70: the walk begins at 64, and leaves
a point at 96.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.replay import Replay, Stretch
from monitor.session.judgement.resume_points import RESUME_EVERY, ResumePoints
from monitor.session.judgement.step_marks import JudgedStep

__all__ = ["WalkResult", "WalkStart", "have_parted", "resumed", "step_all", "walked"]


class WalkStart(NamedTuple):
    """Where a walk begins."""

    runs: tuple[AutomatonRun, ...]
    """The run before it in each reading."""
    stretches: list[Stretch]
    """The log from there on."""
    apart: bool
    """True if the plain reading had more harms than the wide one after some step before it."""


class WalkResult(NamedTuple):
    """What stepping a part of the log came to."""

    runs: tuple[AutomatonRun, ...]
    """Runs of the readings after the last step."""
    news: list[list[JudgedStep]]
    """Steps of each reading whose verdicts differ from their marks."""
    is_whole: bool
    """True if the log was stepped from its beginning."""
    apart: bool
    """True if the plain reading had more harms than the wide one after some step, folded ones included."""
    points: ResumePoints | None
    """The resume points after the walk; None while there are none."""


def resumed(points: ResumePoints, replay: Replay, changed: int) -> WalkStart | None:
    """The last resume point before a changed step; None if the log must be stepped from the checkpoint."""
    while (point := points.before(changed)) is not None:
        stretches = replay.stretches(point.place, running=point.running)
        if not stretches or stretches[0].first >= point.place:
            return WalkStart(tuple([run.copy() for run in point.runs]), stretches, point.apart)
        # A group now reaches across this point.
        changed = point.place
    return None


def walked(
    replays: Sequence[Replay], start: WalkStart, points: ResumePoints | None
) -> WalkResult:
    """Steps the log in some readings, the plain one first, and adds resume points."""
    runs, stretches, apart = start
    log, last = replays[0].log, len(stretches) - 1
    news: list[list[JudgedStep]] = [[] for _ in runs]
    for number, stretch in enumerate(stretches):
        first = stretch.first
        if first >= RESUME_EVERY:
            points = ResumePoints() if points is None else points
            if points.due(first):
                points.add(log, first, runs, apart=apart)
        if number == last and stretch.together and first:
            points = ResumePoints() if points is None else points
            points.add_last_group(log, first, runs, apart=apart)
        apart = step_all(replays, runs, stretch, news) or apart
    is_whole = bool(stretches) and stretches[0].first == 0
    return WalkResult(runs, news, is_whole, apart, points)


def step_all(
    replays: Sequence[Replay],
    runs: Sequence[AutomatonRun],
    stretch: Stretch,
    news: Sequence[list[JudgedStep]] | None = None,
) -> bool:
    """Steps a stretch in each reading; returns True if the plain one had more harms than the wide one on the way.

    `news` takes, for each reading, the steps whose verdicts differ from their marks.
    """
    apart = False
    for part in stretch.parts() if len(runs) > 1 else (stretch,):
        for reading, run in enumerate(runs):
            steps = news[reading] if news is not None else []
            replays[reading].step(run, part, steps, news=news is not None)
        apart = apart or (len(runs) > 1 and have_parted(runs))
    return apart


def have_parted(runs: Sequence[AutomatonRun]) -> bool:
    """True if the plain reading has more harms than the wide one."""
    plain, wide = runs
    return plain.tally.harmful_steps > wide.tally.harmful_steps
