"""OTLP/JSON: ExportTraceServiceRequest to spans, by the proto3 JSON rules as OTLP changes them.

OTLP's own rules (specification.md, "JSON Protobuf Encoding"): trace and span ids are hex, not
base64; enums are integers; unknown fields are ignored. Of proto3 JSON: lowerCamelCase keys
(snake_case is read too), null means default, 64-bit integers as strings or numbers, integral
floats are integers, "NaN" and "Infinity" are doubles, bytes are base64.

The whole body is checked before any span is returned. A fault refuses the body; the error names the place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from collector.decode.json.checked_fields import (
    UINT32,
    UINT64,
    FieldFault,
    enum,
    integer,
    kind_of,
    object_at,
    objects,
    text,
)
from collector.decode.json.hex_ids import hex_id
from collector.decode.json.read_values import attributes, pairs
from collector.decode.memo import Memo
from collector.decode.shapes import Shapes
from collector.decode.sizes import VALUE_BYTES_MIN, Sizes, kept, weight
from collector.decode.span import (
    NAME_MAX,
    ZERO_SPAN_ID,
    MalformedBodyError,
    OverBound,
    Rejects,
    Resource,
    Span,
    SpanBatch,
    SpanEvent,
    id_fault,
    is_sampled,
    name_fault,
)

__all__ = ["JsonCodec", "check_object", "decode", "json_object"]

KINDS: Final = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(
        ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
    )
}
STATUS_CODES: Final = {
    "STATUS_CODE_UNSET": 0,
    "STATUS_CODE_OK": 1,
    "STATUS_CODE_ERROR": 2,
}
_decode_json: Final = msgspec.json.Decoder().decode
_check_json: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode_json: Final = msgspec.json.Encoder().encode


class JsonCodec:
    """Returns values as they are: JSON values are decoded when the body is checked."""

    __slots__ = ("sizes",)

    def __init__(self, sizes: Sizes | None = None) -> None:
        self.sizes = sizes or Sizes()

    def keys(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        return shape

    def is_large(self, raw: Any) -> bool:
        return weight(raw, self.sizes.bytes_max) > self.sizes.bytes_max

    def value(self, raw: Any) -> Any:
        if type(raw) is str and len(raw) <= VALUE_BYTES_MIN:
            return raw
        if self.is_large(raw):
            self.sizes.note()
            return None
        return raw

    def name(self, raw: Any) -> Any:
        return self.value(raw)

    def events(self, raw: list[SpanEvent]) -> list[SpanEvent]:
        return [
            (name, {key: self.value(each) for key, each in values.items()}, time_ns)
            for name, values, time_ns in raw
        ]


_CODEC: Final = JsonCodec()
_SHAPES: Final = Shapes()
_RESOURCES: Final[Memo[bytes, Resource]] = Memo(bytes_max=8 << 20)  # thousands of senders


def json_object(body: bytes) -> Mapping[str, Any]:
    """Parse a body that must be one JSON object.

    Raises:
        MalformedBodyError: empty, not JSON, not UTF-8, nested too deeply, or another kind of value.
    """
    try:
        document = _decode_json(body)
    except RecursionError as error:
        raise MalformedBodyError("JSON is nested too deeply") from error
    except ValueError as error:  # msgspec's errors and UnicodeDecodeError are ValueErrors
        raise MalformedBodyError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedBodyError(f"expected a JSON object, found {kind_of(document)}")
    return document


def check_object(body: bytes) -> None:
    """Check that a body is one JSON object, without decoding its members.

    Raises:
        MalformedBodyError: as `json_object`, except that invalid UTF-8 in texts is accepted.
    """
    try:
        _check_json(body)
    except RecursionError as error:
        raise MalformedBodyError("JSON is nested too deeply") from error
    except ValueError as error:
        raise MalformedBodyError(f"not JSON: {error}") from error


def decode(body: bytes, codec: JsonCodec = _CODEC) -> SpanBatch:
    """Decode an ExportTraceServiceRequest in JSON.

    Spans whose ids are missing, empty or all zero, or over a bound, are left out and counted; ids that are not hex
    of the right length refuse the body (most often they are base64, and every span has them).

    Raises:
        MalformedBodyError: the message names the place, as `resourceSpans[0].scopeSpans[0].spans[3]`.
    """
    spans: list[Span] = []
    rejects = Rejects()
    try:
        groups = objects(json_object(body), "resourceSpans", "resource_spans")
        for index, group in enumerate(groups):
            place = f"resourceSpans[{index}]"
            _read_resource_spans(group, place, spans, rejects, codec)
    except FieldFault as fault:
        raise MalformedBodyError(str(fault)) from None
    return SpanBatch(spans, rejects)


def _read_resource_spans(
    group: Mapping[str, Any],
    place: str,
    spans: list[Span],
    rejects: Rejects,
    codec: JsonCodec,
) -> None:
    try:
        resource = _resource(object_at(group, "resource"), codec.sizes)
        text(group, "schemaUrl", "schema_url")
        scope_groups = objects(group, "scopeSpans", "scope_spans")
    except FieldFault as fault:
        raise fault.within(place) from None
    for index, scope_group in enumerate(scope_groups):
        inner = f"{place}.scopeSpans[{index}]"
        try:
            scope = _scope(object_at(scope_group, "scope"))
            text(scope_group, "schemaUrl", "schema_url")
            items = objects(scope_group, "spans")
        except FieldFault as fault:
            raise fault.within(inner) from None
        _read_spans(items, inner, resource, scope, spans, rejects, codec)


def _read_spans(
    items: Sequence[Mapping[str, Any]],
    place: str,
    resource: Resource,
    scope: str,
    spans: list[Span],
    rejects: Rejects,
    codec: JsonCodec,
) -> None:
    for index, item in enumerate(items):
        try:
            span = _span(item, resource, scope, codec)
        except FieldFault as fault:
            raise fault.within(f"{place}.spans[{index}]") from None
        except OverBound as bound:
            rejects.add(f"{place}.spans[{index}]", str(bound), "over_bound", resource)
            continue
        fault_of_ids = id_fault(span.trace_id, span.span_id, span.parent_span_id)
        if fault_of_ids:
            rejects.add(f"{place}.spans[{index}]", fault_of_ids, "bad_id", resource)
        else:
            spans.append(span)


def _span(item: Mapping[str, Any], resource: Resource, scope: str, codec: JsonCodec) -> Span:
    keys, values = pairs(item, "attributes", 0)
    parent = hex_id(item, 8, "parentSpanId", "parent_span_id")
    _check_unread(item)
    name = text(item, "name")
    found = Span(
        hex_id(item, 16, "traceId", "trace_id"),
        hex_id(item, 8, "spanId", "span_id"),
        b"" if parent == ZERO_SPAN_ID else parent,
        name,
        enum(item, KINDS, "kind"),
        integer(item, UINT64, "startTimeUnixNano", "start_time_unix_nano"),
        integer(item, UINT64, "endTimeUnixNano", "end_time_unix_nano"),
        _status(item),
        resource,
        scope,
        integer(item, UINT32, "droppedAttributesCount", "dropped_attributes_count"),
        _SHAPES.of(keys),
        values,
        codec,
        _events(item),
        is_sampled(text(item, "traceState", "trace_state")),
    )
    if len(name) > NAME_MAX:
        raise OverBound(name_fault(name))
    return found


def _check_unread(item: Mapping[str, Any]) -> None:
    """Check the fields that are not used, so that senders get the faults that other collectors report."""
    integer(item, UINT32, "flags")
    objects(item, "links")
    integer(item, UINT32, "droppedEventsCount", "dropped_events_count")
    integer(item, UINT32, "droppedLinksCount", "dropped_links_count")


def _status(item: Mapping[str, Any]) -> int:
    status = object_at(item, "status")
    try:
        text(status, "message")
        return enum(status, STATUS_CODES, "code")
    except FieldFault as fault:
        raise fault.within("status") from None


def _events(item: Mapping[str, Any]) -> list[SpanEvent]:
    events = []
    for index, event in enumerate(objects(item, "events")):
        try:
            time_ns = integer(event, UINT64, "timeUnixNano", "time_unix_nano")
            events.append((text(event, "name"), attributes(event), time_ns))
        except FieldFault as fault:
            raise fault.within(f"events[{index}]") from None
    return events


def _resource(item: Mapping[str, Any], sizes: Sizes) -> Resource:
    try:
        blob = _encode_json(item)
    except (OverflowError, RecursionError):  # caused by a field that is ignored: not cached
        return Resource(_resource_attributes(item, sizes))
    return _RESOURCES.entries.get(blob) or _RESOURCES.put(
        blob, Resource(_resource_attributes(item, sizes))
    )


def _resource_attributes(item: Mapping[str, Any], sizes: Sizes) -> dict[str, Any]:
    try:
        return kept(attributes(item), sizes.note)
    except FieldFault as fault:
        raise fault.within("resource") from None


def _scope(item: Mapping[str, Any]) -> str:
    try:
        return text(item, "name")
    except FieldFault as fault:
        raise fault.within("scope") from None
