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


FIRST = {
    "a user's message": ("pydantic-ai", _chat(USER)),
    "behind a system's": ("pydantic-ai", _chat({"role": "system", "parts": []}, USER)),
    "told by role": (RESPONSES, LLM),
    "a text that quotes the sign": (
        RESPONSES,
        LLM | {"output.value": json.dumps({"text": '"previous_response_id": "r"'})},
    ),
}
NO_PROOF = {
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


def test_a_span_that_lost_attributes_proves_nothing(wire: Any) -> None:
    """One of them may have held an earlier turn."""
    assert not _is_fresh(wire.span("chat", LLM, scope=RESPONSES, dropped=1))


def _is_fresh(span: Any) -> bool:
    outputs = Plans(SESSION_KEYS, ()).of(span).outputs
    at = outputs.freshness if outputs is not None else None
    return at is not None and at.is_fresh(span)
