"""What is asked: one call or several, as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["Call", "Question", "Shared", "current_span"]

BODY_BYTES_MAX: Final = 256 << 10
"""Of a request; the service's own default. Arguments that need more are sent as unknown."""

ROUND_BYTES: Final = 64
"""Of a request, around its calls."""

NAME_MAX: Final = 1_024
"""Characters of an agent's name and of a call's id; the service refuses longer ones."""

ID_BYTES: Final = 12
"""Of a question's own id: no two are equal."""

ARGUMENTS_MAX: Final = 1_024
"""Names of arguments; likewise."""

NESTED_MAX: Final = 100
"""Levels of arguments; likewise."""

_BRACKET: Final = re.compile(r"[\[\]{}]")
_IN_QUOTES: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


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
    new_session: bool = False
    """No call of the session was made before."""


class Question(NamedTuple):
    """Calls that are decided together."""

    shared: Shared
    calls: Sequence[Call]
    batch: bool
    """A model's parallel calls: they are judged as one group."""
    id: str = ""
    """By which a service knows that it is asked once more, and not about another call."""

    def named(self) -> Question:
        """This question with an id of its own. A model has no part in it: equal calls have equal ids otherwise."""
        return self._replace(id=os.urandom(ID_BYTES).hex())

    def body(self, *, arguments: bool = True) -> bytes:
        """The request.

        What the service would refuse to read is left out, call by call: arguments are unknown then. What an
        agent says never keeps a call from being asked for, nor the arguments of another call from being known.

        Args:
            arguments: False leaves those of all calls out.
        """
        fields = {**self.shared._asdict(), "agent": _short(self.shared.agent)}
        fields["question_id"] = self.id
        commit = b'"commit":%s' % (b"true" if fields.pop("commit") else b"false")
        shared = b",".join(each for each in (_members(fields), commit) if each)
        calls = self._calls(BODY_BYTES_MAX - len(shared) - ROUND_BYTES, arguments=arguments)
        asked = b'"calls":[%s]' % b",".join(calls) if self.batch else calls[0][1:-1]
        return b"{%s,%s}" % (shared, asked)

    def _calls(self, room: int, *, arguments: bool) -> list[bytes]:
        """The calls; the longest ones without arguments, until there is room for all."""
        calls = [_object(each, arguments=arguments) for each in self.calls]
        while sum(map(len, calls)) + len(calls) > room:
            place = max(range(len(calls)), key=lambda each: len(calls[each]))
            shorter = _object(self.calls[place], arguments=False)
            if shorter == calls[place]:
                break
            calls[place] = shorter
        return calls


def _object(call: Call, *, arguments: bool) -> bytes:
    """A call as JSON."""
    fields = {**call._asdict(), "call_id": _short(call.call_id)}
    given = fields.pop("arguments")
    found = _arguments(given) if arguments else b""
    named = [b'"arguments":%s' % found] if found else []
    return b"{%s}" % b",".join([_members(fields), *named])


def _members(fields: Mapping[str, Any]) -> bytes:
    """Those that are not empty, without the braces."""
    found = {key: value for key, value in fields.items() if value}
    text = json.dumps(found, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair is no text: a name with one matches no tool.
    return text[1:-1].encode(errors="replace")


def _short(text: str) -> str:
    """A name; "" where it is longer than the service reads, of a question or of a span."""
    return text if len(text) <= NAME_MAX else ""


def _arguments(arguments: Mapping[str, Any] | None) -> bytes:
    """Arguments as JSON; b"" where they are unknown, or the service would not read them."""
    if not isinstance(arguments, dict) or len(arguments) > ARGUMENTS_MAX:
        return b""
    try:
        text = json.dumps(arguments, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        return b"" if _is_deep(text) else text.encode()
    except Exception:  # noqa: BLE001 - what an agent's objects do is no reason not to ask
        return b""


def _is_deep(text: str) -> bool:
    """True if a JSON text nests more deeply than the service reads."""
    if text.count("[") + text.count("{") <= NESTED_MAX:
        return False
    level = 0
    for bracket in _BRACKET.findall(_IN_QUOTES.sub("", text)):
        level += 1 if bracket in "[{" else -1
        if level > NESTED_MAX:
            return True
    return False


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
