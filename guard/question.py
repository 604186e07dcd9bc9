"""What is asked: one call or several, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["Call", "Question", "Shared", "current_span"]

BODY_BYTES_MAX: Final = 1 << 20
"""Of a request; the service's own default. Arguments that need more are sent as unknown."""


class Call(NamedTuple):
    """One call that an agent is about to make."""

    tool: str
    arguments: Mapping[str, Any] | None = None
    """None where they are not known, which is not the same as none: `{}`."""
    call_id: str = ""
    """The model's id of the call."""
    span_id: str = ""
    """Of the call's own span, 16 hexadecimal digits; "" where it has none yet."""
    parent_span_id: str = ""


class Shared(NamedTuple):
    """What the calls of one question have in common."""

    session: str
    agent: str
    service: str
    trace_id: str
    attributes: Mapping[str, Any]
    commit: bool


class Question(NamedTuple):
    """Calls that are decided together."""

    shared: Shared
    calls: Sequence[Call]
    batch: bool
    """A model's parallel calls: they are judged as one group."""

    def body(self, *, arguments: bool = True) -> bytes:
        """The request.

        Args:
            arguments: False leaves those of all calls out; they are unknown then. So are any that
                JSON does not have, or that are too long: what an agent says never keeps a
                call from being asked for.
        """
        text = self._text([_fields(call) for call in self.calls]) if arguments else b""
        if not text or len(text) > BODY_BYTES_MAX:
            text = self._text([_fields(call._replace(arguments=None)) for call in self.calls])
        return text

    def _text(self, calls: list[dict[str, Any]]) -> bytes:
        shared = {key: value for key, value in self.shared._asdict().items() if value}
        shared["commit"] = self.shared.commit
        asked = {**shared, "calls": calls} if self.batch else {**shared, **calls[0]}
        text = json.dumps(asked, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        # Half a surrogate pair is no text. Arguments with one are left out; a name with one matches no tool.
        return text.encode(errors="replace")


def _fields(call: Call) -> dict[str, Any]:
    found = call._asdict()
    if call.arguments is not None and not _is_json(call.arguments):
        del found["arguments"]
    return {key: value for key, value in found.items() if value is not None and value != ""}


def _is_json(arguments: Mapping[str, Any]) -> bool:
    try:
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


# --- the span that is current ----------------------------------------------------------------

_TOOL_MARKS: Final = {
    "gen_ai.operation.name": "execute_tool",
    "openinference.span.kind": "TOOL",
    "traceloop.span.kind": "tool",
}
"""Attributes by which a span says that it is a tool call's own."""


def current_span() -> tuple[str, str, str]:
    """Trace id, span id and parent's span id of a call that is made now, in hexadecimal; "" where unknown.

    The current span is the call's own only where it says so. Any other, such as the agent's, is the
    parent: several calls can be below it. An agent that has not imported OpenTelemetry has no span.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return "", "", ""
    span = trace.get_current_span()
    context = span.get_span_context()
    if not context.is_valid:
        return "", "", ""
    trace_id, span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    attributes = getattr(span, "attributes", None) or {}
    if any(attributes.get(key) == value for key, value in _TOOL_MARKS.items()):
        parent = getattr(span, "parent", None)
        return trace_id, span_id, f"{parent.span_id:016x}" if parent is not None else ""
    return trace_id, "", span_id
