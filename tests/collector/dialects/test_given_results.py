"""Results that a model was given say whether their calls failed, in each interface's own way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.dialects.model_messages.given_results import (
    GivenResult,
    SpanResults,
    answered_within,
    given_results,
    may_show_failure,
)
from collector.dialects.model_messages.outputs import outputs_of
from tests.collector.conftest import Wire

UNMARKED, DISPUTED, FAILED = GivenResult
MCP = {"content": [{"type": "text", "text": "no"}], "isError": True}


def _read(**attributes: Any) -> dict[str, GivenResult]:
    span = Wire().span("chat", {"gen_ai.operation.name": "chat", **attributes})
    outputs = outputs_of({key: at for at, key in enumerate(span.shape)})
    assert outputs is not None
    found = given_results(span, outputs)
    results = SpanResults(span, outputs)
    assert results.all() == found
    assert results.all() is results.all(), "the messages are parsed once"
    if any(found.values()):
        assert may_show_failure(span, outputs, list(found))
    return found


ANTHROPIC = {"type": "tool_result", "tool_use_id": "c", "content": "no"}
AI_SDK = {"type": "tool-result", "toolCallId": "c", "toolName": "pay"}
GEN_AI = {"type": "tool_call_response", "id": "c"}
BEDROCK = {"toolUseId": "c", "content": [{"text": "no"}]}


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (ANTHROPIC, UNMARKED),
        ({**ANTHROPIC, "is_error": False}, UNMARKED),
        ({**ANTHROPIC, "is_error": True}, FAILED),
        ({**ANTHROPIC, "content": json.dumps({"is_error": True})}, UNMARKED),
        ({**AI_SDK, "output": {"type": "text", "value": "error-text"}}, UNMARKED),
        ({**AI_SDK, "output": {"type": "error-text", "value": "no"}}, FAILED),
        ({**AI_SDK, "output": {"type": "error-json", "value": {}}}, FAILED),
        ({**AI_SDK, "output": {"type": "execution-denied"}}, FAILED),
        ({**AI_SDK, "output": {"type": "json", "value": MCP}}, FAILED),
        ({**AI_SDK, "result": "no", "isError": True}, FAILED),
        ({**GEN_AI, "response": "no"}, UNMARKED),
        ({**GEN_AI, "response": MCP}, FAILED),
        ({**GEN_AI, "result": json.dumps(MCP)}, DISPUTED),
        ({"toolResult": BEDROCK}, UNMARKED),
        ({"toolResult": {**BEDROCK, "status": "success"}}, UNMARKED),
        ({"toolResult": {**BEDROCK, "status": "error"}}, FAILED),
        ({"functionResponse": {"id": "c", "response": {"result": "no"}}}, UNMARKED),
        ({"functionResponse": {"id": "c", "response": MCP}}, FAILED),
        ({"function_response": {"id": "c", "response": MCP}}, FAILED),
        ({"role": "tool", "tool_call_id": "c", "content": "Error: no"}, UNMARKED),
        ({"type": "function_call_output", "call_id": "c", "output": "error"}, UNMARKED),
        ({"lc": 1, "kwargs": {"tool_call_id": "c", "status": "error"}}, FAILED),
        ({"lc": 1, "kwargs": {"tool_call_id": "c", "status": "success"}}, UNMARKED),
    ],
)
def test_each_interface_has_its_mark(result: dict[str, Any], says: GivenResult) -> None:
    """A result is a failed call's where its interface marks it; texts of tools mark nothing."""
    for around in ([result], [{"role": "tool", "content": [result]}], {"messages": [[result]]}):
        assert _read(**{"input.value": json.dumps(around)})["c"] is says


def test_a_result_beside_its_id_may_be_a_tools_own_text() -> None:
    """Conventions with an attribute for each message have the result as a text."""
    prefix = "llm.input_messages.3.message"
    found = _read(**{f"{prefix}.tool_call_id": "c", f"{prefix}.content": json.dumps(MCP)})
    assert found == {"c": DISPUTED}
    assert _read(**{"gen_ai.prompt.2.tool_call_id": "c", "gen_ai.prompt.2.content": "no"}) == {
        "c": UNMARKED
    }


def test_of_two_attributes_the_one_with_the_mark_counts() -> None:
    """LangChain's messages have the status that OpenInference's flat ones leave out."""
    message = {"kwargs": {"tool_call_id": "c", "status": "error"}}
    found = _read(
        **{
            "llm.input_messages.0.message.tool_call_id": "c",
            "llm.input_messages.0.message.content": "no",
            "input.value": json.dumps({"messages": [[message]]}),
        }
    )
    assert found["c"] is FAILED


def test_of_two_results_with_one_id_neither_is_certain() -> None:
    """Some models number their calls anew in each turn."""
    both = [{**ANTHROPIC, "is_error": True}, ANTHROPIC]
    for results in (both, both[::-1]):
        assert _read(**{"input.value": json.dumps(results)}) == {"c": DISPUTED}


def test_what_a_tool_returned_is_no_result_of_another_call() -> None:
    """A tool that returns the form of a result marks nothing."""
    forged = {"type": "tool_result", "tool_use_id": "d", "is_error": True}
    for result in (
        {**ANTHROPIC, "content": [forged]},
        {**AI_SDK, "output": {"type": "json", "value": forged}},
        {"toolResult": {**BEDROCK, "content": [{"json": forged}]}},
    ):
        assert _read(**{"input.value": json.dumps([result])}) == {"c": UNMARKED}


_PART = st.fixed_dictionaries(
    {"type": st.just("tool_result"), "tool_use_id": st.sampled_from("abc")},
    optional={"is_error": st.booleans(), "content": st.sampled_from(["ok", "Error", "a b"])},
)


@given(st.lists(_PART, max_size=4), st.lists(st.sampled_from("abcd"), max_size=3))
def test_a_history_without_a_mark_is_not_read(
    parts: list[dict[str, Any]], ids: list[str]
) -> None:
    """Where the text shows no mark behind the first mention of the requests, none of them has failed."""
    span = Wire().span(
        "chat", {"gen_ai.operation.name": "chat", "input.value": json.dumps(parts)}
    )
    outputs = outputs_of({key: at for at, key in enumerate(span.shape)})
    assert outputs is not None
    told = given_results(span, outputs)
    if not may_show_failure(span, outputs, ids):
        assert not any(told.get(each) is FAILED for each in ids)
    twice = [{"id": each["tool_use_id"]} for each in parts]
    whole = json.dumps(twice + parts)
    span = Wire().span("chat", {"gen_ai.operation.name": "chat", "input.value": whole})
    assert all(answered_within(span, outputs, each) for each in told)
