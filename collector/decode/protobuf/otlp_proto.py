"""OTLP/protobuf: ExportTraceServiceRequest bytes to spans.

The protobuf runtime reads the body through two views of opentelemetry-proto trace v1, both with
the official field numbers:

* *Body* has what differs between spans (ids, name, times). Attributes and events stay bytes, so
  values that nobody reads cost no object.
* *Form* has what repeats (kind, status code, attribute keys). Unknown fields are discarded and the
  rest is serialised again. So each span shrinks to a few hundred bytes, which recur and are decoded
  once. The runtime reads the keys, so duplicate fields, odd order and unknown fields mean the same
  as to every other parser.

Strings of the official schema are bytes here, so invalid UTF-8 in a name rejects one span, not its
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError, EncodeError

from collector.decode.memo import Memo
from collector.decode.protobuf import scan
from collector.decode.protobuf.message_classes import BYTES, FIXED64, INT32, UINT32, build
from collector.decode.protobuf.recurring import SHAPES, ProtoCodec, resource_of, scope_name
from collector.decode.shapes import key_of
from collector.decode.span import (
    ATTRIBUTES_MAX,
    NAME_MAX,
    PARENT_ID_SIZES,
    ZERO_SPAN_ID,
    ZERO_TRACE_ID,
    MalformedBodyError,
    OverBound,
    Rejects,
    Resource,
    Span,
    SpanBatch,
    id_fault,
    is_sampled,
    name_fault,
)

__all__ = ["ProtoCodec", "decode", "decode_any"]

ONE: Final = False
MANY: Final = True

_VIEWS: Final = build(
    "offrails.otlp",
    {
        "Body": [("resources", 1, "BodyResource", MANY)],
        # `repeated bytes` joined equals protobuf's merge of a repeated singular message.
        "BodyResource": [("resource", 1, BYTES, MANY), ("scopes", 2, "BodyScope", MANY)],
        "BodyScope": [("scope", 1, BYTES, MANY), ("spans", 2, "BodySpan", MANY)],
        "BodySpan": [
            ("trace_id", 1, BYTES, ONE),
            ("span_id", 2, BYTES, ONE),
            ("trace_state", 3, BYTES, ONE),
            ("parent_span_id", 4, BYTES, ONE),
            ("name", 5, BYTES, ONE),
            ("start_ns", 7, FIXED64, ONE),
            ("end_ns", 8, FIXED64, ONE),
            ("attributes", 9, BYTES, MANY),
            ("events", 11, BYTES, MANY),
        ],
        "Form": [("resources", 1, "FormResource", MANY)],
        "FormResource": [("scopes", 2, "FormScope", MANY)],
        "FormScope": [("spans", 2, "FormSpan", MANY)],
        "FormSpan": [
            ("kind", 6, INT32, ONE),
            ("attributes", 9, "FormAttribute", MANY),
            ("dropped", 10, UINT32, ONE),
            ("events", 11, "Nothing", MANY),
            ("status", 15, "FormStatus", ONE),
        ],
        "FormAttribute": [("key", 1, BYTES, ONE)],
        "FormStatus": [("code", 3, INT32, ONE)],
        "Nothing": [],
        "Cut": [("resources", 1, "CutResource", MANY)],
        "CutResource": [("scopes", 2, "CutScope", MANY)],
        "CutScope": [("spans", 2, BYTES, MANY)],
    },
)
_parse_body: Final = _VIEWS["Body"].FromString
_parse_form: Final = _VIEWS["Form"].FromString
_parse_cut: Final = _VIEWS["Cut"].FromString
_parse_form_span: Final = _VIEWS["FormSpan"].FromString
_own_fields: Final = attrgetter(
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "start_ns",
    "end_ns",
    "attributes",
    "trace_state",
)


class _Form(NamedTuple):
    """The parts that are equal in all spans of one form."""

    kind: int
    status: int
    dropped: int
    shape: tuple[str, ...]
    has_events: bool


_CODEC: Final = ProtoCodec()
_FORMS: Final[Memo[bytes, _Form]] = Memo()


def decode(body: bytes, codec: ProtoCodec = _CODEC) -> SpanBatch:
    """Decode an ExportTraceServiceRequest.

    A span is left out and counted if an id has a wrong length or is all zero, its name is not UTF-8, or
    it is over a bound. Unknown fields, kinds and status codes are accepted, and an end before the start.

    Raises:
        MalformedBodyError: not an ExportTraceServiceRequest.
    """
    batch = scan.decode(body, codec)
    return batch if batch is not None else decode_any(body, codec)


def decode_any(body: bytes, codec: ProtoCodec = _CODEC) -> SpanBatch:
    """Decode any body with the protobuf runtime. This is the reference for `scan.decode`.

    Raises:
        MalformedBodyError: not an ExportTraceServiceRequest.
    """
    try:
        groups = zip(_parse_body(body).resources, _forms(body), strict=True)
    except (DecodeError, EncodeError) as error:
        raise MalformedBodyError(f"not an ExportTraceServiceRequest: {error}") from error
    spans: list[Span] = []
    rejects = Rejects()
    for group, forms in groups:
        resource = resource_of(b"".join(group.resource), codec.sizes)
        for scope, scope_forms in zip(group.scopes, forms.scopes, strict=True):
            name = scope_name(b"".join(scope.scope))
            forms_of = scope_forms.spans[:]
            _read_spans(scope.spans, forms_of, resource, name, spans, rejects, codec)
    return SpanBatch(spans, rejects)


def _forms(body: bytes) -> Any:
    """Return the body with each span cut down to the bytes of its form."""
    form = _parse_form(body)
    form.DiscardUnknownFields()
    return _parse_cut(form.SerializeToString()).resources


def _read_spans(
    messages: Iterable[Any],
    cuts: Iterable[bytes],
    resource: Resource,
    scope: str,
    spans: list[Span],
    rejects: Rejects,
    codec: ProtoCodec,
) -> None:
    """Append the valid spans of one scope. The hot path: each line runs once per span."""
    known = _FORMS.entries
    append = spans.append
    for message, cut in zip(messages, cuts, strict=True):
        try:
            kind, status, dropped, shape, has_events = known.get(cut) or _learn(cut)
        except OverBound as fault:
            rejects.add(_place(spans, rejects), str(fault), "over_bound", resource)
            continue
        trace_id, span_id, parent, name, start_ns, end_ns, values, state = _own_fields(message)
        if (
            len(trace_id) != 16
            or len(span_id) != 8
            or trace_id == ZERO_TRACE_ID
            or span_id == ZERO_SPAN_ID
            or len(parent) not in PARENT_ID_SIZES
        ):
            fault_of_ids = id_fault(trace_id, span_id, parent)
            rejects.add(_place(spans, rejects), fault_of_ids, "bad_id", resource)
            continue
        try:
            name = str(name, "utf-8")
        except UnicodeDecodeError:
            rejects.add(_place(spans, rejects), "name is not valid UTF-8", "bad_name", resource)
            continue
        if len(name) > NAME_MAX:
            rejects.add(_place(spans, rejects), name_fault(name), "over_bound", resource)
            continue
        if parent == ZERO_SPAN_ID:
            parent = b""
        events = message.events if has_events else ()
        # fmt: off
        append(Span(
            trace_id, span_id, parent, name, kind, start_ns, end_ns, status, resource, scope,
            dropped, shape, values, codec, events,
            bool(state) and is_sampled(str(state, "utf-8", "replace")),
        ))
        # fmt: on


def _place(spans: Sequence[Span], rejects: Rejects) -> str:
    return f"span {len(spans) + rejects.count + 1} of the request"


def _learn(cut: bytes) -> _Form:
    """Decode and cache a new form.

    Raises:
        OverBound: too many attributes, or a key that is too long; such forms are not cached.
    """
    message = _parse_form_span(cut)
    few = message.attributes[: ATTRIBUTES_MAX + 1]
    keys = tuple([key_of(pair.key) for pair in few])
    form = _Form(
        kind=message.kind,
        status=message.status.code,
        dropped=message.dropped,
        shape=SHAPES.of(keys),
        has_events=bool(message.events),
    )
    return _FORMS.put(cut, form)
