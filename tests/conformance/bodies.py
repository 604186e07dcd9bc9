"""Requests that the cases send."""

from __future__ import annotations

import json
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

__all__ = [
    "BODIES",
    "PROTO_BODY",
    "deep",
    "json_body",
    "padded",
    "proto_body",
    "raw_field",
    "varint",
]

TRACE_ID, SPAN_ID = b"\x5b" * 16, b"\xee" * 8


def proto_body(count: int = 1, **fields: Any) -> bytes:
    """Equal spans in protobuf."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "conformance"
    scope = group.scope_spans.add()
    scope.scope.name = "conformance"
    for _ in range(count):
        scope.spans.add(
            **{
                "trace_id": TRACE_ID,
                "span_id": SPAN_ID,
                "name": "conformance",
                "kind": 1,
                "start_time_unix_nano": 1_700_000_000_000_000_000,
                "end_time_unix_nano": 1_700_000_000_000_000_001,
                **fields,
            }
        )
    return request.SerializeToString()


def json_body(**fields: Any) -> bytes:
    """One span in JSON."""
    span = {
        "traceId": TRACE_ID.hex(),
        "spanId": SPAN_ID.hex(),
        "name": "conformance",
        "kind": 1,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000000000000001",
        **fields,
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "x"}}]}
    scope = {"scope": {"name": "conformance"}, "spans": [span]}
    return json.dumps(
        {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
    ).encode()


PROTO_BODY = proto_body()
BODIES = {"pb": PROTO_BODY, "json": json_body()}


def deep(levels: int) -> bytes:
    """A span with an attribute whose value is nested so deeply."""
    blob = AnyValue(string_value="x").SerializeToString()
    for _ in range(levels):
        blob = raw_field(5, raw_field(1, blob))  # AnyValue.array_value, ArrayValue.values
    pair = raw_field(1, b"deep") + raw_field(2, blob)
    span = raw_field(1, TRACE_ID) + raw_field(2, SPAN_ID) + raw_field(9, pair)
    return raw_field(1, raw_field(2, raw_field(2, span)))


def raw_field(number: int, value: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def padded(body: bytes, size: int) -> bytes:
    """A protobuf body made larger than `size` by an unknown field."""
    return body + raw_field(1000, b"x" * size)


def varint(number: int) -> bytes:
    """As the wire format has it."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
