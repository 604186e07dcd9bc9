"""Events of a span that tell of a tool call. Such calls are counted, not judged.

An event has one time and no id, so neither a call's end nor its copies can be known. Most agents write no such
events; spans without events cost one look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from collector.decode.span import Span
from collector.dialects.names.session_and_agent_keys import is_served
from collector.dialects.names.span_name import span_name
from collector.dialects.read import TOO_LONG, SpanReading
from collector.dialects.unknown_dialect import GIVEN, NAMES, SAYS, SPOKEN

__all__ = ["tells_of_call"]

_SPOKEN: Final = span_name(SPOKEN)

_MARK: Final = b"tool"
"""Part of every key that names a tool, and of every name that says that one ran."""


def tells_of_call(span: Span, reading: SpanReading | None) -> bool:
    """True if an event of the span tells of a call of another tool than the span itself does.

    Args:
        span: as it came.
        reading: the span as a call; None if it is none.
    """
    if not any(_may_tell(raw) for raw in span.events):
        return False
    own = reading.tool if reading is not None and reading is not TOO_LONG else ""
    tools = [_tool(name, attributes) for name, attributes, _ in span.span_events()]
    return any(tool not in ("", own) and not is_served(own, tool) for tool in tools)


def _may_tell(raw: Any) -> bool:
    return not isinstance(raw, bytes) or _MARK in raw


def _tool(name: str, attributes: Mapping[str, Any]) -> str:
    """The tool whose call an event tells of; "" if it tells of none."""
    spoken = _SPOKEN.find(name) or ""
    if spoken:
        return spoken
    named = next((str(attributes[key]) for key in NAMES if attributes.get(key)), "")
    return named if named and _says_call(name, attributes) else ""


def _says_call(name: str, attributes: Mapping[str, Any]) -> bool:
    """True if an event that names a tool says that it was called: a mention alone is no call."""
    return (
        "tool" in name.lower()
        or not GIVEN.isdisjoint(attributes)
        or any(_is_one(attributes.get(key), values) for key, values in SAYS.items())
    )


def _is_one(value: Any, values: frozenset[str]) -> bool:
    return isinstance(value, str) and value in values
