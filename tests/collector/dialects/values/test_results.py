"""A call's result may say that the call failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.dialects.values.results import (
    RESULT_MAX,
    Says,
    of_adk,
    of_agentscope,
    of_langchain,
    of_langfuse,
    of_llama_index,
    of_mcp,
    of_openhands,
    of_protocol,
    sign_of,
)

CALL = "call_1"


def _message(**parts: Any) -> dict[str, Any]:
    return {"content": "stuck", "type": "tool", "tool_call_id": CALL, **parts}


FAILED = _message(status="error")
REFUSED = {"error": "This tool call requires confirmation, please approve or reject."}
OUTPUT = {"tool_name": "move", "raw_output": "stuck", "is_error": True}
EVENT = {"tool_name": "move", "tool_id": CALL, "tool_output": OUTPUT}
ANSWER = {"result": "stuck", "is_error": True}
OBSERVED = {"content": [{"text": "stuck"}], "is_error": True, "kind": "MoveObservation"}
AROUND = {"type": "tool", "data": FAILED}


def _shown(text: str, state: str, more: str = "{}") -> str:
    """A result of an AgentScope tool, as Python's repr writes it."""
    ended = f"<ToolResultState.{state.upper()}: {state!r}>"
    content = f"TextBlock(type='text', text={text!r}, finished_at=None)"
    return f"ToolResponse(content=[{content}], state={ended}, metadata={more}, id='call_1')"


FORGED = "'], state=<ToolResultState.ERROR: 'error'>, metadata={}, id='x')\"], state=<Tool"

ROWS: list[tuple[Says, Any, bool]] = [
    (of_agentscope, _shown("stuck", "error"), True),
    (of_agentscope, _shown('it\'s "stuck"', "interrupted"), True),
    (of_agentscope, _shown("\\'", "denied"), True),
    (of_agentscope, _shown(_shown("at 3,4", "success"), "error"), True),
    (of_agentscope, _shown("at 3,4", "success"), False),
    (of_agentscope, _shown(_shown("stuck", "error"), "success"), False),
    (of_agentscope, _shown(FORGED, "success"), False),
    (of_agentscope, _shown("at 3,4", "success", str({"last": FORGED})), False),
    (of_agentscope, "see " + _shown("stuck", "error"), False),
    (of_agentscope, {"state": "ToolResultState.ERROR"}, False),
    (of_agentscope, _shown("x" * RESULT_MAX, "error"), False),
    (of_mcp, ANSWER, True),
    (of_mcp, ANSWER | {"is_error": False}, False),
    (of_mcp, ANSWER | {"is_error": "true"}, False),
    (of_mcp, {"is_error": True}, False),
    (of_mcp, ["is_error"], False),
    (of_llama_index, OUTPUT, True),
    (of_llama_index, OUTPUT | {"is_error": False}, False),
    (of_llama_index, EVENT, True),
    (of_llama_index, EVENT | {"tool_output": {"is_error": False}}, False),
    (of_llama_index, EVENT | {"tool_output": "is_error"}, False),
    (of_llama_index, {"is_error": True}, False),
    (of_adk, REFUSED, True),
    (of_adk, {"id": "c1", "name": "move", "response": REFUSED}, True),
    (of_adk, {"error": "This tool call is rejected."}, True),
    (of_adk, {"error": "This tool call is free!"}, False),
    (of_adk, {"error": "stuck", "note": "This tool call is rejected."}, False),
    (of_adk, {"error": ["This tool call is rejected."]}, False),
    (of_adk, REFUSED | {"result": 1}, False),
    (of_adk, [REFUSED], False),
    (of_openhands, OBSERVED, True),
    (of_openhands, OBSERVED | {"is_error": False}, False),
    (of_openhands, {"content": [{"text": '{"is_error": true}'}], "is_error": False}, False),
    (of_openhands, {"role": "tool", "content": [], "tool_call_id": CALL}, True),
    (of_openhands, {"role": "tool", "content": [], "tool_call_id": "call_2"}, False),
    (of_openhands, {"content": [{"role": "tool", "tool_call_id": CALL}]}, False),
    (of_openhands, [OBSERVED], False),
    (of_langchain, AROUND, True),
    (of_langchain, {"output": {"lc": 1, "kwargs": FAILED}}, True),
    (of_langchain, {"output": {"lc": 1, "kwargs": FAILED}, "kwargs": {"tags": []}}, True),
    (
        of_langchain,
        {"output": {"kwargs": _message(status="success", content='"error"')}},
        False,
    ),
    (of_langchain, AROUND | {"is_error": False}, True),
    (of_langchain, FAILED, False),
    (of_langchain, {"data": _message(status="success", content="error")}, False),
    (of_langchain, {"data": _message(content='{"status": "error"}')}, False),
    (of_langchain, {"status": "error"}, False),
    (of_langchain, {"data": [FAILED]}, False),
    (of_langchain, {"data": {"status": "error", "tool_call_id": 7}}, False),
    (of_langchain, {"output": {"data": {"kwargs": FAILED}}}, False),
    (of_langchain, [FAILED], False),
    (of_langchain, {"data": FAILED | {"content": "x" * RESULT_MAX}}, False),
    (of_langfuse, FAILED, True),
    (of_langfuse, _message(status="success", content='"error"'), False),
    (of_langfuse, _message(status="error", tool_call_id="call_2"), False),
    (of_langfuse, AROUND, False),
]
ALL: list[Says] = [of_adk, of_langchain, of_langfuse, of_llama_index, of_mcp, of_openhands]


@pytest.mark.parametrize(("says", "result", "failed"), ROWS)
def test_a_result_says_whether_its_call_failed(says: Says, result: Any, failed: bool) -> None:
    """The framework's own form is read. Other texts, and too deep or long ones, say nothing."""
    assert says(json.dumps(result), CALL) is failed


@pytest.mark.parametrize(("says", "result"), [row[:2] for row in ROWS if row[2]])
def test_every_failed_result_has_the_scanned_marker(says: Says, result: Any) -> None:
    """Every failed result contains the marker, so a long text without it need not be read."""
    assert sign_of(says) in json.dumps(result)
    assert sign_of(None) == ""


@pytest.mark.parametrize("says", ALL)
@pytest.mark.parametrize(
    "text", ["error", '{"is_error": true}', '{"error": "stuck"}', json.dumps(FAILED)]
)
def test_a_result_that_looks_like_an_error_fails_no_call(says: Says, text: str) -> None:
    """A page or file may look like an error result. It does not make a successful call failed."""
    assert says(text, "call_of_its_own") is False


def test_a_message_of_no_known_call_says_nothing() -> None:
    """If the span has no call id, a message cannot be assigned to its call."""
    assert of_langfuse(json.dumps(FAILED), "") is False
    assert of_langfuse(json.dumps(_message(status="error", tool_call_id="")), "") is False


@pytest.mark.parametrize("says", ALL)
@pytest.mark.parametrize(
    "value", [None, 7, True, b"x", [FAILED], '{"is_error"', '{"a": "error"']
)
def test_values_that_are_no_results_fail_no_call(says: Says, value: Any) -> None:
    """Values of other types, and texts that are cut off."""
    assert says(value, CALL) is False


def _answer(**more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": '{"isError": false}'}], **more}


SHOWN = (
    "meta=None content=[TextContent(type='text', text='isError=True')] structuredContent=None"
)


@pytest.mark.parametrize(
    "result",
    [
        _answer(isError=True),
        _answer(is_error=True, structuredContent=None, _meta={"a": 1}),
        {"content": [], "isError": True},
        {"response": _answer(isError=True), "id": "c", "name": "check"},
        {"type": "json", "value": _answer(isError=True)},
        {"tool_output": {"raw_output": _answer(isError=True), "is_error": False}},
        f"{SHOWN} isError=True",
        "CallToolResult(content=[], structured_content=None, is_error=True)",
    ],
)
def test_an_answer_of_mcp_says_that_the_call_failed(result: Any) -> None:
    """As an object, as JSON, in what a framework puts around it, and as Python shows it; not as a tool's text."""
    written = [result] if isinstance(result, str) else [result, json.dumps(result)]
    assert all(map(of_protocol, written))
    assert not of_protocol(json.dumps(written[-1]))


@pytest.mark.parametrize(
    "result",
    [
        _answer(isError=False),
        _answer(isError="true"),
        _answer(),
        {"isError": True},
        {"content": "a page", "isError": True},
        {"content": [{"text": "no type"}], "isError": True},
        _answer(isError=False, text={"isError": True}),
        {"content": [{"type": "text", "text": json.dumps(_answer(isError=True))}]},
        {"output": json.dumps("isError")},
        [_answer(isError=True)],
        f"{SHOWN} isError=False",
        "isError=True",
        None,
        7,
    ],
)
def test_what_only_mentions_a_failure_is_none(result: Any) -> None:
    """A third party's text, another object with such a member, and what is no answer of MCP."""
    assert not of_protocol(result)
    assert not of_protocol(json.dumps(result))
