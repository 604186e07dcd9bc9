"""Attributes with verdicts, added to the spans of judged calls.

Idea: a request is changed only where a span has a verdict. In protobuf, the attributes are appended to the bytes of
that span, and the lengths of what encloses it are written anew. All other bytes stay, so fields that this program does
not know survive. JSON has no such form: a request with a verdict is read and written again, with all of its fields.

Example: a request of 100 spans has two tool calls, one of them harmful. Both spans get `offrails.verdict`,
`offrails.spec` and `offrails.harm_rate`; the harmful one also gets `offrails.reason`. The other 98 spans are copied.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from collector.decode.protobuf.message_classes import varint
from monitor.records import Kind, Verdict

__all__ = ["Marks", "SpanAnnotation", "annotated_json", "annotated_proto", "is_worse"]

GROUP: Final = b"\x0a"
SPANS: Final = b"\x12"
ATTRIBUTE: Final = b"\x4a"
"""Tags: ResourceSpans of a request; ScopeSpans of a resource, and spans of a scope; attributes of a span."""
FIRST: Final = 0x0A
SECOND: Final = 0x12
"""Tags of a span's trace id and of its own id."""
SEVERITIES: Final = ("info", "warning", "critical")
_Tag = int
_DEPTHS: Final[tuple[_Tag, ...]] = (FIRST, SECOND, SECOND)
"""The field that leads one level down: to a resource, a scope, a span."""


class SpanAnnotation(NamedTuple):
    """What the attributes of one span say."""

    verdict: str
    reason: str
    spec: str
    harm_rate: float | None
    """HarmRate of the session under the spec after the request; None without a score."""
    possible: bool
    """True if the call is harmful unless something was missed or is in doubt."""

    def attributes(self) -> list[tuple[str, str | float | bool]]:
        """Key and value of each attribute."""
        found: list[tuple[str, str | float | bool]] = [
            ("offrails.verdict", self.verdict),
            ("offrails.spec", self.spec),
        ]
        if self.reason:
            found.append(("offrails.reason", self.reason))
        if self.harm_rate is not None:
            found.append(("offrails.harm_rate", self.harm_rate))
        if self.possible:
            found.append(("offrails.possible_harm", True))
        return found


Marks = Mapping[bytes, SpanAnnotation]
"""Trace id and span id, joined -> what that span's attributes say."""


def is_worse(verdict: Verdict, other: Verdict) -> bool:
    """True if the verdict of one spec is shown rather than that of another."""
    return _badness(verdict) > _badness(other)


def _badness(verdict: Verdict) -> tuple[bool, bool, int, bool]:
    severity = verdict.severity
    return (
        verdict.kind is Kind.HARMFUL,
        verdict.possible,
        SEVERITIES.index(severity) if severity in SEVERITIES else 0,
        verdict.kind is not Kind.PROGRESS,
    )


# --- protobuf -------------------------------------------------------------------------------------


def annotated_proto(body: bytes, marks: Marks) -> bytes:
    """The request with attributes at the marked spans; the same object if none of them is in it.

    Raises:
        ValueError: it has a form that no encoder writes.
    """
    texts = {key: _fields_of(mark) for key, mark in marks.items()}
    found = _rebuilt(body, 0, len(body), 0, texts)
    return body if found is None else b"".join(found)


def _rebuilt(
    body: bytes, start: int, end: int, depth: int, texts: Mapping[bytes, bytes]
) -> list[bytes] | None:
    """A message's parts, with its changed fields written anew; None if nothing in it changes."""
    if depth == len(_DEPTHS):
        more = texts.get(_ids(body, start, end))
        return None if more is None else [body[start:end], more]
    parts: list[bytes] = []
    at = start
    for tag_at, tag, begin, to in _fields(body, start, end):
        if tag != _DEPTHS[depth]:
            continue
        inner = _rebuilt(body, begin, to, depth + 1, texts)
        if inner is None:
            continue
        head = (GROUP if depth == 0 else SPANS) + varint(sum(map(len, inner)))
        parts += [body[at:tag_at], head, *inner]
        at = to
    return [*parts, body[at:end]] if parts else None


def _ids(body: bytes, start: int, end: int) -> bytes:
    """Trace id and span id of a span, joined."""
    trace_id = b""
    for _, tag, begin, to in _fields(body, start, end):
        if tag == FIRST:
            trace_id = body[begin:to]
        elif tag == SECOND:
            return trace_id + body[begin:to]
    return b""


def _fields(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Each length-delimited field: where its tag begins, the tag, begin and end of its content."""
    while at < end:
        start = at
        tag, at = _varint(body, at, end)
        kind = tag & 7
        if kind == 2:
            length, begin = _varint(body, at, end)
            at = begin + length
            if at > end:
                raise ValueError("it is cut off")
            yield start, tag, begin, at
        elif kind == 0:
            _, at = _varint(body, at, end)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    byte = body[at] if at < end else 0x80
    if byte < 0x80:
        return byte, at + 1
    found = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7
    raise ValueError("it is cut off")


def _fields_of(mark: SpanAnnotation) -> bytes:
    """The attributes as fields of a span."""
    return b"".join(
        _delimited(ATTRIBUTE, _delimited(b"\x0a", key.encode()) + _delimited(b"\x12", value))
        for key, value in ((key, _any_value(value)) for key, value in mark.attributes())
    )


def _any_value(value: str | float | bool) -> bytes:
    if isinstance(value, bool):
        return b"\x10" + bytes((value,))
    if isinstance(value, str):
        return _delimited(b"\x0a", value.encode("utf-8", "replace"))
    return b"\x21" + struct.pack("<d", value)


def _delimited(tag: bytes, content: bytes) -> bytes:
    return tag + varint(len(content)) + content


# --- JSON -----------------------------------------------------------------------------------------


def annotated_json(body: bytes, marks: Marks) -> bytes:
    """The same for a request in JSON; its numbers and texts keep their values, not their spelling.

    Raises:
        ValueError: it is no JSON that Python reads.
    """
    try:
        found = json.loads(body)
        changed = [_add(span, marks) for span in _spans(found)]
        return json.dumps(found, separators=(",", ":")).encode() if any(changed) else body
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _spans(found: Any) -> Iterator[dict[str, Any]]:
    for group in _members(found, "resourceSpans", "resource_spans"):
        for scope in _members(group, "scopeSpans", "scope_spans"):
            for span in _members(scope, "spans"):
                if isinstance(span, dict):
                    yield span


def _members(holder: Any, *names: str) -> Sequence[Any]:
    for name in names if isinstance(holder, dict) else ():
        if isinstance(holder.get(name), list):
            members: list[Any] = holder[name]
            return members
    return ()


def _add(span: dict[str, Any], marks: Marks) -> bool:
    """Adds the attributes to a span; True if it is marked."""
    ids = [
        span.get(name) or span.get(other) or ""
        for name, other in (("traceId", "trace_id"), ("spanId", "span_id"))
    ]
    try:
        mark = marks.get(bytes.fromhex("".join(ids)))
    except (ValueError, TypeError):
        return False
    if mark is None:
        return False
    given = span.get("attributes")
    span["attributes"] = [
        *(given if isinstance(given, list) else ()),
        *({"key": key, "value": _json_value(value)} for key, value in mark.attributes()),
    ]
    return True


def _json_value(value: str | float | bool) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}
