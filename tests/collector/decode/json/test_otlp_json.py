from __future__ import annotations

import json
import math
from typing import Any

import pytest

from collector.decode.json import otlp_json
from collector.decode.span import MalformedBodyError, Span

TRACE_ID = "0123456789abcdef0123456789abcdef"
SPAN_ID = "0123456789abcdef"


def body(*spans: dict[str, Any], **resource: Any) -> bytes:
    ids = {"traceId": TRACE_ID, "spanId": SPAN_ID}
    group = {"resource": resource, "scopeSpans": [{"spans": [{**ids, **s} for s in spans]}]}
    return json.dumps({"resourceSpans": [group]}).encode()


def one(**fields: Any) -> Span:
    batch = otlp_json.decode(body(fields))
    assert (len(batch.spans), batch.rejected) == (1, 0)
    return batch.spans[0]


def value(**any_value: Any) -> Any:
    return one(attributes=[{"key": "a", "value": any_value}]).attribute(0)


def test_every_field_arrives() -> None:
    """Each field of the span record is the field of the JSON message."""
    got = one(
        parentSpanId=SPAN_ID,
        name="tool",
        kind=2,
        startTimeUnixNano="18446744073709551615",
        endTimeUnixNano=7,
        droppedAttributesCount=4,
        flags=256,
        status={"code": 2, "message": "no"},
        attributes=[{"key": "a", "value": {"stringValue": "x"}}],
        events=[{"name": "e", "timeUnixNano": "9", "attributes": [{"key": "k"}]}],
    )
    assert got.trace_id.hex() == TRACE_ID
    assert got.span_id == got.parent_span_id == bytes.fromhex(SPAN_ID)
    assert (got.name, got.kind, got.status, got.dropped) == ("tool", 2, 2, 4)
    assert (got.start_ns, got.end_ns) == (2**64 - 1, 7)
    assert got.attributes() == {"a": "x"}
    assert got.span_events() == [("e", {"k": None}, 9)]


def test_snake_case_and_null_are_read_as_proto3_json_says() -> None:
    """Original field names are accepted, and null is the default of any field."""
    span: dict[str, Any] = {
        "trace_id": TRACE_ID.upper(),
        "span_id": SPAN_ID,
        "parent_span_id": None,
    }
    span |= {"start_time_unix_nano": 5, "name": None, "attributes": None, "status": None}
    document = {"resource_spans": [{"scope_spans": [{"spans": [span]}], "resource": None}]}
    got = otlp_json.decode(json.dumps(document).encode()).spans[0]
    assert (got.trace_id.hex(), got.start_ns, got.parent_span_id) == (TRACE_ID, 5, b"")
    assert (got.name, got.attributes(), got.status) == ("", {}, 0)


def test_unknown_fields_are_ignored_at_every_level() -> None:
    """A newer sender's fields do no harm."""
    extra: dict[str, Any] = {"new": [{"deep": 1}]}
    pair = {"key": "a", "value": {"intValue": 1, **extra}, **extra}
    span = {"traceId": TRACE_ID, "spanId": SPAN_ID, "attributes": [pair], **extra}
    scope = {"spans": [span], "scope": {"name": "s", **extra}, **extra}
    document = {"resourceSpans": [{"scopeSpans": [scope], "resource": extra, **extra}], **extra}
    assert otlp_json.decode(json.dumps(document).encode()).spans[0].attributes() == {"a": 1}


@pytest.mark.parametrize(
    ("any_value", "expected"),
    [
        ({"stringValue": "ř🐎"}, "ř🐎"),
        ({"boolValue": False}, False),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": 9223372036854775807}, 2**63 - 1),
        ({"intValue": 1.0}, 1),
        ({"intValue": 1e3}, 1000),
        ({"intValue": "1e3"}, 1000),
        ({"doubleValue": 1}, 1.0),
        ({"doubleValue": "1.5"}, 1.5),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"bytesValue": "/+8="}, b"\xff\xef"),
        ({"bytesValue": "_-8"}, b"\xff\xef"),
        ({"arrayValue": {"values": [{"intValue": 1}, {}]}}, [1, None]),
        ({"arrayValue": {}}, []),
        (
            {"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}},
            {"a": True},
        ),
        ({"string_value": "s"}, "s"),
        ({"stringValue": None, "intValue": 2}, 2),
        ({"newValue": 3}, None),
        ({}, None),
    ],
)
def test_values_by_the_rules_of_proto3_json(any_value: dict[str, Any], expected: Any) -> None:
    """AnyValue in each accepted spelling becomes the Python value of its kind."""
    got = value(**any_value)
    assert got == expected
    assert type(got) is type(expected)


def test_not_a_number_is_a_double() -> None:
    """NaN has no JSON number; it is the string."""
    assert math.isnan(value(doubleValue="NaN"))


@pytest.mark.parametrize(
    ("any_value", "said"),
    [
        ({"intValue": 1.5}, "value.intValue: expected an integer, found 1.5"),
        ({"intValue": 2**63}, "expected an integer from -9223372036854775808"),
        ({"intValue": "9223372036854775808"}, "expected an integer from"),
        ({"intValue": True}, "expected an integer, found a boolean"),
        ({"intValue": "x"}, "expected an integer, found 'x'"),
        ({"intValue": "1_0"}, "expected an integer"),
        ({"intValue": 10**400}, "expected an integer from"),
        ({"stringValue": 5}, "expected a string, found 5"),
        ({"boolValue": "true"}, "expected true or false"),
        ({"doubleValue": "nan"}, "expected a number"),
        ({"doubleValue": "1e999"}, "expected a double"),
        ({"bytesValue": "*"}, "expected base64"),
        ({"arrayValue": []}, "expected an object, found an array"),
        ({"arrayValue": {"values": [5]}}, r"values\[0\]: expected an object, found 5"),
        ({"intValue": 1, "boolValue": True}, "holds both intValue and boolValue"),
    ],
)
def test_wrong_values_refuse_the_body_and_name_the_place(
    any_value: dict[str, Any], said: str
) -> None:
    """The error names the span, the attribute and the fault."""
    with pytest.raises(MalformedBodyError, match=said) as error:
        value(**any_value)
    assert str(error.value).startswith(
        "resourceSpans[0].scopeSpans[0].spans[0].attributes[0].value"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"traceId": "ASNFZ4mrze8BI0VniavN7w=="},
            r"spans\[1\].traceId: expected 32 hex digits",
        ),
        ({"traceId": TRACE_ID[:-1]}, "expected 32 hex digits"),
        ({"traceId": TRACE_ID[:-2]}, "expected 32 hex digits"),
        ({"spanId": "zz" * 8}, "spanId: expected 16 hex digits"),
        ({"spanId": 5}, "expected 16 hex digits"),
        ({"parentSpanId": "00"}, "parentSpanId: expected 16 hex digits"),
        ({"startTimeUnixNano": -1}, "startTimeUnixNano: expected an integer from 0"),
        ({"kind": "SPAN_KIND_NEW"}, "kind: expected an integer"),
        ({"kind": 2**31}, "kind: expected an integer from"),
        ({"status": 1}, "status: expected an object"),
        ({"status": {"code": []}}, "status.code: expected an integer, found an array"),
        ({"attributes": {}}, "attributes: expected an array"),
        ({"attributes": [{"key": 1}]}, r"attributes\[0\].key: expected a string"),
        ({"events": [{"timeUnixNano": "x"}]}, r"events\[0\].timeUnixNano: expected"),
        ({"links": 1}, "links: expected an array"),
        ({"traceState": 1}, "traceState: expected a string"),
        ({"name": []}, "name: expected a string"),
    ],
)
def test_wrong_fields_refuse_the_body_and_name_the_place(
    fields: dict[str, Any], said: str
) -> None:
    """Types and ids that no reading makes right are the sender's news."""
    with pytest.raises(MalformedBodyError, match=said):
        otlp_json.decode(body({}, fields))


@pytest.mark.parametrize("fields", [{"traceId": ""}, {"spanId": None}, {"traceId": "0" * 32}])
def test_missing_and_zero_ids_reject_the_span_alone(fields: dict[str, Any]) -> None:
    """As in protobuf, the span is rejected and counted with its position."""
    batch = otlp_json.decode(body({}, fields, {}))
    assert (len(batch.spans), batch.rejected) == (2, 1)
    assert batch.message.startswith("resourceSpans[0].scopeSpans[0].spans[1]: ")


def test_enums_by_number_known_or_not_and_by_name() -> None:
    """Senders must not write names, receivers may read them."""
    assert one(kind="SPAN_KIND_CLIENT", status={"code": "STATUS_CODE_ERROR"}).kind == 3
    assert one(kind=77).kind == 77
    assert one(status={"code": "STATUS_CODE_ERROR"}).status == 2


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b'{"resourceSpans":[]} x',
        b'{"resourceSpans":[]}{}',
        b'\xef\xbb\xbf{"resourceSpans":[]}',
        b'{"resourceSpans":[',
        b'{"a":"\xff"}',
        b"\x0a\x00\xff\x00",
        b'{"resourceSpans":5}',
        b'{"resourceSpans":[5]}',
        b'{"resourceSpans":[{"resource":{"attributes":[{"key":5}]}}]}',
        b'{"resourceSpans":[{"scopeSpans":[{"scope":{"name":5}}]}]}',
        b'{"a":' * 100_000,
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' + b"9" * 5_000 + b"}",
    ],
)
def test_malformed_bodies_are_refused(raw: bytes) -> None:
    """Whatever is not one JSON object of the right shape ends in our own error."""
    with pytest.raises(MalformedBodyError):
        otlp_json.decode(raw)


def test_deep_values_are_refused_with_the_bound() -> None:
    """Nesting has a stated bound, in values as in JSON as a whole."""
    deep: dict[str, Any] = {"intValue": 1}
    for _ in range(49):
        deep = {"arrayValue": {"values": [deep]}}
    with pytest.raises(MalformedBodyError, match="nested more than 48 deep"):
        value(**deep)


def test_an_odd_resource_is_read_without_being_remembered() -> None:
    """A resource that cannot be a cache key (an integer no encoder writes) is read all the same."""
    batch = otlp_json.decode(body({}, big=10**30))
    assert batch.spans[0].resource.attributes == {}


def test_equal_resources_and_shapes_are_shared() -> None:
    """Consumers may cache by them."""
    attributes = [{"key": "service.name", "value": {"stringValue": "rover"}}]
    raw = body({"attributes": attributes}, {"attributes": attributes}, attributes=attributes)
    first, second = otlp_json.decode(raw).spans
    (third, _) = otlp_json.decode(raw).spans
    assert first.resource is second.resource is third.resource
    assert first.resource.attributes == {"service.name": "rover"}
    assert first.shape is second.shape is third.shape


def test_empty_envelopes_hold_no_spans() -> None:
    """`{}` is a valid request."""
    for body in (b"{}", b'{"resourceSpans":[{},{"scopeSpans":[{}]}]}'):
        batch = otlp_json.decode(body)
        assert (batch.spans, batch.rejected, batch.message) == ([], 0, "")
