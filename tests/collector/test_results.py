"""A call's result may say that the call failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.dialects.results import RESULT_MAX, is_error


def _message(**parts: Any) -> dict[str, Any]:
    return {"content": "stuck", "type": "tool", "tool_call_id": "call_1", **parts}


FAILED = _message(status="error")


REFUSED = {"error": "This tool call requires confirmation, please approve or reject."}


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ({"is_error": True}, True),
        ({"is_error": False}, False),
        ({"is_error": "true"}, False),
        (["is_error"], False),
        ({"type": "tool", "data": FAILED}, True),
        ({"output": {"lc": 1, "kwargs": FAILED}}, True),
        (FAILED, True),
        ({"is_error": False, "data": FAILED}, True),
        ({"data": _message(status="success", content="error")}, False),
        ({"data": _message(content='{"status": "error"}')}, False),
        ({"status": "error"}, False),
        ({"data": [FAILED]}, False),
        ({"data": {"status": "error", "tool_call_id": 7}}, False),
        ({"output": {"data": {"kwargs": FAILED}}}, False),
        ([FAILED], False),
        ({"tool_name": "move", "tool_output": {"is_error": True}}, True),
        ({"tool_name": "move", "tool_output": {"is_error": False}}, False),
        ({"tool_name": "move", "tool_output": "is_error"}, False),
        (REFUSED, True),
        ({"id": "c1", "name": "move", "response": REFUSED}, True),
        ({"error": "This tool call is rejected."}, True),
        ({"error": "stuck", "note": "This tool call failed"}, False),
        (REFUSED | {"result": 1}, False),
        ([REFUSED], False),
        ("error", False),
        (FAILED | {"content": "x" * RESULT_MAX}, False),
    ],
)
def test_a_result_says_whether_its_call_failed(result: Any, failed: bool) -> None:
    """As MCP and LangChain write it; what is no such thing, or too deep or long, says nothing."""
    assert is_error(json.dumps(result)) is failed


@pytest.mark.parametrize(
    "value", [None, 7, True, b"x", [FAILED], '{"is_error"', '{"a": "error"']
)
def test_what_is_no_result_says_nothing(value: Any) -> None:
    """Values of other types, and texts that are cut off."""
    assert is_error(value) is False
