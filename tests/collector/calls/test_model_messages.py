"""What models ask for and are given is read wherever a framework writes it: in events, and in a framework's own JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest

from collector.dialects.model_messages.event_messages import (
    answered_in_events,
    given_in_events,
)
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.collector.conftest import BASE, SECOND

TASK = """
id: shop
match: {service.name: svc}
alphabet: {look: {tool: look_up}, check: {tool: check}, pay: {tool: pay}}
golden: [[look, check, pay]]
"""
IN = {"gen_ai.conversation.id": "s"}
CHAT = {"gen_ai.operation.name": "chat"}

Messages = Sequence[tuple[str, str]]
"""Calls: (id, tool) each."""
Form = Callable[[Messages, Messages], tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]]
"""Calls whose results a model is given, and calls that it asks for -> attributes, events."""


def _strands(given: Messages, asked: Messages) -> Any:
    results = [{"toolResult": {"toolUseId": id_, "status": "success"}} for id_, _ in given]
    uses = [{"toolUse": {"toolUseId": id_, "name": tool, "input": {}}} for id_, tool in asked]
    return CHAT, [
        ("gen_ai.user.message", {"content": json.dumps([{"text": "buy"}])}),
        ("gen_ai.tool.message", {"content": json.dumps(results)}),
        ("gen_ai.choice", {"finish_reason": "tool_use", "message": json.dumps(uses)}),
    ]


def _strands_latest(given: Messages, asked: Messages) -> Any:
    results = [{"type": "tool_call_response", "id": id_, "response": []} for id_, _ in given]
    calls = [{"type": "tool_call", "id": i, "name": t, "arguments": {}} for i, t in asked]
    return CHAT, [
        (
            "gen_ai.client.inference.operation.details",
            {f"gen_ai.{side}.messages": json.dumps([{"role": "any", "parts": parts}])},
        )
        for side, parts in (("input", results), ("output", calls))
    ]


def _adk_1(given: Messages, asked: Messages) -> Any:
    results = [{"function_response": {"id": i, "name": t, "response": {}}} for i, t in given]
    calls = [{"function_call": {"id": id_, "name": tool, "args": {}}} for id_, tool in asked]
    return {
        "gcp.vertex.agent.llm_request": json.dumps({"contents": [{"parts": results}]}),
        "gcp.vertex.agent.llm_response": json.dumps({"content": {"parts": calls}}),
    }, []


def _langsmith(given: Messages, asked: Messages) -> Any:
    results = [{"kwargs": {"type": "tool", "tool_call_id": id_}} for id_, _ in given]
    calls = [{"name": t, "args": {}, "id": i, "type": "tool_call"} for i, t in asked]
    answer = {"generations": [[{"message": {"kwargs": {"tool_calls": calls}}}]]}
    return {
        "langsmith.span.kind": "llm",
        "gen_ai.prompt": json.dumps({"messages": [results]}),
        "gen_ai.completion": json.dumps(answer),
    }, []


def _langfuse_anthropic(given: Messages, asked: Messages) -> Any:
    results = [{"type": "tool_result", "tool_use_id": id_} for id_, _ in given]
    calls = [{"type": "tool_use", "id": i, "name": t, "input": {}} for i, t in asked]
    return {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": json.dumps([{"role": "user", "content": results}]),
        "langfuse.observation.output": json.dumps({"role": "assistant", "content": calls}),
    }, []


FORMS: Mapping[str, tuple[str, Form]] = {
    "strands": ("strands.telemetry.tracer", _strands),
    "strands_latest": ("strands.telemetry.tracer", _strands_latest),
    "adk_1": ("gcp.vertex.agent", _adk_1),
    "langsmith": ("langsmith", _langsmith),
    "langfuse_anthropic": ("langfuse-sdk", _langfuse_anthropic),
}

each_form = pytest.mark.parametrize(("scope", "form"), FORMS.values(), ids=FORMS)


def _spec() -> Spec:
    found, findings = compile_text(TASK, "spec.yaml")
    assert found is not None, findings
    return found


def _model(
    wire: Any, form: Form, scope: str, at: float, given: Messages, asked: Messages
) -> Any:
    attributes, events = form(given, asked)
    return wire.span(
        "chat", {**attributes, **IN}, events=events, scope=scope, parent="run", start=at, end=at + 0.5,
    )  # fmt: skip


def _tool(wire: Any, tool: str, start: float, call_id: str) -> Any:
    more = {"start": start, "end": start + 0.5, "call_id": call_id, "attributes": IN}
    return wire.tool(tool, id=tool, parent="run", **more)


def _harmful(found: Any) -> list[tuple[str, str]]:
    found.monitor.tick(BASE + 3600 * SECOND)
    return [(step["tool"], step["kind"]) for step in found.steps() if step["kind"] == "harmful"]


@each_form
def test_calls_of_one_answer_have_no_order_wherever_it_is_written(
    wire: Any, bench: Any, scope: str, form: Form
) -> None:
    """Parallel tools that run one after the other are right in any order, if the answer that asked for them is on the wire."""
    asked = [("c1", "pay"), ("c2", "check")]
    spans = [
        _tool(wire, "look_up", 1, "c0"),
        _model(wire, form, scope, 2, [("c0", "look_up")], asked),
        _tool(wire, "pay", 4, "c1"),
        _tool(wire, "check", 6, "c2"),
    ]
    for order in permutations(spans):
        assert not _harmful(bench([_spec()]).send(*order))
    assert _harmful(bench([_spec()], by_answer=False).send(*spans))


@each_form
def test_a_result_that_a_model_is_given_tells_of_its_call_wherever_it_is_written(
    wire: Any, bench: Any, scope: str, form: Form
) -> None:
    """`check` leaves no span, beside tools that do: the next request holds its result, so it was called."""
    spans = [
        _tool(wire, "look_up", 1, "c0"),
        _model(wire, form, scope, 2, [("c0", "look_up")], [("c1", "check")]),
        _model(wire, form, scope, 4, [("c0", "look_up"), ("c1", "check")], [("c2", "pay")]),
        _tool(wire, "pay", 6, "c2"),
    ]
    found = bench([_spec()]).send(*spans)
    assert not _harmful(found)
    assert found.tools() == ["look_up", "check", "pay"]
    del spans[1:3]
    assert _harmful(bench([_spec()]).send(*spans)) == [("pay", "harmful")]


def test_texts_of_people_in_events_are_no_messages(wire: Any) -> None:
    """A person's plain text, an event of something else and a span without events hold neither requests nor results."""
    spoken = [
        ("gen_ai.user.message", {"content": '"toolResult": {"toolUseId": "c"}'}),
        ("gen_ai.choice", {"message": "toolUse"}),
        ("exception", {"content": "[]", "message": "[]"}),
    ]
    for events in ([], spoken):
        span = wire.span("chat", CHAT, events=events)
        assert (given_in_events(span), answered_in_events(span)) == ("", "")


@pytest.mark.parametrize("said", ["[urgent] buy", "{name} buys", '[{"text": "cut'])
def test_a_text_that_looks_like_json_hides_no_message(wire: Any, said: str) -> None:
    """A person's or a model's text may begin with a bracket: the messages beside it are read all the same."""
    result, use = '[{"toolResult": {"toolUseId": "c"}}]', '[{"toolUse": {"toolUseId": "d"}}]'
    events = [
        ("gen_ai.user.message", {"content": said}),
        ("gen_ai.tool.message", {"content": result}),
        ("gen_ai.choice", {"message": said}),
        ("gen_ai.choice", {"message": use}),
    ]
    span = wire.span("chat", CHAT, events=events)
    assert json.loads(given_in_events(span)) == [json.loads(result)]
    assert json.loads(answered_in_events(span)) == [json.loads(use)]


def test_a_description_of_a_tool_is_no_request(wire: Any, bench: Any) -> None:
    """What a model may call stands beside what it calls: only the latter is one."""
    answer = {
        "tools": [{"toolUse": {"name": "pay", "toolUseId": "c"}}],
        "content": {"parts": []},
    }
    span = wire.span(
        "call_llm", {"gcp.vertex.agent.llm_response": json.dumps(answer), **IN}, scope="gcp.vertex.agent"
    )  # fmt: skip
    found = bench([_spec()], requested="always").send(span)
    assert found.tools() == []
