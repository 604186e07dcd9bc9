"""Finds failed calls by their result, for dialects whose spans have status OK even then.

A tool often returns a third party's text, which must not decide whether the call failed. So each
framework's form counts only in its own spans, and only in what the framework put around that text.
The result of the protocol MCP is looked for in every dialect, since any framework may hand it through
(`of_protocol`).

Example: `of_mcp` reads `{"result": ..., "is_error": true}` as a failure, but not that text inside `result`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from collector.dialects.values import partial_json
from collector.dialects.values.arguments import parsed

__all__ = [
    "CONTENT_TYPES",
    "FAILING",
    "HANDED_THROUGH",
    "QUOTED_TEXT",
    "RESULT_MAX",
    "Says",
    "may_fail",
    "of_adk",
    "of_agentscope",
    "of_langchain",
    "of_langfuse",
    "of_llama_index",
    "of_mcp",
    "of_openhands",
    "of_protocol",
    "of_upsonic",
    "sign_of",
]

Says = Callable[[Any, str], bool]
"""(result, call id) -> True if the result shows that the call failed. It accepts any value."""

RESULT_MAX: Final = 256 * 1024
"""Longer results are not read."""

_DEPTH: Final = 3
"""Nested objects that are searched: the message and those around it."""

HANDED_THROUGH: Final = (
    "ai.toolCall.output",
    "ai.toolCall.result",
    "agentops.entity.output",
    "gcp.vertex.agent.tool_response",
    "gen_ai.completion",
    "gen_ai.tool.call.result",
    "gen_ai.tool.output",
    "gen_ai.tool.result",
    "genkit:output",
    "langfuse.observation.output",
    "langwatch.output",
    "lmnr.span.output",
    "mcp.tool.result",
    "mlflow.spanOutputs",
    "output.value",
    "spring.ai.tool.call.result",
    "tool.output",
    "tool.result",
    "tool_response",
    "traceloop.entity.output",
)
"""Attributes in which dialects write a tool's result."""

FAILING: Final = "rror"
"""The end of `isError` and of `is_error`, by which a result is searched before it is decoded."""
_FAILING: Final = FAILING.encode()
_SAID: Final = ("isError", "is_error")
"""The protocol's member, as written on the wire and in Python."""
CONTENT_TYPES: Final = frozenset({"audio", "image", "resource", "resource_link", "text"})
"""The types of what an MCP tool returns."""
_SHOWN: Final = ("CallToolResult(", "meta=None content=[")
_SHOWN_FAILED: Final = (
    "isError=True",
    "isError=True)",
    "is_error=True",
    "is_error=True)",
)
"""How Python's repr and text of such an answer begin, and end where the call failed."""
_AROUND: Final = ("output", "raw_output", "response", "result", "tool_output", "value")
"""Members in which frameworks put what a tool returned."""

_ERROR: Final = 'error"'
"""All failed results contain it, and few others: a cheap search before parsing."""
_IS_ERROR: Final = '"is_error"'
_OBSERVED: Final = frozenset({"content", "kind"})
_ID: Final = '"tool_call_id"'
_MCP: Final = frozenset({"result", "is_error"})
_RETURNED: Final = "\"{'func"
_ENDED: Final = "ToolResultState."
QUOTED_TEXT: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
"""The Python repr of a text."""
_STATE: Final = re.compile(
    r"ToolResponse\(content=\[.*?\], state=<ToolResultState\.(\w+): >", re.DOTALL
)
_UNDONE: Final = frozenset({"DENIED", "ERROR", "INTERRUPTED"})
_REFUSED: Final = frozenset(
    {
        "This tool call requires confirmation, please approve or reject.",
        "This tool call is rejected.",
    }
)


def of_mcp(value: Any, _call_id: str) -> bool:
    """`{"result": ..., "is_error": true}`: Traceloop's form of an MCP server's answer."""
    found = _object(value, _IS_ERROR)
    return found is not None and found.keys() == _MCP and found["is_error"] is True


def of_protocol(value: Any) -> bool:
    """An MCP server's answer as the protocol has it: `{"content": [{"type": ...}], "isError": true}`.

    It may be a JSON text, or Python's repr; or stand in the object that a framework puts around results. What the
    server's tool returned is text within `content`, and never counts. Neither does a text within JSON.
    """
    found = value
    if type(value) is str:
        if value.startswith(_SHOWN):
            return value.endswith(_SHOWN_FAILED)
        found = parsed(value) if _may_say(value) else None
    for _ in range(_DEPTH):
        if type(found) is not dict:
            return False
        if any(found.get(name) is True for name in _SAID):
            return _is_answer(found.get("content"))
        inner = [found[name] for name in _AROUND if type(found.get(name)) is dict]
        if len(inner) != 1:
            return False
        found = inner[0]
    return False


def may_fail(raw: Any) -> bool:
    """False for an undecoded result that does not say `isError`."""
    return type(raw) is not bytes or _FAILING in raw


def _may_say(text: str) -> bool:
    return len(text) <= RESULT_MAX and any(name in text for name in _SAID)


def _is_answer(content: Any) -> bool:
    return type(content) is list and all(
        type(each) is dict and each.get("type") in CONTENT_TYPES for each in content
    )


def of_llama_index(value: Any, _call_id: str) -> bool:
    """A `ToolOutput`, or an event that contains one; the tool's own result is one member of it."""
    found = _object(value, _IS_ERROR)
    if found is None or "tool_name" not in found:
        return False
    output = found.get("tool_output", found)
    return isinstance(output, dict) and output.get("is_error") is True


def of_adk(value: Any, _call_id: str) -> bool:
    """`{"error": ...}` if a person has not confirmed the call yet or has rejected it.

    OpenInference writes it into `response`.
    """
    found = _object(value, _ERROR)
    answer = found.get("response", found) if found is not None else None
    if not isinstance(answer, dict) or len(answer) != 1:
        return False
    error = answer.get("error")
    return isinstance(error, str) and error in _REFUSED


def of_agentscope(value: Any, _call_id: str) -> bool:
    """`ToolResponse(content=[...], state=<ToolResultState.ERROR: 'error'>, ...)`, a Python repr.

    The tool's own result is in texts, which are removed before the state is read.
    """
    if type(value) is not str or len(value) > RESULT_MAX or _ENDED not in value:
        return False
    shown = parsed(value)
    found = _STATE.match(QUOTED_TEXT.sub("", shown)) if type(shown) is str else None
    return found is not None and found[1] in _UNDONE


def of_openhands(value: Any, call_id: str) -> bool:
    """An observation with an error; or the model's message, which means that no tool was executed."""
    found = _object(value, _ID) or _object(value, _IS_ERROR)
    if found is None:
        return False
    if found.get("is_error") is True:
        return found.keys() >= _OBSERVED
    return found.get("role") == "tool" and found.get("tool_call_id") == call_id


def of_upsonic(value: Any, _call_id: str) -> bool:
    """A JSON text: the Python repr `{'func': ...}` around a tool's result, else the exception."""
    return type(value) is str and value.startswith('"') and not value.startswith(_RETURNED)


def of_langchain(value: Any, _call_id: str) -> bool:
    """A message of LangChain inside an object of its instrumentation.

    OpenInference writes `{"type": "tool", "data": {...}}`, in JavaScript `{"output": {"kwargs": {...}}}`, as LangSmith does.
    Traceloop writes the callback's `kwargs` beside that `output`.
    """
    found = _message(value)
    return found is not None and found.tool_call_id is None and _is_failed(found)


def of_langfuse(value: Any, call_id: str) -> bool:
    """A message of LangChain without an object around it; it must have the call's id."""
    found = _message(value)
    if found is None or not call_id:
        return False
    return found.tool_call_id == call_id and _is_failed(found)


_SIGNS: Final[dict[Says, str]] = {
    of_adk: _ERROR,
    of_agentscope: _ENDED,
    of_langchain: _ERROR,
    of_langfuse: _ERROR,
    of_llama_index: _IS_ERROR,
    of_mcp: _IS_ERROR,
}
"""A text that each failed result contains."""


def sign_of(says: Says | None) -> str:
    """A text that each result contains for which `says` is True; "" if none is known."""
    return _SIGNS.get(says, "") if says is not None else ""


def _object(value: Any, sign: str) -> dict[str, Any] | None:
    if type(value) is not str or len(value) > RESULT_MAX or sign not in value:
        return None
    found = parsed(value)
    return found if isinstance(found, dict) else None


def _message(value: Any) -> partial_json.Result | None:
    if type(value) is not str or len(value) > RESULT_MAX or _ERROR not in value:
        return None
    try:
        found: partial_json.Result | None = partial_json.result(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found


def _is_failed(message: partial_json.Result) -> bool:
    found: partial_json.Result | None = message
    for _ in range(_DEPTH):
        if found is None:
            break
        if found.tool_call_id is not None:
            return found.status == "error"
        found = found.output or found.data or found.kwargs
    return False
