"""Guards in real frameworks: a denied call is not made, the model learns why, and the run finishes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import pytest

from tests.end_to_end.service import ROOT
from tests.live.conftest import AGENTS, RUN_SECONDS
from tests.offrails_guard.double import DENIED, Double, running

Python = Callable[[tuple[str, ...]], Path]


class Framework(NamedTuple):
    """An agent here, and what it needs."""

    script: str
    packages: tuple[str, ...]
    through: str = ""
    prefix: str = ""
    """Before the names of tools, as the model knows them."""


FRAMEWORKS = {
    "openai-agents": Framework("guard_openai_agents.py", ("openai-agents", "httpcore")),
    "langchain": Framework("guard_langchain.py", ("langchain", "httpcore")),
    "langchain-async": Framework("guard_langchain.py", ("langchain", "httpcore"), "async"),
    "langgraph-node": Framework("guard_langchain.py", ("langchain", "httpcore"), "node"),
    "pydantic-ai": Framework("guard_pydantic_ai.py", ("pydantic-ai-slim", "httpcore")),
    "claude-agent-sdk": Framework(
        "guard_claude.py", ("claude-agent-sdk", "httpcore"), "sdk", "mcp__farm__"
    ),
}

RAN = ["unlock_safety", "move", "scan", "open_valve", "water", "log"]
OUTCOMES = [(f"d{n}", "skipped" if n == 3 else "ran") for n in range(1, 8)]
"""Of the seven calls that are asked for: the third is denied, and not made."""

pytestmark = pytest.mark.timeout(900)


class _Farm(Double):
    """Water is denied until the valve is open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: set[str] = set()

    def decide(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "calls" in asked:
            [call] = asked["calls"]
            return {"decisions": [self.decide({"session": asked["session"], **call})]}
        tool = asked["tool"].removeprefix("mcp__farm__")
        if tool == "open_valve":
            self.open.add(asked["session"])
        return super().decide(
            {**asked, "tool": "scan" if asked["session"] in self.open else tool}
        )


@pytest.fixture
def farm() -> Iterator[Double]:
    with running(double=_Farm()) as found:
        yield found


def play(
    python: Python, framework: Framework, session: str, **variables: str
) -> dict[str, Any]:
    """What the agent prints at its end."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "PYTHON"))}
    done = subprocess.run(
        [str(python(framework.packages)), str(AGENTS / framework.script)],
        env={
            **clean,
            "PYTHONPATH": str(ROOT),
            "ROVER_RUN": "harmful",
            "ROVER_SESSION": session,
            "ROVER_THROUGH": framework.through,
            "OPENAI_API_KEY": "none",
            "OTEL_TRACES_EXPORTER": "none",
            "no_proxy": "127.0.0.1",
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("transport", ["stdio", "handshake", "modern"])
def test_a_denied_call_to_an_mcp_server_is_prevented(
    transport: str, python: Python, farm: Double
) -> None:
    """The same by the proxy, between the official client and the official server."""
    framework = Framework("guard_mcp.py", ("mcp>=2",), transport)
    # Without a handshake there is no session in the protocol.
    session = "--session s1" if transport == "modern" else ""
    proxy = f"{sys.executable} -m collector mcp-proxy --url {farm.url} --deadline 20 {session}"
    played = play(python, framework, "", PROXY=proxy)

    assert played["ran"] == RAN
    assert [DENIED in each for each in played["told"]] == [n == 2 for n in range(7)]
    assert all(told.startswith("ok ") for n, told in enumerate(played["told"]) if n != 2)
    assert len({farm.asked()["session"] for _ in range(7)}) == 1
    assert sorted(farm.outcome() for _ in range(7)) == OUTCOMES


def test_a_denied_call_of_claude_code_is_prevented(python: Python, farm: Double) -> None:
    """The same by the hook that is a command in Claude Code's settings."""
    framework = FRAMEWORKS["claude-agent-sdk"]._replace(through="hook")
    session = str(uuid5(NAMESPACE_URL, "hook"))
    command = f"{sys.executable} -m collector hook claude-code --url {farm.url} --deadline 20"
    played = play(python, framework, session, GUARD_URL=farm.url, HOOK=command)

    assert played["ran"] == RAN
    assert [DENIED in each for each in played["told"]] == [n == 2 for n in range(7)]
    assert played["answer"] == "Field 3 has been watered."
    assert {farm.asked()["session"] for _ in range(7)} == {session}
    assert sorted(farm.outcome() for _ in range(7)) == OUTCOMES


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_denied_call_is_prevented(name: str, python: Python, farm: Double) -> None:
    """Watering before the valve is open does not run, the model reads why, and the task is finished."""
    framework = FRAMEWORKS[name]
    session = str(uuid5(NAMESPACE_URL, name))
    played = play(python, framework, session, GUARD_URL=farm.url)

    assert played["ran"] == RAN
    assert [DENIED in each for each in played["told"]] == [n == 2 for n in range(7)]
    assert played["answer"] == "Field 3 has been watered."
    asked = [farm.asked() for _ in range(7)]
    assert [each["tool"].removeprefix(framework.prefix) for each in asked] == [
        *RAN[:2], "water", *RAN[2:],
    ]  # fmt: skip
    assert {each["session"] for each in asked} == {session}
    assert asked[1]["arguments"] == {"x": 3, "y": 4}
    assert all(each["call_id"] for each in asked)
    assert sorted(farm.outcome() for _ in range(7)) == OUTCOMES
