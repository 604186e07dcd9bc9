"""Whether a model's request begins a conversation: on real captures, and what proves nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.decode.json import otlp_json
from collector.dialects.choose import SESSION_KEYS, Plans

CAPTURES = Path(__file__).parents[3] / ".." / "shared" / "captures"
KNOWN = (
    "langchain-openinference",
    "langchain-traceloop",
    "openai-agents-openinference",
    "pydantic-ai",
)
"""Captures whose instrumentation writes what its models are given."""

captures = pytest.mark.skipif(not CAPTURES.is_dir(), reason="no captures beside the repository")


def _requests(path: Path) -> list[list[bool]]:
    """By trace, whether each of its model requests begins a conversation, in start order."""
    plans = Plans(SESSION_KEYS, ())
    found: dict[bytes, list[tuple[int, bool]]] = {}
    for line in path.read_bytes().splitlines():
        for span in otlp_json.decode(line).spans:
            outputs = plans.of(span).outputs
            if outputs is not None:
                at = outputs.freshness
                fresh = at is not None and at.is_fresh(span)
                found.setdefault(span.trace_id, []).append((span.start_ns, fresh))
    return [[fresh for _, fresh in sorted(each)] for each in found.values()]


@captures
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("run", ["golden", "harmful", "error", "parallel"])
def test_the_first_request_of_a_capture_is_known_as_one(name: str, run: str) -> None:
    """Only the first request of a capture is fresh; later ones hold the turns before them."""
    (requests,) = _requests(CAPTURES / name / f"{run}.otlp.jsonl")

    assert requests == [True] + [False] * (len(requests) - 1)


@captures
@pytest.mark.parametrize("name", KNOWN)
def test_a_second_turn_of_a_capture_begins_no_conversation(name: str) -> None:
    """Its first request holds the first turn."""
    first, second = _requests(CAPTURES / name / "session.otlp.jsonl")

    assert (first[0], any(second)) == (True, False)


@captures
def test_a_capture_without_messages_proves_nothing() -> None:
    """The instrumentation writes no message that a model is given."""
    (requests,) = _requests(CAPTURES / "otel-genai-semconv" / "golden.otlp.jsonl")

    assert not any(requests)


USER = {"role": "user", "parts": [{"type": "text", "content": "water field 3"}]}
RESPONSES = "openinference.instrumentation.openai_agents"
CHAT: dict[str, Any] = {"gen_ai.operation.name": "chat"}
LLM: dict[str, Any] = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "user",
    "output.value": '{"previous_response_id": null, "conversation": null}',
}


def _chat(*messages: Any) -> dict[str, Any]:
    return {**CHAT, "gen_ai.input.messages": json.dumps(messages)}


def _google(*contents: Any) -> dict[str, Any]:
    """What ADK hands to Google's client."""
    return {"gcp.vertex.agent.llm_request": json.dumps({"model": "m", "contents": contents})}


def _vercel(*messages: Any) -> dict[str, Any]:
    return {
        "ai.operationId": "ai.streamText.doStream",
        "ai.prompt.messages": json.dumps(messages),
    }


ASKED = {"role": "user", "parts": [{"text": "water field 3"}]}
FIRST = {
    "ADK": ("gcp.vertex.agent", _chat(USER)),
    "ADK 1": ("gcp.vertex.agent", _google(ASKED)),
    "ADK under OpenInference": ("openinference.instrumentation.google_adk", LLM),
    "AI SDK": (
        "ai",
        _vercel(
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        ),
    ),
    "AI SDK 7": ("gen_ai", _chat(USER)),
    "LiteLLM": ("openinference.instrumentation.litellm", LLM),
    "LangChain.js": ("@arizeai/openinference-instrumentation-langchain", LLM),
    "a user's message": ("pydantic-ai", _chat(USER)),
    "behind a system's": ("pydantic-ai", _chat({"role": "system", "parts": []}, USER)),
    "told by role": (RESPONSES, LLM),
    "a text that quotes the sign": (
        RESPONSES,
        LLM | {"output.value": json.dumps({"text": '"previous_response_id": "r"'})},
    ),
}
NO_PROOF = {
    "ADK: an earlier answer": (
        "gcp.vertex.agent",
        _google(ASKED, {"role": "model", "parts": [{"text": "done"}]}, ASKED),
    ),
    "ADK: an earlier result": (
        "gcp.vertex.agent",
        _google(ASKED, {"role": "user", "parts": [{"function_response": {"name": "move"}}]}),
    ),
    "ADK: what another agent did": (
        "gcp.vertex.agent",
        _google({"role": "user", "parts": [{"text": "For context:"}, {"text": "[a] said: x"}]}),
    ),
    "ADK: contents are off": ("gcp.vertex.agent", {"gcp.vertex.agent.llm_request": "{}"}),
    "AI SDK: a later turn": (
        "ai",
        _vercel(
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool-call"}]},
            {"role": "tool", "content": [{"type": "tool-result"}]},
        ),
    ),
    "an assistant's message": ("pydantic-ai", _chat(USER, {"role": "assistant", "parts": []})),
    "a role that nobody knows": ("pydantic-ai", _chat(USER, {"role": "memory", "parts": []})),
    "no user's message": ("pydantic-ai", _chat({"role": "system", "parts": []})),
    "a user's message with a result": (
        "pydantic-ai",
        _chat({"role": "user", "parts": [{"type": "tool_call_response"}]}),
    ),
    "no list": ("pydantic-ai", {**CHAT, "gen_ai.input.messages": '"water field 3"'}),
    "a cut text": ("pydantic-ai", {**CHAT, "gen_ai.input.messages": '[{"role":"user"'}),
    "an attribute that names what came before": (
        "pydantic-ai",
        _chat(USER) | {"gen_ai.request.previous_response_id": "r"},
    ),
    "a client of an API that keeps conversations": (
        "opentelemetry.instrumentation.openai",
        _chat(USER),
    ),
    "a previous response": (
        RESPONSES,
        LLM | {"llm.invocation_parameters": '{"previous_response_id": "resp_1"}'},
    ),
    "a conversation": (RESPONSES, LLM | {"output.value": '{"conversation":{"id":"conv_1"}}'}),
    "hidden parameters and answer": (
        RESPONSES,
        {key: value for key, value in LLM.items() if key != "output.value"},
    ),
}


@pytest.mark.parametrize(("scope", "attributes"), FIRST.values(), ids=FIRST)
def test_a_first_request_is_proven(wire: Any, scope: str, attributes: dict[str, Any]) -> None:
    """It holds only a system's and a user's messages, and continues nothing."""
    assert _is_fresh(wire.span("chat", attributes, scope=scope))


@pytest.mark.parametrize(("scope", "attributes"), NO_PROOF.values(), ids=NO_PROOF)
def test_what_may_go_on_proves_nothing(
    wire: Any, scope: str, attributes: dict[str, Any]
) -> None:
    """A request that may continue a conversation is not fresh."""
    assert not _is_fresh(wire.span("chat", attributes, scope=scope))


STRANDS = "strands.telemetry.tracer"
ANSWERED = ("gen_ai.choice", {"message": "[]", "finish_reason": "tool_use"})


def _told(role: str, content: Any = "") -> tuple[str, dict[str, Any]]:
    return f"gen_ai.{role}.message", {"content": json.dumps(content)}


def _details(*messages: Any) -> tuple[str, dict[str, Any]]:
    told = {"gen_ai.input.messages": json.dumps(messages)}
    return "gen_ai.client.inference.operation.details", told


BY_EVENTS = {
    "a user's": (True, [_told("user", [{"text": "hi"}]), ANSWERED]),
    "behind a system's": (True, [_told("system"), _told("user"), ANSWERED]),
    "all in one": (True, [_details(USER)]),
    "no message": (False, [ANSWERED]),
    "an assistant's": (False, [_told("user"), _told("assistant"), _told("user")]),
    "a tool's": (False, [_told("user"), _told("tool")]),
    "a user's with a result": (False, [_told("user", [{"toolResult": {}}])]),
    "all in one, with a later turn": (False, [_details(USER, {"role": "assistant"}, USER)]),
}


@pytest.mark.parametrize(("fresh", "events"), BY_EVENTS.values(), ids=BY_EVENTS)
def test_messages_may_be_events(wire: Any, fresh: bool, events: Any) -> None:
    """As Strands writes them, in its two forms."""
    assert _is_fresh(wire.span("chat", CHAT, scope=STRANDS, events=events)) is fresh
    assert not _is_fresh(wire.span("chat", CHAT, scope="another", events=events))


def test_a_span_that_lost_attributes_proves_nothing(wire: Any) -> None:
    """One of them may have held an earlier turn."""
    assert not _is_fresh(wire.span("chat", LLM, scope=RESPONSES, dropped=1))


def _is_fresh(span: Any) -> bool:
    outputs = Plans(SESSION_KEYS, ()).of(span).outputs
    at = outputs.freshness if outputs is not None else None
    return at is not None and at.is_fresh(span)
