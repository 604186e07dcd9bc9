"""OTLP requests put together from encoded pieces, so that generating costs little.

Everything is encoded by the protobuf runtime, in the order in which exporters write it; only the
lengths around spans and groups are written here. Attributes that recur are encoded once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from tests.conformance.bodies import raw_field

__all__ = ["Attributes", "Value", "group", "request", "span"]

Value = str | int | float | tuple[str, ...]
Attributes = Iterable[tuple[str, Value]]

_SPANS = ScopeSpans.DESCRIPTOR.fields_by_name["spans"].number
_SCOPE_SPANS = ResourceSpans.DESCRIPTOR.fields_by_name["scope_spans"].number
_RESOURCE_SPANS = 1
_SAMPLED = 0x101
"""Flags as SDKs set them: sampled, and it is known that the parent is not remote."""

_ENDS = {
    code: Span(status=Status(code=code), flags=_SAMPLED).SerializeToString()
    for code in (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_OK)
}


def span(
    trace_id: bytes,
    span_id: bytes,
    parent: bytes,
    name: str,
    kind: Span.SpanKind.ValueType,
    begin: int,
    end: int,
    attributes: Attributes,
    status: Status.StatusCode.ValueType = Status.STATUS_CODE_UNSET,
) -> bytes:
    """One encoded span; times in Unix nanoseconds."""
    head = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent,
        name=name,
        kind=kind,
        start_time_unix_nano=begin,
        end_time_unix_nano=end,
    )
    told = [_attribute(key, value) for key, value in attributes]
    return b"".join([head.SerializeToString(), *told, _ENDS[status]])


@lru_cache(maxsize=4_096, typed=True)
def _attribute(key: str, value: Value) -> bytes:
    """An attribute as a span of nothing else holds it."""
    return Span(attributes=[_pair(key, value)]).SerializeToString()


def _pair(key: str, value: Value) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=key, value=AnyValue(string_value=value))
    if isinstance(value, tuple):
        items = ArrayValue(values=[AnyValue(string_value=item) for item in value])
        return KeyValue(key=key, value=AnyValue(array_value=items))
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    return KeyValue(key=key, value=AnyValue(double_value=value))


def group(resource: Attributes, scope: str, version: str) -> tuple[bytes, bytes]:
    """The encoded beginnings of a resource's spans, and of those of its scope."""
    pairs = [_pair(key, value) for key, value in resource]
    above = ResourceSpans(resource=Resource(attributes=pairs)).SerializeToString()
    named = InstrumentationScope(name=scope, version=version)
    return above, ScopeSpans(scope=named).SerializeToString()


def request(groups: Iterable[tuple[tuple[bytes, bytes], list[bytes]]]) -> bytes:
    """An export request of such groups with their spans."""
    return b"".join(
        raw_field(_RESOURCE_SPANS, above + raw_field(_SCOPE_SPANS, _scope_spans(scope, spans)))
        for (above, scope), spans in groups
    )


def _scope_spans(scope: bytes, spans: list[bytes]) -> bytes:
    return scope + b"".join([raw_field(_SPANS, each) for each in spans])
