"""OTLP/JSON: the proto3 JSON mapping as OTLP changes it (hex ids, enums as integers)."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.conformance.bodies import SPAN_ID, TRACE_ID, json_body
from tests.conformance.case import case
from tests.conformance.http_cases import is_status, partial
from tests.conformance.target import JSON, Target

ATTRIBUTE: dict[str, Any] = {"key": "k", "value": {"stringValue": "v"}}


def attribute(value: Any) -> bytes:
    return json_body(attributes=[{"key": "k", "value": value}])


def edited(place: str, **fields: Any) -> bytes:
    """A body with fields added at a level: root, group, resource, scope group, scope, span."""
    document = json.loads(json_body(events=[{}], links=[{}], attributes=[ATTRIBUTE]))
    group = document["resourceSpans"][0]
    scope_group = group["scopeSpans"][0]
    span = scope_group["spans"][0]
    levels = {
        "root": document,
        "group": group,
        "resource": group["resource"],
        "scope_group": scope_group,
        "scope": scope_group["scope"],
        "span": span,
        "event": span["events"][0],
        "link": span["links"][0],
        "attribute": span["attributes"][0],
        "value": span["attributes"][0]["value"],
    }
    levels[place].update(fields)
    return json.dumps(document).encode()


NULLABLE = {
    "root": ["resourceSpans"],
    "group": ["resource", "scopeSpans", "schemaUrl"],
    "resource": ["attributes", "droppedAttributesCount"],
    "scope_group": ["scope", "spans", "schemaUrl"],
    "scope": ["name", "version", "attributes"],
    "span": [
        "traceState",
        "parentSpanId",
        "name",
        "kind",
        "flags",
        "startTimeUnixNano",
        "endTimeUnixNano",
        "attributes",
        "droppedAttributesCount",
        "events",
        "droppedEventsCount",
        "links",
        "droppedLinksCount",
        "status",
    ],
    "event": ["timeUnixNano", "name", "attributes"],
    "link": ["traceId", "spanId", "attributes"],
    "attribute": ["value"],
}

ACCEPTED: dict[str, list[bytes]] = {
    "upper_case_ids": [json_body(traceId=TRACE_ID.hex().upper(), spanId=SPAN_ID.hex().upper())],
    "int64_as_string_and_number": [
        json_body(startTimeUnixNano=1_700_000_000_000_000_000, endTimeUnixNano="1"),
        attribute({"intValue": "-9223372036854775808"}),
        attribute({"intValue": 9223372036854775807}),
    ],
    "exponent_integers": [json_body(kind=1e0), attribute({"intValue": 1e3})],
    "enum_integers": [json_body(kind=kind, status={"code": 2}) for kind in range(6)],
    "enum_names": [json_body(kind="SPAN_KIND_CLIENT", status={"code": "STATUS_CODE_ERROR"})],
    "unknown_enum_number": [json_body(kind=99, status={"code": 99})],
    "omitted_kind": [edited("span", kind=None)],
    "special_floats": [
        attribute({"doubleValue": value}) for value in ("NaN", "Infinity", "-Infinity", 1, "1")
    ],
    "bytes_in_base64": [
        attribute({"bytesValue": base64.b64encode(b"\xff" * count).decode()})
        for count in range(5)
    ],
    "nested_values": [
        attribute(
            {"arrayValue": {"values": [{"arrayValue": {"values": [{"intValue": "1"}]}}]}}
        ),
        attribute({"kvlistValue": {"values": [ATTRIBUTE]}}),
        attribute({}),
    ],
    "surrogate_escapes": [json_body().replace(b'"conformance"', b'"\\ud83d\\ude9c"')],
    "white_space": [b" \r\n\t" + json_body() + b"\n"],
    "empty_object": [b"{}", b'{"resourceSpans":[]}'],
    "end_before_start": [json_body(startTimeUnixNano="9", endTimeUnixNano="1")],
}
for _name, _bodies in ACCEPTED.items():

    @case(f"http.json.{_name}")
    def _(target: Target, bodies: list[bytes] = _bodies) -> None:
        for body in bodies:
            reply = target.request(body, JSON)
            assert reply.status == 200, (body, reply)
            assert partial(reply)[0] == 0, (body, reply)


for _place, _fields in NULLABLE.items():

    @case(f"http.json.null_in_{_place}")
    def _(target: Target, place: str = _place, fields: list[str] = _fields) -> None:
        """proto3 JSON: null is accepted for any field, and is its default."""
        for field in fields:
            reply = target.request(edited(place, **{field: None}), JSON)
            assert reply.status == 200, (place, field, reply)


@case("http.json.null_ids_are_missing_ids")
def _(target: Target) -> None:
    for field in ("traceId", "spanId"):
        assert partial(target.request(json_body(**{field: None}), JSON))[0] == 1


for _place in (*NULLABLE, "value"):

    @case(f"http.json.unknown_fields_in_{_place}")
    def _(target: Target, place: str = _place) -> None:
        values: list[Any] = [1, "x", None, [], {"deep": [{}]}, 1e300]
        for value in values:
            assert target.request(edited(place, inTheFuture=value), JSON).status == 200


REFUSED: dict[str, list[bytes]] = {
    "base64_ids": [json_body(traceId=base64.b64encode(TRACE_ID).decode())],
    "short_ids": [
        json_body(traceId="5b8e"),
        json_body(spanId="ee"),
        json_body(spanId="e" * 18),
    ],
    "odd_length_ids": [json_body(traceId="5" * 31)],
    "ids_that_are_no_hex": [json_body(spanId="x" * 16), json_body(traceId="-" + "1" * 31)],
    "ids_of_wrong_type": [json_body(traceId=5), json_body(parentSpanId=["ee"])],
    "unknown_enum_name": [json_body(kind="SPAN_KIND_ROVER")],
    "empty_body": [b"", b" \n"],
    "top_level_array_or_scalar": [b"[]", b"1", b'"x"', b"true", b"[{}]"],
    "wrong_types": [
        b'{"resourceSpans":1}',
        b'{"resourceSpans":{}}',
        b'{"resourceSpans":[1]}',
        json_body(name=5),
        json_body(attributes={}),
        json_body(events="x"),
        json_body(status=[]),
        attribute({"stringValue": 5}),
        attribute({"boolValue": "perhaps"}),
        attribute({"bytesValue": "*"}),
    ],
    "int64_overflow": [
        json_body(startTimeUnixNano="18446744073709551616"),
        json_body(endTimeUnixNano=-1),
        attribute({"intValue": "9223372036854775808"}),
    ],
    "fractions_as_integers": [json_body(kind=1.5), attribute({"intValue": 1.5})],
    "trailing_garbage": [json_body() + b"x", json_body() + json_body()],
    "invalid_utf8": [json_body().replace(b"conformance", b"\xff\xfe")],
    "binary_garbage": [b"\x0a\xff\x00\x80", bytes(range(256))],
    "json_with_nan_literal": [json_body(kind=float("nan"))],
}
for _name, _bodies in REFUSED.items():

    @case(f"http.json.{_name}_400")
    def _(target: Target, bodies: list[bytes] = _bodies) -> None:
        """Bad Data: MUST be 400, with a Status in JSON."""
        for body in bodies:
            is_status(target.request(body, JSON), 400, JSON)


def _nested(levels: int) -> bytes:
    value = '{"arrayValue":{"values":[' * levels + '{"intValue":"1"}' + "]}}" * levels
    return attribute("@").replace(b'"@"', value.encode())


DEEP = {
    "5000_deep_value": _nested(5_000),
    "100000_deep_unknown_field": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "100000_open_brackets": b"[" * 100_000,
}
for _name, _body in DEEP.items():

    @case(f"http.json.{_name}_harmless")
    def _(target: Target, body: bytes = _body) -> None:
        assert target.request(body, JSON).status in {200, 400}
        assert target.request(json_body(), JSON).status == 200
