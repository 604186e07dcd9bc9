"""Agents of real frameworks, with models that follow a script, judged by a real service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import pytest

from tests.end_to_end.service import Service, eventually


class Framework(NamedTuple):
    """An agent here, what it needs, and what its spans carry."""

    script: str
    packages: tuple[str, ...]
    through: str = ""
    """The instrumentation, where the script knows several."""
    arguments: bool = True
    empty: bool = True
    """False where a call without arguments says nothing of them."""
    errors: bool = True
    evidence: str = "executed"
    session: bool = True
    """False where no span names the session; then the process does."""
    prefix: str = ""
    """Before the names of tools, as the model knows them."""
    spec: str = "farm_rover"
    variables: Mapping[str, str] = MappingProxyType({})


OI = "openinference-instrumentation-"
OT = "opentelemetry-instrumentation-"
LANGSMITH = {
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_OTEL_ENABLED": "true",
    "LANGSMITH_OTEL_ONLY": "true",
    "LANGSMITH_API_KEY": "none",
}
ADK_CONTENT = {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
}
STRANDS_LATEST = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}

PYDANTIC_AI = Framework("run_pydantic_ai.py", ("pydantic-ai-slim",))
AGENTS = Framework(
    "run_openai_agents.py", ("openai-agents", OI + "openai-agents"), "openinference"
)
LANGCHAIN = Framework("run_langchain.py", ("langchain", OI + "langchain"), "openinference")
# Its own extra names the exporter that goes with it: beside any other pip searches for ten minutes.
STRANDS = Framework("run_strands.py", ("strands-agents[openai,otel]",))
ADK = Framework("run_google_adk.py", ("google-adk",), variables=ADK_CONTENT)
# The program that it starts comes with the SDK.
CLAUDE = Framework(
    "run_claude.py",
    ("claude-agent-sdk", OI + "claude-agent-sdk", "logfire"),
    prefix="mcp__farm__",
    spec="claude_rover",
    variables={"OTEL_SERVICE_NAME": "claude-rover"},
)
BARE = Framework(
    "run_openai.py",
    ("openai", OI + "openai"),
    "openinference",
    errors=False,
    evidence="requested",
    session=False,
)

FRAMEWORKS = {
    "pydantic-ai": PYDANTIC_AI,
    "pydantic-ai-version-2": PYDANTIC_AI._replace(through="2"),
    "openai-agents": AGENTS,
    "openai-agents-v2": AGENTS._replace(
        packages=("openai-agents", OT + "openai-agents-v2"), through="v2", session=False
    ),
    "openai-agents-traceloop": AGENTS._replace(
        packages=("openai-agents", OT + "openai-agents"), through="traceloop", session=False
    ),
    "langchain": LANGCHAIN,
    "langchain-traceloop": LANGCHAIN._replace(
        packages=("langchain", OT + "langchain"), through="traceloop"
    ),
    "langchain-langsmith": LANGCHAIN._replace(
        packages=("langchain", "langsmith[otel]"), through="langsmith", variables=LANGSMITH
    ),
    "langchain-two-instrumentations": LANGCHAIN._replace(
        packages=("langchain", OI + "langchain", OT + "langchain"),
        through="openinference traceloop",
    ),
    "langgraph": LANGCHAIN._replace(script="run_langgraph.py"),
    "langgraph-tool-node": LANGCHAIN._replace(
        script="run_langgraph.py", through="openinference toolnode"
    ),
    "smolagents": Framework("run_smolagents.py", ("smolagents", OI + "smolagents")),
    "strands": STRANDS,
    "strands-latest-conventions": STRANDS._replace(variables=STRANDS_LATEST),
    "agent-framework": Framework(
        "run_agent_framework.py",
        ("agent-framework-core", "agent-framework-openai"),
        session=False,
        variables={"ENABLE_INSTRUMENTATION": "true", "ENABLE_SENSITIVE_DATA": "true"},
    ),
    "google-adk": ADK,
    "google-adk-no-content": ADK._replace(arguments=False, variables={}),
    "google-adk-openinference": ADK._replace(
        packages=("google-adk", OI + "google-adk"),
        through="openinference",
        empty=False,
        variables={},
    ),
    "crewai": Framework("run_crewai.py", ("crewai", OI + "crewai")),
    "agno": Framework("run_agno.py", ("agno", "openai", OI + "agno")),
    "llama-index": Framework(
        "run_llama_index.py", ("llama-index-llms-openai-like", OI + "llama-index")
    ),
    "autogen": Framework(
        "run_autogen.py", ("autogen-agentchat", "autogen-ext", OI + "autogen-agentchat")
    ),
    "openai": BARE,
    "openai-traceloop": BARE._replace(packages=("openai", OT + "openai"), through="traceloop"),
    "openai-langfuse": BARE._replace(
        packages=("openai", "langfuse"), through="langfuse", session=True
    ),
    "traceloop-sdk": Framework("run_decorated.py", ("traceloop-sdk", "httpx"), "traceloop"),
    "langfuse": Framework("run_decorated.py", ("langfuse",), "langfuse"),
    "claude-agent-sdk": CLAUDE._replace(through="openinference"),
    "claude-agent-sdk-logfire": CLAUDE._replace(through="logfire"),
    "claude-agent-sdk-own": CLAUDE._replace(through="own", arguments=False),
    "mcp": Framework("run_mcp.py", ("mcp>=2",), arguments=False),
    "fastmcp": Framework("run_mcp.py", ("fastmcp",), "fastmcp", arguments=False),
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


def _judgement(service: Service, spec: str, session: str, calls: int) -> dict[str, Any]:
    """The session under the rover's task, once all its calls have come."""

    def probe() -> dict[str, Any] | None:
        answer = service.get(f"/api/v1/sessions/{quote(session, safe='')}")
        found = answer.json().get("sessions", []) if answer.status == 200 else []
        done = [each for each in found if each["spec"] == spec and each["calls"] >= calls]
        return done[0] if done else None

    return eventually(probe, 20)


def _variables(framework: Framework, session: str) -> dict[str, str]:
    found = {**framework.variables, "ROVER_THROUGH": framework.through}
    # The tools of one service either have spans or have none, so here each is a tenant.
    attributes = [f"service.namespace={framework.script}-{framework.through}"]
    if not framework.session:
        attributes.append(f"session.id={session}")
    found["OTEL_RESOURCE_ATTRIBUTES"] = ",".join(attributes)
    return found


def _arguments(framework: Framework, run: str) -> list[dict[str, Any] | None]:
    """The arguments of a run's calls, as its spans give them."""
    if not framework.arguments:
        return [None] * len(TOOLS[run])
    wanted = [ARGUMENTS[tool] for tool in TOOLS[run]]
    if run == "error":
        wanted[1] = STUCK
    return [each if each or framework.empty else None for each in wanted]


@pytest.mark.parametrize("run", TOOLS)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_is_judged_right(
    name: str, run: str, play: Callable[..., None], service: Service
) -> None:
    """Tools, arguments, errors, order and verdicts of a run are those of its script."""
    framework, session = FRAMEWORKS[name], f"{name}-{run}"
    if framework.prefix:
        session = str(uuid5(NAMESPACE_URL, session))  # it takes no others
    if run == "error" and not framework.errors:
        pytest.skip("its spans tell nothing of errors")
    variables = _variables(framework, session)
    play(framework.script, framework.packages, run, session, **variables)
    judgement = _judgement(service, framework.spec, session, len(TOOLS[run]))
    steps = [step for step in judgement["steps"] if step["kind"] != "control"]

    assert [step["tool"] for step in steps] == [framework.prefix + tool for tool in TOOLS[run]]
    assert {step["evidence"] for step in steps} == {framework.evidence}
    assert judgement["accepting"]
    harmful = [(step["tool"], step["reason"]) for step in steps if step["kind"] == "harmful"]
    early = (f"{framework.prefix}water", "out_of_order")
    assert harmful == ([early] if run == "harmful" else [])
    assert [step["error"] for step in steps] == [
        run == "error" and index == 1 for index in range(len(steps))
    ]
    assert [step["arguments"] for step in steps] == _arguments(framework, run)
