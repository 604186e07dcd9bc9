"""Verdicts that become final, once the window behind their calls has passed.

Example: a call is received at 10 s, and the window is 5 s. At 15 s its verdict is final. If it overlaps a call that was
received at 12 s, both become final at 17 s, unless no order changes the verdict.
"""

from __future__ import annotations

from typing import NamedTuple

from monitor.session.judge.judge import ALWAYS, HARMFUL, SELF_LOOP
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import CODE, FINAL, JudgedStep
from monitor.session.log.log import SessionLog

__all__ = ["Finality", "finalise"]


class Finality(NamedTuple):
    """What `finalise` has found."""

    reported: list[JudgedStep]
    """The harmful steps that have become final; under a reference, the unexpected writes."""
    open: int | None
    """The earliest receipt of a step that is not yet due, Unix nanoseconds; None if all are."""


def finalise(
    judgement: Judgement, before: int, count: int | None = None, *, overdue: int = 0
) -> Finality:
    """Marks steps received up to `before` as final.

    A call that overlaps siblings becomes final with its whole group, since each call of a group
    may change the verdicts of the others. A verdict that no order changes does not wait.

    Args:
        judgement: whose steps they are.
        before: Unix nanoseconds.
        count: only the first `count` steps of the log, and groups do not wait.
        overdue: Unix nanoseconds. Steps received up to this moment do not wait for their group.
    """
    log, points = judgement.log, judgement.resume_points
    new, open_ = log.received(before, FINAL, count)
    if open_ is None and count is None and points is not None:
        points.release_last_group()
    waits = log.grouped and count is None and judgement.judge.comparison is None
    if new and open_ is not None and waits:
        new = _waiting_for_none(log, new, before, overdue)
    return Finality(_mark_final(judgement, new) if new else [], open_)


def _waiting_for_none(log: SessionLog, new: list[int], before: int, overdue: int) -> list[int]:
    """The steps among `new` that need not wait for the calls that overlap them.

    A call of a group waits until all calls of the group are due, unless its verdict depends on no
    order, or the call is overdue. Times are Unix nanoseconds.

    Args:
        log: of the session.
        new: places of the steps that are due.
        before: a step is due if it was received up to this moment.
        overdue: a step is overdue if it was received up to this moment.
    """
    held: set[int] = set()
    for first, end in log.groups(end=new[-1] + 1):
        group = range(first, end)
        if any(log.receipt(place) > before for place in group):
            held.update(place for place in group if log.receipt(place) > overdue)
    return [place for place in new if place not in held or log.mark(place) & CODE in ALWAYS]


def _mark_final(judgement: Judgement, new: list[int]) -> list[JudgedStep]:
    """Marks steps; returns those that are reported."""
    log, harmful = judgement.log, False
    for place in new:
        mark = log.mark(place)
        log.set_mark(place, mark | FINAL)
        harmful = harmful or mark & CODE >= HARMFUL
    if judgement.judge.comparison is not None:
        return _unexpected(judgement, new)
    if not harmful:
        return []
    # The walk must end behind a whole group: a part of a group may be ordered in another way.
    end = new[-1] + 1
    if log.grouped:
        for group in log.groups(end=end):
            end = max(end, group[1])
    found, final = judgement.walk(end), set(new)
    return [step for step in found if step.code >= HARMFUL and step.place in final]


def _unexpected(judgement: Judgement, places: list[int]) -> list[JudgedStep]:
    """The steps that a reference has at no place."""
    comparison, position = judgement.judge.comparison, judgement.head.position
    return [
        JudgedStep(place, SELF_LOOP, position, position)
        for place in places
        if comparison is not None
        and comparison.new_write(judgement.log.token(place)) is not None
    ]
