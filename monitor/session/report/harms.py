"""The harmful calls in the log of a judgement, for lists and their filters.

Idea: the mark of each step says in one byte whether the call is harmful, and why. So a judgement
without harm costs one look at its tally, any other one pass over its marks. The log is stepped again
only if the spec's severity depends on states.

Folded calls are counted in every score, but are not listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from monitor.records import NamedThing, Reason
from monitor.session.judge.judge import CODES, HARMFUL
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import CODE, UNJUDGED, JudgedStep

__all__ = ["Harm", "explanation", "harmed_thing", "harms", "last_harm"]


class Harm(NamedTuple):
    """One harmful call."""

    step: int
    tool: int
    """The number of the tool."""
    reason: Reason
    severity: str


def harms(judgement: Judgement, text_of: Callable[[int], str]) -> Iterator[Harm]:
    """The harmful calls of the log, the latest first. `text_of` maps the number of a tool to its name."""
    spec = judgement.judge.spec
    if spec.kind == "reference" or not judgement.head.tally.harmful_steps:
        return
    log, severity = judgement.log, spec.severity
    states = _states(judgement) if severity.states else {}
    marks = log.marks()
    for place in range(len(marks) - 1, -1, -1):
        code = marks[place] & CODE
        reason = CODES[code][1] if HARMFUL <= code < UNJUDGED else None
        if reason is not None:
            tool = log.tool(place)
            level = severity.of(text_of(tool), states.get(place), reason)
            yield Harm(judgement.folded + place + 1, tool, reason, level)


def last_harm(judgement: Judgement, text_of: Callable[[int], str]) -> Harm | None:
    """The latest harmful call of the log; None if there is none."""
    return next(harms(judgement, text_of), None)


def explanation(judgement: Judgement, step: JudgedStep) -> str:
    """Why a step is harmful; "" if it is not."""
    reason = CODES[step.code][1] if step.code >= HARMFUL else None
    if reason is None:
        return ""
    texts = judgement.log.texts(step.place) if reason is Reason.ARGUMENT_MISMATCH else None
    token = judgement.token(step.place)
    why = (texts.note if texts is not None else "") or judgement.judge.explanation(
        step.before, token, reason
    )
    if step.thing is None:
        return why
    # Loaded with the first spec that has things.
    from monitor.session.things.thing_words import thing_explanation

    return thing_explanation(judgement, step, why)


def harmed_thing(judgement: Judgement, key: bytes | None) -> NamedThing | None:
    """The thing of a verdict as it is shown; None for none."""
    if key is None:
        return None
    from monitor.session.things.thing_words import named_thing

    return named_thing(judgement, key)


def _states(judgement: Judgement) -> dict[int, str | None]:
    """Place of each harmful call -> the state before it."""
    state = judgement.judge.state
    return {step.place: state(step.before) for step in judgement.walk() if step.code >= HARMFUL}
