"""The harmful calls among those that a judgement keeps one by one: for lists and their filters.

Idea: the marks of the log say which calls are harmful, and why, in one byte each. So a judgement without harm costs
one look at its tally, and another one a pass over its marks. Only a spec whose severity depends on states has its
log stepped again. Calls that are folded are in every number, but no longer here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from monitor.records import Reason
from monitor.session.judge import CODES, HARMFUL
from monitor.session.judgement import Judgement
from monitor.session.step_marks import CODE, UNJUDGED

__all__ = ["Harm", "harms", "last_harm", "tool_numbers"]


class Harm(NamedTuple):
    """One harmful call."""

    step: int
    tool: int
    """The number of its tool's name."""
    reason: Reason
    severity: str


def harms(judgement: Judgement, text_of: Callable[[int], str]) -> Iterator[Harm]:
    """The harmful calls that are kept, the latest first; `text_of` gives the name of a tool's number."""
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
    """The latest harmful call that is kept."""
    return next(harms(judgement, text_of), None)


def tool_numbers(judgement: Judgement) -> set[int]:
    """The numbers of the tools of the calls that are kept."""
    return {low | high << 8 for low, high in judgement.log.tools()}


def _states(judgement: Judgement) -> dict[int, str | None]:
    """By place of a harmful call, the state in which it was made."""
    state = judgement.judge.state
    return {step.place: state(step.before) for step in judgement.walk() if step.code >= HARMFUL}
