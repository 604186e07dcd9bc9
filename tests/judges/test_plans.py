"""The published rule of plans."""

from __future__ import annotations

import pytest

from collector.transcripts.step import TranscriptStep
from judges.plans import plans_of, states_plan

PLANS = [
    "[PLAN]:\n1. search",
    "Here is the plan of action that I will follow to solve the task:\n1. a",
    "## Updated plan\n- a",
    "**Plan:**\n1. look\n2. answer",
    "<plan>look</plan>",
    "- [ ] look\n- [x] answer",
    "I will follow this plan: look",
]
OTHERS = [
    "The plane leaves at nine.",
    "I have no plan yet, let me look.",
    "Planning permission was refused.",
    "1. look\n2. answer",
    "- [ ] one box alone",
]


def message(text: str, role: str = "assistant", agent: str = "a") -> TranscriptStep:
    return TranscriptStep("message", role, text, agent)


def call(tool: str, failed: bool = False, text: str = "", agent: str = "a") -> TranscriptStep:
    return TranscriptStep("call", tool, text, agent, failed=failed)


@pytest.mark.parametrize("text", PLANS)
def test_a_stated_plan_is_found(text: str) -> None:
    """A label, an announcement or a checklist of the agent states a plan; the same text of a user does not."""
    assert states_plan(message(text))
    assert not states_plan(message(text, "user"))


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_state_none(text: str) -> None:
    """The word alone, and lists of other things, are no plan."""
    assert not states_plan(message(text))


def test_planning_tools_state_plans() -> None:
    """A call of a tool that keeps a plan states one, however its name is written."""
    assert all(states_plan(call(tool)) for tool in ("TodoWrite", "write_todos", "update_plan"))
    assert not states_plan(call("plan_route_to"))


def test_replans_have_their_trigger() -> None:
    """A later plan with another text is a replan; the last failed call since the plan is its trigger, or the last call."""
    first, second, third = (message(f"Plan: {n}") for n in "abc")
    steps = [first, call("x", failed=True), call("y"), first, call("x", failed=True), call("y"), second, call("z"), third]  # fmt: skip
    found = plans_of({f"s{n}": step for n, step in enumerate(steps, 1)})
    assert [(plan.step, plan.is_replan, plan.trigger) for plan in found] == [
        ("s1", False, None),
        ("s7", True, "s5"),
        ("s9", True, "s8"),
    ]
    assert plans_of({"s1": call("x")}) == []
