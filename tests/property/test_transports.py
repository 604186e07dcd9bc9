from __future__ import annotations

import base64
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.decode.json import otlp_json
from collector.decode.protobuf import otlp_proto, scan
from collector.decode.span import FIELDS, MalformedBodyError, Span, SpanBatch

CAPTURES = Path(__file__).parents[2] / ".." / "shared" / "captures"
CAPTURED_PER_RUN = 2

# --- the same span in both encodings ---------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=140)
keys = st.sampled_from(["gen_ai.tool.name", "session.id", "a", "", "k" * 130]) | texts
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | texts
    | st.binary(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
pairs = st.lists(st.tuples(keys, values), max_size=6)
ids = st.sampled_from([b"\1" * 8, b"\2" * 8, b"\xab" * 8])
zero_or_id = st.just(bytes(8)) | st.just(b"") | ids
spans = st.fixed_dictionaries(
    {
        "trace_id": st.sampled_from([b"\1" * 16, b"\xfe" * 16, bytes(16), b""]),
        "span_id": zero_or_id,
        "parent_span_id": zero_or_id,
        "name": texts,
        "kind": st.integers(0, 6) | st.integers(-(2**31), 2**31 - 1),
        "start": st.integers(0, 2**64 - 1),
        "end": st.integers(0, 2**64 - 1),
        "attributes": pairs,
        "dropped": st.integers(0, 2**32 - 1),
        "events": st.lists(st.tuples(texts, pairs, st.integers(0, 2**64 - 1)), max_size=2),
        "code": st.sampled_from([0, 1, 2, 9]),
        "flags": st.integers(0, 2**32 - 1),
    }
)
scopes = st.lists(st.tuples(texts, st.lists(spans, max_size=3)), max_size=2)
requests = st.lists(st.tuples(pairs, scopes), max_size=2)


def set_value(target: AnyValue, value: Any) -> None:
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif isinstance(value, bytes):
        target.bytes_value = value
    elif isinstance(value, list):
        target.array_value.SetInParent()
        for item in value:
            set_value(target.array_value.values.add(), item)
    elif isinstance(value, dict):
        target.kvlist_value.SetInParent()
        add_pairs(target.kvlist_value.values, list(value.items()))


def add_pairs(target: Any, items: list[tuple[str, Any]]) -> None:
    for key, value in items:
        pair = target.add(key=key)
        pair.value.SetInParent()
        set_value(pair.value, value)


def as_message(request: Any) -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    for resource, groups in request:
        resource_spans = message.resource_spans.add()
        add_pairs(resource_spans.resource.attributes, resource)
        for scope, items in groups:
            scope_spans = resource_spans.scope_spans.add()
            scope_spans.scope.name = scope
            for item in items:
                span = scope_spans.spans.add(
                    trace_id=item["trace_id"],
                    span_id=item["span_id"],
                    parent_span_id=item["parent_span_id"],
                    name=item["name"],
                    kind=item["kind"],
                    start_time_unix_nano=item["start"],
                    end_time_unix_nano=item["end"],
                    dropped_attributes_count=item["dropped"],
                    flags=item["flags"],
                )
                span.status.code = item["code"]
                add_pairs(span.attributes, item["attributes"])
                for name, attributes, time_ns in item["events"]:
                    event = span.events.add(name=name, time_unix_nano=time_ns)
                    add_pairs(event.attributes, attributes)
    return message


def as_json(message: ExportTraceServiceRequest) -> bytes:
    """The message by the official JSON printer, with ids in hex as OTLP wants them."""
    document = json_format.MessageToDict(message, use_integers_for_enums=True)

    def hex_ids(node: Any) -> None:
        if isinstance(node, dict):
            for key in {"traceId", "spanId", "parentSpanId"} & node.keys():
                node[key] = base64.b64decode(node[key]).hex()
        for child in node.values() if isinstance(node, dict) else node:
            if isinstance(child, dict | list):
                hex_ids(child)

    hex_ids(document)
    return json.dumps(document).encode()


def comparable(value: Any) -> Any:
    """NaN equals itself; 1, 1.0 and True differ."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else ("float", value)
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return type(value).__name__, value


def plain(span: Span) -> tuple[Any, ...]:
    return (
        *(getattr(span, name) for name in FIELDS[:8]),
        comparable(dict(span.resource.attributes)),
        *(getattr(span, name) for name in FIELDS[9:11]),
        span.codec.keys(span.shape),
        [comparable(span.codec.value(raw)) for raw in span.values],
        [(name, comparable(found), time_ns) for name, found, time_ns in span.span_events()],
    )


@given(requests)
def test_both_encodings_give_equal_spans(request: Any) -> None:
    """A batch in protobuf and the same batch in JSON decode to the same spans and rejections."""
    message = as_message(request)
    from_proto = otlp_proto.decode(message.SerializeToString())
    from_json = otlp_json.decode(as_json(message))
    assert list(map(plain, from_proto.spans)) == list(map(plain, from_json.spans))
    assert from_proto.rejected == from_json.rejected
    assert bool(from_proto.message) == bool(from_proto.rejected)


# --- the fast protobuf path against the official classes ---------------------------------------


def python(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [python(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: python(pair.value) for pair in value.kvlist_value.values}
    known = kind is not None and kind != "string_value_strindex"
    return getattr(value, kind) if known and kind is not None else None


def dict_of(items: Any) -> Any:
    return comparable({pair.key: python(pair.value) for pair in items})


def expected(message: ExportTraceServiceRequest) -> list[tuple[Any, ...]]:
    """The spans to accept, read by the official classes alone."""
    rows = []
    for group in message.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                sizes = (len(span.trace_id), len(span.span_id), len(span.parent_span_id))
                if sizes not in {(16, 8, 0), (16, 8, 8)}:
                    continue
                if not any(span.trace_id) or not any(span.span_id):
                    continue
                rows.append(
                    (
                        span.trace_id,
                        span.span_id,
                        span.parent_span_id if any(span.parent_span_id) else b"",
                        span.name,
                        span.kind,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        span.status.code,
                        dict_of(group.resource.attributes),
                        scope.scope.name,
                        span.dropped_attributes_count,
                        tuple(pair.key for pair in span.attributes),
                        [comparable(python(pair.value)) for pair in span.attributes],
                        [
                            (event.name, dict_of(event.attributes), event.time_unix_nano)
                            for event in span.events
                        ],
                    )
                )
    return rows


def check(body: bytes) -> bool:
    """Compare both decoders with the full parser; True if it accepts the body."""
    batch: SpanBatch | None
    try:
        batch = otlp_proto.decode_any(body)
    except MalformedBodyError:
        batch = None
    ours = None if batch is None else list(map(plain, batch.spans))
    scanned = scan.decode(body, otlp_proto.ProtoCodec())
    if scanned is not None:
        assert list(map(plain, scanned.spans)) == ours
        assert batch is not None
        assert not batch.rejects.count
    try:
        message = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return False
    assert ours == expected(message)
    return True


def varint(number: int, spare: int = 0) -> bytes:
    """Encode a number, with `spare` bytes more than it needs."""
    out = bytearray()
    while number > 127 or spare:
        if number <= 127:
            spare -= 1
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, content: bytes, spare: int = 0) -> bytes:
    return varint(number << 3 | 2) + varint(len(content), spare) + content


def any_bytes(value: Any) -> bytes:
    target = AnyValue()
    set_value(target, value)
    return target.SerializeToString()


spare = st.sampled_from([0, 0, 0, 1, 3])
any_values = st.builds(any_bytes, values)
unknown = st.sampled_from(
    [field(77, b"new"), b"\x98\x06\x05", b"\xa5\x06abcd", field(2, b""), b""]
)
strings = st.sampled_from([b"", b"a", b"gen_ai.tool.name", b"x" * 127, b"y" * 128])
pair_fields = (
    st.builds(field, st.just(1), strings, spare)
    | st.builds(field, st.just(2), any_values, spare)
    | unknown
)
odd_pairs = st.lists(pair_fields, max_size=4).map(b"".join)
usual_pairs = st.builds(lambda key, value: field(1, key) + field(2, value), strings, any_values)
span_fields = (
    st.builds(field, st.just(9), usual_pairs | odd_pairs, spare)
    | st.builds(field, st.just(5), strings, spare)
    | st.builds(field, st.just(4), zero_or_id)
    | st.builds(field, st.just(15), st.sampled_from([b"", b"\x18\x02", b"\x18\x01\x12\x01m"]))
    | st.builds(field, st.just(11), st.builds(lambda pair: field(3, pair), odd_pairs))
    | st.sampled_from([b"\x30\x03", b"\x30\xff\xff\xff\xff\x7f", b"\x50\x07", b"\x85\x01abcd"])
    | st.builds(lambda time: b"\x39" + time.to_bytes(8, "little"), st.integers(0, 2**64 - 1))
    | unknown
)
odd_spans = st.lists(span_fields, max_size=8).map(
    lambda fields: field(1, b"\1" * 16) + field(2, b"\2" * 8) + b"".join(fields)
)
scope_fields = (
    st.builds(field, st.just(2), odd_spans)
    | st.builds(field, st.just(1), st.builds(field, st.just(1), strings))
    | unknown.map(lambda blob: b"" if blob[:1] == b"\x12" else blob)
)
odd_scopes = st.lists(scope_fields, max_size=4).map(b"".join)
resource_fields = st.builds(field, st.just(2), odd_scopes) | st.builds(
    field, st.just(1), st.builds(field, st.just(1), odd_pairs)
)
odd_bodies = st.lists(
    st.builds(field, st.just(1), st.lists(resource_fields, max_size=3).map(b"".join)),
    max_size=2,
).map(b"".join)


@given(odd_bodies)
def test_odd_but_valid_bytes_mean_what_the_full_parser_says(body: bytes) -> None:
    """Repeated, missing, unknown and merged fields, in any order, are read as the full parser reads them."""
    assert check(body)


def test_two_keys_in_one_attribute_and_none_in_another() -> None:
    """Keys are matched to their own attribute, not counted off."""
    value = AnyValue(string_value="v").SerializeToString()
    twice = field(1, b"a") + field(2, value) + field(1, b"b")
    none = field(2, value)
    span = field(1, b"\1" * 16) + field(2, b"\2" * 8) + field(9, twice) + field(9, none)
    body = field(1, field(2, field(2, span)))
    assert check(body)
    assert otlp_proto.decode(body).spans[0].attributes() == {"b": "v", "": "v"}
    assert KeyValue.FromString(twice).key == "b"


@cache
def captured_bodies() -> list[bytes]:
    bodies = []
    for path in sorted(CAPTURES.glob("*/*.otlp.jsonl")):
        for line in path.read_bytes().splitlines()[:CAPTURED_PER_RUN]:
            document = json.loads(line)
            bodies.append(_to_proto(document))
    return bodies


def _to_proto(document: Any) -> bytes:
    def base64_ids(node: Any) -> None:
        if isinstance(node, dict):
            for key in {"traceId", "spanId", "parentSpanId"} & node.keys():
                node[key] = base64.b64encode(bytes.fromhex(node[key])).decode()
        for child in node.values() if isinstance(node, dict) else node:
            if isinstance(child, dict | list):
                base64_ids(child)

    base64_ids(document)
    return json_format.ParseDict(document, ExportTraceServiceRequest()).SerializeToString()


@given(st.randoms(use_true_random=False))
def test_mutated_captures_mean_what_the_full_parser_says(random: Any) -> None:
    """Real bodies with flipped, cut, doubled or swapped bytes are read alike or refused, never a crash."""
    bodies = captured_bodies() or pytest.skip("no captures beside the checkout")
    body = bytearray(random.choice(bodies))
    for _ in range(random.randint(0, 3)):
        at = random.randrange(len(body))
        until = min(len(body), at + random.randint(1, 40))
        change = random.randrange(4)
        if change == 0:
            body[at] = random.randrange(256)
        elif change == 1:
            del body[at:until]
        elif change == 2:
            body[at:at] = body[at:until]
        else:
            body[at] ^= 1 << random.randrange(8)
        if not body:
            break
    check(bytes(body))
