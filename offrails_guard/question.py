"""What is asked: one call or several, as JSON."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from offrails_guard.lenient_json import NESTED_MAX

__all__ = ["BODY_BYTES_MAX", "Call", "Question", "QuestionContext", "as_json", "current_span"]

BODY_BYTES_MAX: Final = 256 << 10
"""Bytes of a request; the service's own default. Values that need more are sent as unknown, the
longest first."""

ROUND_BYTES: Final = 64
"""Bytes of a request around its calls."""

NAME_MAX: Final = 1_024
"""Bytes of an agent's name and of ids of calls and sessions, as UTF-8. The service cuts longer ones of spans; so do we."""

DIGEST_BYTES: Final = 16
"""Length of the digest of the whole, at the end of what was cut."""

ID_BYTES: Final = 12
"""Bytes of a question's own id: no two are equal."""

ARGUMENTS_MAX: Final = 1_024
"""Names of arguments; likewise."""

_BRACKET: Final = re.compile(r"[\[\]{}]")
_IN_QUOTES: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class Call(NamedTuple):
    """One call that an agent is about to make."""

    tool: str
    arguments: Mapping[str, Any] | None = None
    """None where they are not known, which is not the same as none: `{}`. A value that JSON does not have is unknown."""
    call_id: str = ""
    """The model's id of the call."""
    span_id: str = ""
    """Id of the call's own span, 16 hexadecimal digits; "" if it has none yet."""
    parent_span_id: str = ""


class QuestionContext(NamedTuple):
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

    shared: QuestionContext
    calls: Sequence[Call]
    batch: bool
    """A model's parallel calls: they are judged as one group."""
    id: str = ""
    """Id by which a service knows that the same question is asked once more."""

    def named(self) -> Question:
        """This question with an id of its own. A model has no part in it: equal calls have equal ids otherwise."""
        return self._replace(id=os.urandom(ID_BYTES).hex())

    def body(self, *, arguments: bool = True) -> bytes:
        """The request.

        What the service would refuse to read is left out, value by value: it is unknown then. What an agent says
        never keeps a call from being asked for, nor its other arguments from being known.

        Args:
            arguments: False leaves those of all calls out.
        """
        about = self.shared
        short = {"session": _short(about.session), "agent": _short(about.agent)}
        fields = {**about._asdict(), **short}
        fields["question_id"] = self.id
        commit = b'"commit":%s' % (b"true" if fields.pop("commit") else b"false")
        shared = b",".join(each for each in (_members(fields), commit) if each)
        calls = self._calls(BODY_BYTES_MAX - len(shared) - ROUND_BYTES, arguments=arguments)
        asked = b'"calls":[%s]' % b",".join(calls) if self.batch else calls[0][1:-1]
        return b"{%s,%s}" % (shared, asked)

    def _calls(self, room: int, *, arguments: bool) -> list[bytes]:
        """The calls; if there is no room for all, without their longest values."""
        if not arguments:
            return [_object(each, b"") for each in self.calls]
        calls = [_object(each, _told(each.arguments)) for each in self.calls]
        if _fit(calls, room):
            return calls
        written, most = [_written(each.arguments) for each in self.calls], room
        while not _fit(calls, room) and most:
            most //= 2
            calls = [
                _object(each, _in_part(values, most))
                for each, values in zip(self.calls, written, strict=True)
            ]
        while not _fit(calls, room):  # of names alone
            place = max(range(len(calls)), key=lambda each: len(calls[each]))
            shorter = _object(self.calls[place], b"")
            if shorter == calls[place]:
                break
            calls[place] = shorter
        return calls


def _fit(calls: Sequence[bytes], room: int) -> bool:
    return sum(map(len, calls)) + len(calls) <= room


def _object(call: Call, told: bytes) -> bytes:
    """A call as JSON, with the members that tell its arguments."""
    fields = {**call._asdict(), "call_id": _short(call.call_id)}
    del fields["arguments"]
    return b"{%s}" % b",".join([each for each in (_members(fields), told) if each])


def _members(fields: Mapping[str, Any]) -> bytes:
    """Those that are not empty, without the braces."""
    found = {key: value for key, value in fields.items() if value}
    text = json.dumps(found, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair is no text: a name with one matches no tool.
    return text[1:-1].encode(errors="replace")


def _short(text: str) -> str:
    """A name or id as the service keeps that of a span: two long ones that begin alike stay two."""
    raw = text.encode(errors="surrogatepass") if len(text) > NAME_MAX // 4 else b""
    if len(raw) <= NAME_MAX:
        return text
    end = f"~{blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()}"
    return raw[: NAME_MAX - len(end)].decode(errors="ignore") + end


def _told(arguments: Mapping[str, Any] | None) -> bytes:
    """The members that tell arguments; b"" where these are unknown, or the service would not read them."""
    if not isinstance(arguments, dict) or len(arguments) > ARGUMENTS_MAX:
        return b""
    whole = as_json(arguments, NESTED_MAX)
    if whole:
        return b'"arguments":%s' % whole
    return _in_part(_written(arguments), BODY_BYTES_MAX)


_Written = dict[bytes, bytes]
"""Arguments by their names, both as JSON; b"" for a value that cannot be written."""


def _written(arguments: Mapping[str, Any] | None) -> _Written | None:
    """None where not all names are texts, or there are too many."""
    if not isinstance(arguments, dict) or len(arguments) > ARGUMENTS_MAX:
        return None
    if not all(isinstance(name, str) for name in arguments):
        return None
    return {_name(name): as_json(arguments[name], NESTED_MAX - 1) for name in arguments}


def _name(name: str) -> bytes:
    """As JSON. Half a surrogate pair is no text: a name with one is none that a spec knows."""
    return json.dumps(name, ensure_ascii=False).encode(errors="replace")


def _in_part(written: _Written | None, most: int) -> bytes:
    """The members that tell arguments, of which those are unread that cannot be written, or are longer than `most`."""
    if written is None:
        return b""
    known = {name: value for name, value in written.items() if 0 < len(value) <= most}
    members = b",".join([b"%s:%s" % each for each in known.items()])
    unread = b",".join([name for name in written if name not in known])
    return b'"arguments":{%s},"unread":[%s]' % (members, unread)


def as_json(value: Any, levels: int, default: Callable[[Any], Any] | None = None) -> bytes:
    """A value as JSON; b"" for one that JSON does not have, or that nests more deeply.

    Args:
        value: of the agent's.
        levels: that it may nest.
        default: puts something in the place of an object that JSON does not have.
    """
    try:
        text = json.dumps(
            value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=default
        )
        return b"" if _is_deep(text, levels) else text.encode()
    except Exception:  # noqa: BLE001 - what an agent's objects do is no reason not to ask
        return b""


def _is_deep(text: str, levels: int) -> bool:
    """True if a JSON text nests more deeply."""
    if text.count("[") + text.count("{") <= levels:
        return False
    level = 0
    for bracket in _BRACKET.findall(_IN_QUOTES.sub("", text)):
        level += 1 if bracket in "[{" else -1
        if level > levels:
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
