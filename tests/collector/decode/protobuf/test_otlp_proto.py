from __future__ import annotations

import base64
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from collector.decode.json import otlp_json
from collector.decode.protobuf import otlp_proto
from collector.decode.span import FIELDS, MalformedBodyError, Span
from tests.captures import CAPTURES, NO_CAPTURES, SAMPLED_CAPTURES, capture_name


def request(**fields: Any) -> tuple[ExportTraceServiceRequest, SpanMessage]:
    """A request with one span of valid ids."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "rover"
    scope = group.scope_spans.add()
    scope.scope.name = "lib"
    fields = {"trace_id": b"\1" * 16, "span_id": b"\2" * 8, **fields}
    return message, scope.spans.add(**fields)


def one(message: ExportTraceServiceRequest) -> Span:
    batch = otlp_proto.decode(message.SerializeToString())
    assert (len(batch.spans), batch.rejected, batch.message) == (1, 0, "")
    return batch.spans[0]


def python(value: AnyValue) -> Any:
    """The oracle's reading of a value."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [python(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: python(pair.value) for pair in value.kvlist_value.values}
    return None if kind is None else getattr(value, kind)


def to_message(line: bytes) -> ExportTraceServiceRequest:
    """OTLP/JSON to protobuf by the real classes (which want base64 where OTLP has hex)."""
    document = json.loads(line)

    def base64_ids(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else ():
            if key in {"traceId", "spanId", "parentSpanId"}:
                node[key] = base64.b64encode(bytes.fromhex(value)).decode()
        for child in node.values() if isinstance(node, dict) else node:
            if isinstance(child, dict | list):
                base64_ids(child)

    base64_ids(document)
    return json_format.ParseDict(document, ExportTraceServiceRequest())


def test_every_field_arrives() -> None:
    """Each field of the span record is the field of the message."""
    message, span = request(
        parent_span_id=b"\3" * 8,
        name="execute_tool é",
        kind=3,
        start_time_unix_nano=2**63 + 5,
        end_time_unix_nano=7,
        dropped_attributes_count=4,
        flags=0x300,
    )
    span.status.code = Status.STATUS_CODE_ERROR
    span.status.message = "no"
    span.attributes.add(key="a").value.string_value = "x"
    event = span.events.add(name="happened", time_unix_nano=9)
    event.attributes.add(key="k").value.int_value = 1
    got = one(message)
    assert tuple(getattr(got, name) for name in FIELDS[:8]) == (
        b"\1" * 16, b"\2" * 8, b"\3" * 8, "execute_tool é", 3, 2**63 + 5, 7, 2,
    )  # fmt: skip
    assert got.resource.attributes == {"service.name": "rover"}
    assert (got.scope, got.dropped) == ("lib", 4)
    assert got.codec.keys(got.shape) == ("a",)
    assert got.attribute(0) == "x"
    assert got.attributes() == {"a": "x"}
    assert got.span_events() == [("happened", {"k": 1}, 9)]


def test_empty_bodies_hold_no_spans() -> None:
    """An empty body is a valid protobuf message, and so are empty envelopes."""
    for message in (
        ExportTraceServiceRequest(),
        ExportTraceServiceRequest(resource_spans=[ResourceSpans()]),
    ):
        batch = otlp_proto.decode(message.SerializeToString())
        assert (batch.spans, batch.rejected, batch.message) == ([], 0, "")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"trace_id": b"\1" * 15}, "trace id has 15 bytes, expected 16"),
        ({"trace_id": b""}, "trace id has 0 bytes, expected 16"),
        ({"trace_id": bytes(16)}, "trace id is all zero"),
        ({"span_id": b"\1" * 9}, "span id has 9 bytes, expected 8"),
        ({"span_id": bytes(8)}, "span id is all zero"),
        ({"parent_span_id": b"\1"}, "parent span id has 1 bytes, expected 0 or 8"),
    ],
)
def test_bad_ids_reject_the_span_alone(fields: dict[str, bytes], fault: str) -> None:
    """One bad span is rejected, its neighbours are accepted, and the first fault is reported."""
    message, span = request()
    spans = message.resource_spans[0].scope_spans[0].spans
    bad = SpanMessage()
    bad.CopyFrom(span)
    for name, value in fields.items():
        setattr(bad, name, value)
    spans.extend([bad, bad, span])
    batch = otlp_proto.decode(message.SerializeToString())
    assert (len(batch.spans), batch.rejected) == (2, 2)
    assert batch.message == f"span 2 of the request: {fault}"


def test_a_name_that_is_not_utf8_rejects_the_span_alone() -> None:
    """The rest of the batch is not lost for the bytes of one name."""
    message, span = request(name="NAME")
    message.resource_spans[0].scope_spans[0].spans.add().CopyFrom(span)
    body = message.SerializeToString().replace(b"NAME", b"\xff\xff\xff\xff", 1)
    batch = otlp_proto.decode(body)
    assert [span.name for span in batch.spans] == ["NAME"]
    assert batch.message == "span 1 of the request: name is not valid UTF-8"


def test_a_parent_of_zeros_is_a_root() -> None:
    """Some senders write eight zero bytes for "no parent"."""
    message, _ = request(parent_span_id=bytes(8))
    assert one(message).parent_span_id == b""


def test_odd_spans_are_not_refused() -> None:
    """An end before the start, an unknown kind and an unknown status code are no fault."""
    message, span = request(start_time_unix_nano=5, end_time_unix_nano=1)
    span.MergeFromString(b"\x30\xe7\x07\x7a\x02\x18\x63")  # kind 999, status { code 99 }
    got = one(message)
    assert (got.kind, got.status, got.end_ns) == (999, 99, 1)


def test_equal_keys_share_one_shape_whatever_else_differs() -> None:
    """Shapes depend on keys and their order, not on values, kind or flags."""
    shapes = []
    for keys, kind in (("ab", 1), ("ab", 3), ("ba", 1), ("a", 1)):
        message, span = request(kind=kind)
        for key in keys:
            span.attributes.add(key=key).value.string_value = "v" * kind
        shapes.append(one(message).shape)
    assert shapes[0] is shapes[1]
    assert len(set(shapes)) == 3


def test_a_resource_is_one_object_over_requests() -> None:
    """Consumers may cache by resource object."""
    message, _ = request()
    assert one(message).resource is one(message).resource


@pytest.mark.parametrize(
    "body",
    [b"\xff", b"\x0a\x05ab", b"garbage", b"\x0a\x04\x12\x02\x12\xff", b"{}"],
)
def test_malformed_bodies_are_refused(body: bytes) -> None:
    """Bodies that the protobuf runtime refuses are refused with our own error."""
    with pytest.raises(MalformedBodyError, match="not an ExportTraceServiceRequest"):
        otlp_proto.decode(body)


def test_a_malformed_resource_refuses_the_body() -> None:
    """If the resource is malformed, the sender is unknown, so the body is refused."""
    with pytest.raises(MalformedBodyError, match="resource"):
        otlp_proto.decode(b"\x0a\x04\x0a\x02\x0a\xff")


def test_duplicate_keys_last_wins() -> None:
    """The last value of a repeated key counts, as in a map."""
    message, span = request()
    span.attributes.add(key="a").value.string_value = "first"
    span.attributes.add(key="a").value.int_value = 2
    got = one(message)
    assert got.codec.keys(got.shape) == ("a", "a")
    assert got.attributes() == {"a": 2}


@pytest.mark.skipif(not CAPTURES, reason=NO_CAPTURES)
@pytest.mark.parametrize("path", SAMPLED_CAPTURES, ids=capture_name)
def test_captures_equal_the_full_parser(path: Path) -> None:
    """Every captured span, in both encodings, equals what the official classes read."""
    for line in path.read_bytes().splitlines():
        message = to_message(line)
        from_proto = otlp_proto.decode(message.SerializeToString())
        from_json = otlp_json.decode(line)
        assert from_proto.rejected == from_json.rejected == 0
        expected = [
            (span, scope.scope.name, group.resource)
            for group in message.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]
        assert len(from_proto.spans) == len(from_json.spans) == len(expected) > 0
        for ours, theirs, (span, scope, resource) in zip(
            from_proto.spans, from_json.spans, expected, strict=True
        ):
            for name in FIELDS[:8]:
                assert getattr(ours, name) == getattr(theirs, name), name
            assert ours.shape == theirs.shape == tuple(pair.key for pair in span.attributes)
            values = {pair.key: python(pair.value) for pair in span.attributes}
            assert ours.attributes() == theirs.attributes() == values
            assert ours.span_events() == theirs.span_events()
            assert len(ours.span_events()) == len(span.events)
            assert (ours.name, ours.kind, ours.status) == (
                span.name, span.kind, span.status.code,
            )  # fmt: skip
            assert ours.scope == theirs.scope == scope
            assert ours.resource.attributes == theirs.resource.attributes
            assert len(ours.resource.attributes) == len(resource.attributes)


def test_hostile_variety_does_not_grow_memory_without_bound() -> None:
    """Ever new attribute keys are forgotten again."""
    message, span = request()
    pair = span.attributes.add(key="k")
    tracemalloc.start()
    try:
        for number in range(400):
            pair.key = f"{number:06d}" * 9_000
            otlp_proto.decode(message.SerializeToString())
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= 4 * (2 << 20)
