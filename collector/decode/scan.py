"""OTLP/protobuf read byte by byte, where it is written as every encoder writes it.

The same as `otlp_proto.decode_any` for such requests, and no answer for all others: fields of another
wire type, groups, lengths that do not fit, attributes in odd order, and spans with any fault are
left to the protobuf runtime, which knows what they mean. Nothing is decided here that it would
decide otherwise.

Compiled, this takes half of the time that the runtime and what we do with its objects take, because
no object is made but those that spans keep. As plain Python it is slow, and not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from collector.decode.memo import Memo
from collector.decode.recurring import ProtoCodec, resource_of, scope_name, shared_shape
from collector.decode.span import (
    NAME_MAX,
    ZERO_SPAN_ID,
    ZERO_TRACE_ID,
    Batch,
    Malformed,
    Rejects,
    Resource,
    Span,
    is_sampled,
    key_fault,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

__all__ = ["COMPILED", "decode"]

COMPILED: Final = not __file__.endswith((".py", ".pyc"))
"""Whether this module runs as machine code."""

# Tags: a field's number and wire type (2 length-delimited, 1 and 5 fixed, 0 varint), as one byte.
_RESOURCE_SPANS: Final = 0x0A
_RESOURCE: Final = 0x0A
_SCOPE_SPANS: Final = 0x12
_SCOPE: Final = 0x0A
_SPANS: Final = 0x12
_SCHEMA_URL: Final = 0x1A
_TRACE_ID: Final = 0x0A
_SPAN_ID: Final = 0x12
_TRACE_STATE: Final = 0x1A
_PARENT_SPAN_ID: Final = 0x22
_NAME: Final = 0x2A
_KIND: Final = 0x30
_START: Final = 0x39
_END: Final = 0x41
_ATTRIBUTE: Final = 0x4A
_DROPPED: Final = 0x50
_EVENT: Final = 0x5A
_DROPPED_EVENTS: Final = 0x60
_LINK: Final = 0x6A
_DROPPED_LINKS: Final = 0x70
_STATUS: Final = 0x7A
_FLAGS: Final = 0x85
"""Of two bytes, the second 1."""
_KEY: Final = 0x0A
_VALUE: Final = 0x12
_MESSAGE: Final = 0x12
_CODE: Final = 0x18
_EVENT_TIME: Final = 0x09
_EVENT_NAME: Final = 0x12
_EVENT_ATTRIBUTE: Final = 0x1A
_EVENT_DROPPED: Final = 0x20

_INT32_MAX: Final = 0x7FFFFFFF
_VARINT_BITS_MAX: Final = 35
"""Longer varints are negative numbers, or oddly written: not ours to read."""

_new: Any = tuple.__new__
"""NamedTuple's own constructor costs twice as much."""

_SHAPES: Final[Memo[tuple[str, ...]]] = Memo()
"""Attribute keys as they are on the wire, each with its length -> the shape, if it has no fault."""


class _Unusual(Exception):  # noqa: N818 - an outcome: the runtime reads it
    """The body is not written in the one way that is read here."""


def decode(body: bytes, codec: ProtoCodec) -> Batch | None:
    """The spans of an ExportTraceServiceRequest; None where the runtime has to read it."""
    spans: list[Span] = []
    try:
        _read_request(body, codec, spans)
    except (_Unusual, IndexError, UnicodeDecodeError, Malformed):
        return None
    return Batch(spans, Rejects())


def _varint(body: bytes, at: i64) -> tuple[i64, i64]:
    """A number of at most 35 bits, and where it ends."""
    value: i64 = 0
    shift: i64 = 0
    while shift < _VARINT_BITS_MAX:
        byte: i64 = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _Unusual


def _block(body: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Where a length-delimited field begins and ends, whose length is at `at`."""
    size: i64 = body[at]
    at += 1
    if size >= 0x80:
        size, at = _varint(body, at - 1)
    stop = at + size
    if stop > end:
        raise _Unusual
    return at, stop


def _small(body: bytes, at: i64) -> tuple[i64, i64]:
    """A varint that is no negative int32, and where it ends."""
    value, at = _varint(body, at)
    if value > _INT32_MAX:
        raise _Unusual
    return value, at


def _fixed64(body: bytes, at: i64, end: i64) -> i64:
    """Eight bytes, little-endian, below 2^63."""
    if at + 8 > end or body[at + 7] >= 0x80:
        raise _Unusual
    value: i64 = 0
    place: i64 = 7
    while place >= 0:
        byte: i64 = body[at + place]
        value = value << 8 | byte
        place -= 1
    return value


def _read_request(body: bytes, codec: ProtoCodec, spans: list[Span]) -> None:
    at: i64 = 0
    end: i64 = len(body)
    while at < end:
        if body[at] != _RESOURCE_SPANS:
            raise _Unusual
        at, stop = _block(body, at + 1, end)
        _read_resource_spans(body, at, stop, codec, spans)
        at = stop


def _read_resource_spans(
    body: bytes, at: i64, end: i64, codec: ProtoCodec, spans: list[Span]
) -> None:
    resource = resource_of(_all(body, at, end, _RESOURCE, _SCOPE_SPANS), codec.sizes)
    while at < end:
        tag: i64 = body[at]
        at, stop = _block(body, at + 1, end)
        if tag == _SCOPE_SPANS:
            _read_scope_spans(body, at, stop, resource, codec, spans)
        at = stop


def _read_scope_spans(
    body: bytes, at: i64, end: i64, resource: Resource, codec: ProtoCodec, spans: list[Span]
) -> None:
    scope = scope_name(_all(body, at, end, _SCOPE, _SPANS))
    while at < end:
        tag: i64 = body[at]
        at, stop = _block(body, at + 1, end)
        if tag == _SPANS:
            spans.append(_span(body, at, stop, resource, scope, codec))
        at = stop


def _all(body: bytes, at: i64, end: i64, wanted: i64, other: i64) -> bytes:
    """One field's content, several of it joined as protobuf merges messages; and no odd field."""
    found = b""
    while at < end:
        tag: i64 = body[at]
        at, stop = _block(body, at + 1, end)
        if tag == wanted:
            found = found + body[at:stop] if found else body[at:stop]
        elif tag != other and tag != _SCHEMA_URL:
            raise _Unusual
        at = stop
    return found


def _span(
    body: bytes, at: i64, end: i64, resource: Resource, scope: str, codec: ProtoCodec
) -> Span:
    """One Span message. Of a field that comes twice the last counts, as the runtime has it."""
    trace_id = span_id = parent = name = state = b""
    kind: i64 = 0
    start_ns: i64 = 0
    end_ns: i64 = 0
    dropped: i64 = 0
    status: i64 = 0
    flags: i64 = 0
    keys: list[bytes] = []
    values: list[bytes] = []
    events: list[bytes] = []
    while at < end:
        tag: i64 = body[at]
        at += 1
        if tag == _ATTRIBUTE:
            at, stop = _block(body, at, end)
            keys.append(_key(body, at, stop))
            values.append(body[at:stop])
            at = stop
        elif tag == _START:
            start_ns = _fixed64(body, at, end)
            at += 8
        elif tag == _END:
            end_ns = _fixed64(body, at, end)
            at += 8
        elif tag == _KIND:
            kind, at = _small(body, at)
        elif tag == _FLAGS:
            if body[at] != 1 or at + 5 > end:
                raise _Unusual
            flags = _fixed32(body, at + 1)
            at += 5
        elif tag == _DROPPED:
            dropped, at = _small(body, at)
        elif tag in (_DROPPED_EVENTS, _DROPPED_LINKS):
            _skipped, at = _varint(body, at)
        else:
            at, stop = _block(body, at, end)
            if tag == _TRACE_ID:
                trace_id = body[at:stop]
            elif tag == _SPAN_ID:
                span_id = body[at:stop]
            elif tag == _PARENT_SPAN_ID:
                parent = body[at:stop]
            elif tag == _NAME:
                name = body[at:stop]
            elif tag == _STATUS:
                status = _status(body, at, stop, status)
            elif tag == _EVENT:
                _check_event(body, at, stop)
                events.append(body[at:stop])
            elif tag == _TRACE_STATE:
                state = body[at:stop]
            elif tag != _LINK:
                raise _Unusual
            at = stop
    if at != end:
        raise _Unusual
    if len(trace_id) != 16 or len(span_id) != 8 or (parent and len(parent) != 8):
        raise _Unusual
    if trace_id == ZERO_TRACE_ID or span_id == ZERO_SPAN_ID:
        raise _Unusual
    if parent == ZERO_SPAN_ID:
        parent = b""
    title = name.decode("utf-8")
    if len(title) > NAME_MAX:
        raise _Unusual
    # fmt: off
    span: Span = _new(Span, (
        trace_id, span_id, parent, title, kind, start_ns, end_ns, status, resource, scope,
        dropped, flags, _shape(keys), values, codec, events,
        bool(state) and is_sampled(state.decode("utf-8", "replace")),
    ))
    # fmt: on
    return span


def _fixed32(body: bytes, at: i64) -> i64:
    b0: i64 = body[at]
    b1: i64 = body[at + 1]
    b2: i64 = body[at + 2]
    b3: i64 = body[at + 3]
    return b0 | b1 << 8 | b2 << 16 | b3 << 24


def _key(body: bytes, at: i64, end: i64) -> bytes:
    """The key, with its length, of a KeyValue that is its key, then its value, and nothing else."""
    if at == end or body[at] != _KEY:
        raise _Unusual
    at += 1
    _begin, stop = _block(body, at, end)
    if stop != end and (body[stop] != _VALUE or _block(body, stop + 1, end)[1] != end):
        raise _Unusual
    return body[at:stop]


def _shape(keys: list[bytes]) -> tuple[str, ...]:
    """The shape of a span with these keys, each behind its length."""
    raw = b"".join(keys)
    known = _SHAPES.entries.get(raw)
    if known is not None:
        return known
    texts = tuple([_text(key) for key in keys])
    if key_fault(texts):
        raise _Unusual
    return _SHAPES.put(raw, shared_shape(texts))


def _text(key: bytes) -> str:
    at, stop = _block(key, 0, len(key))
    return str(key[at:stop], "utf-8", "replace")


def _status(body: bytes, at: i64, end: i64, status: i64) -> i64:
    """The code of a Status message; `status` where it has none."""
    while at < end:
        tag: i64 = body[at]
        if tag == _CODE:
            status, at = _small(body, at + 1)
        elif tag == _MESSAGE:
            _begin, at = _block(body, at + 1, end)
        else:
            raise _Unusual
    if at != end:
        raise _Unusual
    return status


def _check_event(body: bytes, at: i64, end: i64) -> None:
    """That an Event message is well-formed, as far as the runtime looks: its own fields."""
    while at < end:
        tag: i64 = body[at]
        if tag == _EVENT_TIME:
            at += 9
        elif tag in (_EVENT_NAME, _EVENT_ATTRIBUTE):
            _begin, at = _block(body, at + 1, end)
        elif tag == _EVENT_DROPPED:
            _skipped, at = _varint(body, at + 1)
        else:
            raise _Unusual
    if at != end:
        raise _Unusual
