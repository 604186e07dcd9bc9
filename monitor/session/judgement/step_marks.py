"""The mark of each step, and the changes of marks that are reported.

Idea: a mark is one byte of a step's row in the log. It says what was reported of the step, so a
replay reports only what differs.

| bits | meaning |
|---|---|
| 0 to 3 | `CODE`: the verdict (`monitor.session.judge.judge.CODES`), or `UNJUDGED` |
| 4 | `SUSPECTED`: the step was reported as possibly harmful once |
| 5 | `POSSIBLE`: the step is reported as possibly harmful now |
| 6 | `RAISED`: the step was reported as harmful once |
| 7 | `FINAL`: the verdict was counted as final, and is not [open again](`reopen`) |

Example: a call is harmful, then a late call makes it progress, then another late call makes it
harmful again. The first `VerdictChange` has `raised`, the third does not, so the call is counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.automaton.position import Position
from monitor.records import built
from monitor.session.judge.judge import HARMFUL
from monitor.session.log.log import SessionLog

__all__ = [
    "CODE",
    "FINAL",
    "POSSIBLE",
    "RAISED",
    "SUSPECTED",
    "UNJUDGED",
    "JudgedStep",
    "VerdictChange",
    "changes_of",
    "is_alarming",
    "is_final",
    "reopen",
]

CODE: Final = 0x0F
"""The bits of the code."""
UNJUDGED: Final = CODE
SUSPECTED: Final = 0x10
POSSIBLE: Final = 0x20
RAISED: Final = 0x40
FINAL: Final = 0x80


class VerdictChange(NamedTuple):
    """A call whose verdict was given (`old` is None) or revised. Codes as in `judge.CODES`."""

    place: int
    old: int | None
    new: int
    raised: bool
    """True if the call is harmful for the first time."""
    final: bool
    """True if the old verdict was counted as final."""
    before: Position
    after: Position
    thing: bytes | None = None
    """The thing that the verdict is of (`monitor.alphabet.things`); None without things, or for no thing."""


class JudgedStep(NamedTuple):
    """One call of the log, as judged."""

    place: int
    code: int
    before: Position
    after: Position
    thing: bytes | None = None
    """Key of the thing that the verdict is of, as in `VerdictChange`."""


def _news_first(change: VerdictChange) -> tuple[bool, int]:
    return change.old is not None, change.place


def changes_of(log: SessionLog, steps: list[JudgedStep]) -> list[VerdictChange]:
    """Marks steps with their present verdicts; returns those that are new or revised, new ones first."""
    changes: list[VerdictChange] = []
    for place, code, before, after, thing in steps:
        mark = log.mark(place)
        if mark & CODE == code:
            continue
        raised = code >= HARMFUL and not mark & RAISED
        log.set_mark(place, mark & ~CODE | code | (RAISED if raised else 0))
        old = None if mark & CODE == UNJUDGED else mark & CODE
        final = bool(mark & FINAL)
        change: VerdictChange = built(
            VerdictChange, (place, old, code, raised, final, before, after, thing)
        )
        changes.append(change)
    if len(changes) > 1:
        changes.sort(key=_news_first)
    return changes


def reopen(log: SessionLog, changes: Sequence[VerdictChange], excess: int) -> int:
    """Takes back that steps are final which had been possibly harmful, and are harmful now for the first time.

    A harm that was counted at another step, and no longer is there, is the same harm: it stays counted once.

    Args:
        log: of the judgement.
        changes: of its verdicts.
        excess: the harms that were counted as final beyond those of final steps; less than 0 if late calls made harms.

    Returns:
        The excess from now on.
    """
    turned = [
        each for each in changes if each.final and _is_harm(each.old) != _is_harm(each.new)
    ]
    excess += sum(_is_harm(each.old) for each in turned)
    for change in turned:
        if not _is_harm(change.new):
            continue
        excess -= 1
        mark = log.mark(change.place)
        if excess < 0 and change.raised and mark & SUSPECTED:
            log.set_mark(change.place, mark & ~FINAL)
            excess += 1
    return excess


def _is_harm(code: int | None) -> bool:
    return code is not None and code >= HARMFUL


def is_final(mark: int) -> bool:
    """True if the verdict of a step with this mark was counted as final."""
    return bool(mark & FINAL)


def is_alarming(mark: int) -> bool:
    """True if a step with this mark is reported as harmful or as possibly harmful."""
    return bool(mark & POSSIBLE) or HARMFUL <= mark & CODE < UNJUDGED
