"""Folding: moves the first steps of a log into the checkpoint, so that a session's memory stays bounded.

A step that is folded stays as it was judged, whatever becomes known later.

Invariants:

- A group of overlapping calls is folded whole, since its order may still change, unless the log is full.
- If overlapping calls left several ways, each way keeps its own scores, because only later calls show
  which way was taken.

Example: a log has 90 steps, all received before the window. 26 of them may be folded, as 64 stay
(`FOLD_AFTER`). If places 24 to 27 are a group, 24 are folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from monitor.session.judgement.checkpoint import Checkpoint, FoldedScores
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.log_walk import step_all
from monitor.session.judgement.replay import Replay, taken_of, traced
from monitor.session.judgement.step_marks import POSSIBLE, JudgedStep
from monitor.session.log.log import SessionLog
from monitor.session.log.rows import order_of

__all__ = [
    "FOLD_AFTER",
    "FOLD_LUMP",
    "LOG_MAX",
    "condense",
    "fold",
    "fold_first",
    "is_crowded",
    "lump",
]

FOLD_AFTER: Final = 64
"""The latest steps, which stay in the log whatever their age: the API shows them, and late calls correct them."""

FOLD_LUMP: Final = 16
"""The least number of steps to fold at once, so that one deletion from the log serves many."""

LOG_MAX: Final = 1_024
"""Limit of the steps in the log, whatever their age, so that a burst stays bounded."""


def fold(judgement: Judgement, before: int) -> None:
    """Folds steps that are far enough back and were received up to `before` (Unix nanoseconds)."""
    count = _foldable(judgement.log, before)
    if count:
        fold_first(judgement, count)


def condense(judgement: Judgement) -> None:
    """Moves all steps into the checkpoint."""
    if len(judgement.log):
        fold_first(judgement, len(judgement.log))


def is_crowded(log: SessionLog) -> bool:
    """True when a burst has filled the log: its first FOLD_LUMP steps must be folded."""
    return len(log) >= LOG_MAX + FOLD_LUMP


def fold_first(judgement: Judgement, count: int) -> None:
    """Moves the first `count` steps into the checkpoint."""
    judge, base, replays = judgement.judge, judgement.base, judgement.replays()
    if base is None:
        base = Checkpoint(judgement.origin(wide=False), judge)
    if len(replays) > 1:
        _fold_wide(judgement, base, replays, count)
    judgement.base = base
    last = order_of(judgement.log, count - 1)
    scored = judge.scored and not judgement.sight.sure and judge.comparison is None
    _fold_plain(replays[0], base, count, scored=scored)
    if judgement.resume_points is not None:
        judgement.resume_points.fold(count)
    judgement.settle(last)


def _fold_wide(
    judgement: Judgement, base: Checkpoint, replays: Sequence[Replay], count: int
) -> None:
    """Moves the wide reading of the first `count` steps into the checkpoint."""
    log, is_doubted = judgement.log, judgement.judge.is_doubted
    runs = (judgement.origin(wide=False), judgement.origin(wide=True))
    for stretch in replays[0].stretches(0, count):
        base.apart = step_all(replays, runs, stretch) or base.apart
    base.wide = runs[1]
    judgement.suspected -= sum(1 for place in range(count) if log.mark(place) & POSSIBLE)
    doubted = sum(is_doubted(log.token(place)) for place in range(count))
    base.doubted = base.doubted or doubted > 0
    judgement.doubts -= doubted


def _foldable(log: SessionLog, before: int) -> int:
    """The number of first steps that may be folded; 0 if they are too few.

    Such a step was received up to `before` (Unix nanoseconds) and is not among the last `FOLD_AFTER`.
    """
    if len(log) < FOLD_AFTER + FOLD_LUMP or log.receipt(FOLD_LUMP - 1) > before:
        return 0
    count = 0
    while count < len(log) - FOLD_AFTER and log.receipt(count) <= before:
        count += 1
    if log.grouped:
        for first, end in log.groups(end=count):
            if first < count < end:
                count = first
    return count if count >= FOLD_LUMP else 0


def lump(judgement: Judgement) -> int:
    """The number of steps to fold in a burst: few, and whole groups unless these fill half of the log.

    With things, a quarter of the log: the rest is stepped again behind each fold.
    """
    log = judgement.log
    count = least = FOLD_LUMP if judgement.judge.each is None else len(log) // 4
    for _, end in log.groups(end=least):
        count = max(count, end)
    return count if count <= len(log) // 2 else least


def _fold_plain(replay: Replay, base: Checkpoint, count: int, *, scored: bool) -> None:
    """Moves the plain reading of the first `count` steps of the log into the checkpoint.

    Args:
        replay: steps the log.
        base: the checkpoint before them.
        count: number of the steps.
        scored: True if the session has scores. Then each way through overlapping calls keeps its own.
    """
    log = replay.log
    started, last = log.span(count)
    base.started = min(base.started or started, started)
    base.last = max(base.last, last)
    ways = _fold_ways(replay, base, count) if scored else []
    folded = _step_base(replay, base, count)
    if ways:
        base.part(ways)
    else:
        for step in folded:
            _take(replay, base, base, step)
    base.count += count
    base.at = max(base.at, log.at(count - 1))
    log.forget(count)


def _take(replay: Replay, base: Checkpoint, scored: FoldedScores, step: JudgedStep) -> None:
    scored.take(replay.judge, replay.token(step.place), step, base.count + step.place + 1)


def _fold_ways(replay: Replay, base: Checkpoint, count: int) -> list[FoldedScores]:
    """The folded part of each way; empty if there is only one way."""
    log = replay.log
    several = base.run.ways is not None or base.trail is not None
    if not several and not (log.grouped and log.groups(end=count)):
        return []
    run = base.run.copy()
    roots = replay.trace(run, count)
    found: list[FoldedScores] = []
    for way in run.ways or ():
        number, places = traced(way, roots)
        scored = FoldedScores(replay.judge, exact=True)
        scored.start_from(base.of(number))
        trail = base.root(number)
        for step in replay.retrace(trail, places, count):
            _take(replay, base, scored, step)
        is_apart = trail.position != way.position or trail.progressed != way.progressed
        scored.trail = trail if is_apart else None
        found.append(scored)
    return found


def _step_base(replay: Replay, base: Checkpoint, count: int) -> list[JudgedStep]:
    """Steps the checkpoint's run, and its clocks if any, over the folded steps."""
    timing = base.timing
    if timing is None:
        return replay.walk(base.run, count)
    folded: list[JudgedStep] = []
    for steps, position in replay.grouped(base.run, count):
        timing.take(taken_of(replay, steps, base.count), position)
        folded += steps
    timing.forget()
    return folded
