"""What a call's result says of the call itself: that it failed, where the span says OK."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from collector.dialects import brief
from collector.dialects.arguments import parsed

__all__ = ["RESULT_MAX", "is_error"]

RESULT_MAX: Final = 256 * 1024
"""Longer results are not read."""

_DEPTH: Final = 3
"""Objects looked into: the message, and what is around it."""

_SIGN: Final = 'error"'
"""All have it, and few others: results are long."""

_REFUSED: Final = "This tool call "
"""How Google's ADK begins to say that a person has not confirmed a call yet, or has rejected it."""


def is_error(value: Any) -> bool:
    """True for a JSON text that tells of a failure.

    So do MCP's `is_error`, a failed `ToolMessage` of LangChain, and a refusal of Google's ADK.
    """
    if type(value) is not str or len(value) > RESULT_MAX or _SIGN not in value:
        return False
    if '"is_error"' in value:
        found = parsed(value)
        if isinstance(found, dict) and _says_so(found):
            return True
    if _REFUSED in value and _is_refused(parsed(value)):
        return True
    return _is_failed_message(value)


def _says_so(found: dict[str, Any]) -> bool:
    """True where it is said at the top, or by what LlamaIndex has around a tool's output."""
    output = found.get("tool_output")
    return found.get("is_error") is True or (
        isinstance(output, dict) and output.get("is_error") is True
    )


def _is_refused(found: Any) -> bool:
    """True for `{"error": "This tool call ..."}`, as OpenInference has it in `response`."""
    answer = found.get("response", found) if isinstance(found, dict) else None
    if not isinstance(answer, dict) or len(answer) != 1:
        return False
    error = answer.get("error")
    return isinstance(error, str) and error.startswith(_REFUSED)


def _is_failed_message(text: str) -> bool:
    """True for the message that LangChain makes of a tool's failure.

    OpenInference writes it as `{"type": "tool", "data": {...}}`, in JavaScript as
    `{"output": {"kwargs": {...}}}`, and Langfuse as it is.
    """
    try:
        found: brief.Result | None = brief.result(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    for _ in range(_DEPTH):
        if found is None:
            break
        if found.tool_call_id is not None:
            return found.status == "error"
        found = found.data or found.kwargs or found.output
    return False
