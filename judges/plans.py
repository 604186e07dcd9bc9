"""Which steps state a plan: a published rule, applied before a model is asked.

A step states a plan if it is
- a call of a planning tool, however its name is written: create_plan, make_plan, plan, planner, set_plan, todo_write, update_plan, update_todos,
  write_plan, write_todos, or
- a message of the agent with a line that labels a plan (`[PLAN]`, `<plan>`, a heading such as `## Updated plan`, `Plan:`),
  with a sentence that announces one ("here is the plan", "here is my updated plan", "I will follow this plan"), or with a
  checklist of two and more lines (`- [ ] ...`).

The first plan of an agent is its plan; each later one with another text is a replan. Its trigger is the failed call
nearest before it since the plan that it replaces; without one, the nearest call; without any, there is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from collector.transcripts.step import TranscriptStep

__all__ = ["PlanStep", "plans_of", "states_plan"]

_TOOLS: Final = frozenset(
    {"createplan", "makeplan", "plan", "planner", "setplan", "todowrite", "updateplan", "updatetodos", "writeplan", "writetodos"}
)  # fmt: skip
_WORDS: Final = r"(?:(?:the|my|an?|our|updated|revised|new|initial|high-level|step-by-step|action|detailed)\s+){0,3}"
_LABEL: Final = re.compile(
    rf"^[\s>*_]*(?:\[{_WORDS}plan\]|<plan>|\#+\s*{_WORDS}plan\b|{_WORDS}plan(?:\s+of\s+action)?[*_]*\s*:)",
    re.IGNORECASE | re.MULTILINE,
)
_SAID: Final = re.compile(
    rf"\b(?:here\s+is|here's|this\s+is|i\s+will\s+follow|i'll\s+follow)\s+(?:this\s+)?{_WORDS}plan\b",
    re.IGNORECASE,
)
_CHECKLIST: Final = re.compile(r"^\s*(?:[-*]|\d+[.)])\s*\[[ xX]\]\s", re.MULTILINE)
_SPEAKERS: Final = frozenset({"assistant", "ai", "model", "agent"})
_CHARACTERS_MAX: Final = 20_000
"""Characters of a message that are looked at."""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A step that states a plan."""

    step: str
    """Short id of the step."""
    agent: str
    is_replan: bool
    trigger: str | None
    """Short id of what may have made a replan necessary."""


def states_plan(step: TranscriptStep) -> bool:
    """Whether a step states a plan, by the rule above."""
    if step.is_call:
        return "".join(filter(str.isalnum, step.name)).lower() in _TOOLS
    if step.kind != "message" or step.name.lower() not in _SPEAKERS:
        return False
    text = step.text[:_CHARACTERS_MAX]
    return bool(_LABEL.search(text) or _SAID.search(text) or len(_CHECKLIST.findall(text)) > 1)


def plans_of(steps: Mapping[str, TranscriptStep]) -> list[PlanStep]:
    """The plans and replans of a transcript's steps, in their order."""
    found: list[PlanStep] = []
    last: dict[str, str] = {}
    since: dict[str, list[str]] = {}
    for id_, step in steps.items():
        if states_plan(step):
            if last.get(step.agent) != step.text:
                calls = since.get(step.agent, [])
                replan = step.agent in last
                trigger = _trigger(calls, steps) if replan else None
                found.append(PlanStep(id_, step.agent, replan, trigger))
            last[step.agent], since[step.agent] = step.text, []
        elif step.is_call:
            since.setdefault(step.agent, []).append(id_)
    return found


def _trigger(calls: list[str], steps: Mapping[str, TranscriptStep]) -> str | None:
    failed = [id_ for id_ in calls if steps[id_].failed]
    found = failed or calls
    return found[-1] if found else None
