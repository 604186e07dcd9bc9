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
"""Both have it, and few others: results are long."""


def is_error(value: Any) -> bool:
    """True for a JSON text that tells of a failure: MCP's `is_error`, or a failed `ToolMessage`."""
    if type(value) is not str or len(value) > RESULT_MAX or _SIGN not in value:
        return False
    if '"is_error"' in value:
        found = parsed(value)
        if isinstance(found, dict) and found.get("is_error") is True:
            return True
    return _is_failed_message(value)


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
