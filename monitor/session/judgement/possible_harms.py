"""Calls that only the plain reading calls harmful: what is told of them, and what would make them none.

Idea: while the wide reading is the head, a call that the plain one calls harmful is *possibly* harmful. The mark of a step
notes whether it was told so, so that only news are told.

Example: an approval may be missing before `pay`. The plain reading calls `pay` harmful, the wide one does not: it is
told as possibly harmful. The approval arrives, and the possible harm is withdrawn.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import NamedTuple

from monitor.automaton.position import Position
from monitor.session.judge.judge import HARMFUL
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import CODE, POSSIBLE, SUSPECTED, JudgedStep
from monitor.visibility.cause import FACTS
from monitor.visibility.words import DOUBTED_CALLS

__all__ = ["Suspicion", "is_certain_call", "possible_harms", "suspicions", "unless"]


class Suspicion(NamedTuple):
    """A possible harm that is reported or withdrawn."""

    step: JudgedStep
    """The step by the plain reading; if withdrawn, by the reading that counts."""
    first: bool
    """True if the call is reported so for the first time."""
    withdrawn: bool


def possible_harms(judgement: Judgement) -> list[JudgedStep]:
    """Calls that are harmful in the plain reading, but not in the wide one, which counts.

    The list is empty if a cause says that this is no news (`Fact.told`).
    """
    if not judgement.swapped or not judgement.sight.told:
        return []
    mark = judgement.log.mark
    return [
        step
        for step in judgement.steps_of(wide=False)
        if step.code >= HARMFUL and mark(step.place) & CODE < HARMFUL
    ]


def suspicions(judgement: Judgement, again: Collection[bytes] = ()) -> list[Suspicion]:
    """New possible harms, and those to withdraw. Marks the steps as reported.

    `again`: span ids of steps whose verdicts are told anew. Those that are possible harms are told as such.
    """
    judgement.suspicious = False
    log, found = judgement.log, {step.place: step for step in possible_harms(judgement)}
    gone = _unmark(judgement, found) if judgement.suspected else set()
    news = [
        Suspicion(step, first=False, withdrawn=True)
        for step in (judgement.walk() if gone else ())
        if step.place in gone
    ]
    for place, step in found.items():
        mark = log.mark(place)
        if not mark & POSSIBLE or log.span_id(place) in again:
            news.append(Suspicion(step, first=not mark & SUSPECTED, withdrawn=False))
            log.set_mark(place, mark | POSSIBLE | SUSPECTED)
    judgement.suspected = len(found)
    return news


def _unmark(judgement: Judgement, found: Container[int]) -> set[int]:
    """Unmarks former possible harms; returns the places of those that are not harmful now."""
    log, gone = judgement.log, set()
    for place in range(len(log)):
        mark = log.mark(place)
        if mark & POSSIBLE and place not in found:
            log.set_mark(place, mark & ~POSSIBLE)
            if mark & CODE < HARMFUL:
                gone.add(place)
    return gone


def is_certain_call(judgement: Judgement, place: int, before: Position) -> bool:
    """False if a harmful call is allowed in some reading, in which an earlier call is the harm."""
    if not judgement.judge.is_certain_call(before, judgement.token(place)):
        return False
    if judgement.swapped:
        return any(
            step.place == place and step.code >= HARMFUL
            for step in judgement.steps_of(wide=False)
        )
    if not judgement.is_doubtful():
        return True
    return all(
        judgement.judge.is_certain_call(step.before, judgement.token(place))
        for step in judgement.steps_of(wide=True)
        if step.place == place
    )


def unless(judgement: Judgement) -> tuple[str, ...]:
    """What would make the possible harms none: causes of gaps, and `DOUBTED_CALLS`."""
    causes = tuple(
        each.value
        for each in judgement.sight.causes
        if FACTS[each].told and not FACTS[each].sure
    )
    return (*causes, DOUBTED_CALLS) if judgement.doubts else causes
