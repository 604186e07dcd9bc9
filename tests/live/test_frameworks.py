"""Agents of real frameworks, with models that follow a script, judged by a real service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.end_to_end.service import Service, eventually


class Framework(NamedTuple):
    """An agent here, what it needs, and what its spans carry."""

    script: str
    packages: tuple[str, ...]
    arguments: bool = True


OI = "openinference-instrumentation-"

FRAMEWORKS = {
    "pydantic-ai": Framework("run_pydantic_ai.py", ("pydantic-ai-slim",)),
    "openai-agents": Framework("run_openai_agents.py", ("openai-agents", OI + "openai-agents")),
    "langchain": Framework("run_langchain.py", ("langchain", OI + "langchain")),
    "smolagents": Framework("run_smolagents.py", ("smolagents", OI + "smolagents")),
    "mcp": Framework("run_mcp.py", ("mcp>=2",), arguments=False),
}

GOLDEN = ["unlock_safety", "move", "scan", "open_valve", "water", "log"]
TOOLS = {
    "golden": GOLDEN,
    "harmful": [*GOLDEN[:2], "water", *GOLDEN[2:]],
    "error": [GOLDEN[0], "move", *GOLDEN[1:]],
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "unlock_safety": {},
    "move": {"x": 3, "y": 4},
    "scan": {"area": "field 3"},
    "open_valve": {"valve": "V3"},
    "water": {"field": 3, "liters": 10},
    "log": {"message": "watered field 3"},
}
STUCK = {"x": 99, "y": 99}

pytestmark = pytest.mark.timeout(900)


def _judgement(service: Service, session: str, calls: int) -> dict[str, Any]:
    """The session under the rover's task, once all its calls have come."""

    def probe() -> dict[str, Any] | None:
        answer = service.get(f"/api/v1/sessions/{quote(session, safe='')}")
        found = answer.json().get("sessions", []) if answer.status == 200 else []
        done = [
            each for each in found if each["spec"] == "farm_rover" and each["calls"] >= calls
        ]
        return done[0] if done else None

    return eventually(probe, 20)


@pytest.mark.parametrize("run", TOOLS)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_is_judged_right(
    name: str, run: str, play: Callable[..., None], service: Service
) -> None:
    """Tools, arguments, errors, order and verdicts of a run are those of its script."""
    framework, session = FRAMEWORKS[name], f"{name}-{run}"
    play(framework.script, framework.packages, run, session)
    judgement = _judgement(service, session, len(TOOLS[run]))
    steps = [step for step in judgement["steps"] if step["kind"] != "control"]

    assert [step["tool"] for step in steps] == TOOLS[run]
    assert {step["evidence"] for step in steps} == {"executed"}
    assert judgement["accepting"]
    harmful = [(step["tool"], step["reason"]) for step in steps if step["kind"] == "harmful"]
    assert harmful == ([("water", "out_of_order")] if run == "harmful" else [])
    assert [step["error"] for step in steps] == [
        run == "error" and index == 1 for index in range(len(steps))
    ]
    wanted = [ARGUMENTS[tool] for tool in TOOLS[run]]
    if run == "error":
        wanted[1] = STUCK
    if not framework.arguments:
        wanted = [None] * len(steps)  # type: ignore[list-item]
    assert [step["arguments"] for step in steps] == wanted
