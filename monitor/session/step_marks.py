"""The mark of each step: its verdict as a code, and what was reported; and changes of marks.

A mark is one byte of a step's row in the log. Its lower half is the code (`monitor.session.judge.CODES`), or
`UNJUDGED`. `RAISED` says that the step was reported as harmful once, `FINAL` that its verdict is final. `POSSIBLE` says
that it is reported as possibly harmful, and `SUSPECTED` that it was once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from monitor.automaton.position import Position
from monitor.records import built
from monitor.session.judge import ALWAYS, HARMFUL
from monitor.session.log.log import Log

__all__ = [
    "CODE",
    "FINAL",
    "POSSIBLE",
    "RAISED",
    "SUSPECTED",
    "UNJUDGED",
    "Change",
    "Finality",
    "Step",
    "Suspicion",
    "changes_of",
    "waiting_for_none",
]

CODE: Final = 0x0F
"""The bits of the code."""
UNJUDGED: Final = CODE
SUSPECTED: Final = 0x10
POSSIBLE: Final = 0x20
RAISED: Final = 0x40
FINAL: Final = 0x80


class Change(NamedTuple):
    """A call whose verdict was given (`old` is None) or revised. Codes as in `judge.CODES`."""

    place: int
    old: int | None
    new: int
    raised: bool
    """True when the call is harmful for the first time."""
    final: bool
    """True when the old verdict had been counted as final."""
    before: Position
    after: Position


class Step(NamedTuple):
    """One call of the log, as judged."""

    place: int
    code: int
    before: Position
    after: Position


class Suspicion(NamedTuple):
    """A call that is harmful if its session began with its first call, and not as the session is read now."""

    step: Step
    """As it is if the session began there; as it is read now, where the suspicion is withdrawn."""
    first: bool
    """True when it is reported for the first time."""
    withdrawn: bool


class Finality(NamedTuple):
    """What has become final, and what has not."""

    reported: list[Step]
    """The harmful steps that are final now; under a learnt reference, which knows no harm, those that wrote
    what nobody has written."""
    open: int | None
    """The earliest receipt of a step that is not final yet, among those that were looked at."""


def _news_first(change: Change) -> tuple[bool, int]:
    return change.old is not None, change.place


def changes_of(log: Log, steps: list[Step]) -> list[Change]:
    """Marks steps with their present verdicts: the verdicts that are new or have changed."""
    changes: list[Change] = []
    for place, code, before, after in steps:
        mark = log.mark(place)
        if mark & CODE == code:
            continue
        raised = code >= HARMFUL and not mark & RAISED
        log.set_mark(place, mark & ~CODE | code | (RAISED if raised else 0))
        old = None if mark & CODE == UNJUDGED else mark & CODE
        final = bool(mark & FINAL)
        change: Change = built(Change, (place, old, code, raised, final, before, after))
        changes.append(change)
    if len(changes) > 1:
        changes.sort(key=_news_first)
    return changes


def waiting_for_none(log: Log, new: list[int], before: int, overdue: int) -> list[int]:
    """Those of some steps that are final now, though calls that overlap them may not be.

    A call of a group waits until all calls of the group were received, unless its verdict does not depend on
    the order, or it has waited for too long.

    Args:
        log: of the session.
        new: places of the steps.
        before: steps received up to this moment do not change any more.
        overdue: steps received up to this moment do not wait.
    """
    held: set[int] = set()
    for first, end in log.groups(end=new[-1] + 1):
        group = range(first, end)
        if any(log.receipt(place) > before for place in group):
            held.update(place for place in group if log.receipt(place) > overdue)
    return [place for place in new if place not in held or log.mark(place) & CODE in ALWAYS]
