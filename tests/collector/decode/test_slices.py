"""Large requests in slices: the same spans, and never much at once."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode.json import otlp_json
from collector.decode.json.slices import SLICE_BYTES, json_slices
from collector.decode.protobuf import otlp_proto
from collector.decode.protobuf.slices import LARGE_BYTES, proto_slices
from collector.decode.span import ATTRIBUTES_MAX, MalformedBodyError, SpanBatch
from tests.conformance.bodies import raw_field

SIZES = st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=4)
"""Spans of each scope of each resource."""


def request(sizes: list[list[int]], text: str = "x") -> ExportTraceServiceRequest:
    found = ExportTraceServiceRequest()
    number = 0
    for place, scopes in enumerate(sizes):
        group = found.resource_spans.add()
        group.resource.attributes.add(key="service.name").value.string_value = f"s{place}"
        for each, count in enumerate(scopes):
            scope = group.scope_spans.add()
            scope.scope.name = f"scope {place} {each}"
            for _ in range(count):
                number += 1
                span = scope.spans.add(trace_id=number.to_bytes(16), span_id=number.to_bytes(8))
                span.attributes.add(key="text").value.string_value = text
    return found


def as_json(message: ExportTraceServiceRequest) -> bytes:
    resources = [
        {
            "resource": {"attributes": [_pair("service.name", _service(group))]},
            "scopeSpans": [
                {
                    "scope": {"name": scope.scope.name},
                    "spans": [
                        {
                            "traceId": span.trace_id.hex(),
                            "spanId": span.span_id.hex(),
                            "attributes": [
                                _pair(each.key, each.value.string_value)
                                for each in span.attributes
                            ],
                        }
                        for span in scope.spans
                    ],
                }
                for scope in group.scope_spans
            ],
        }
        for group in message.resource_spans
    ]
    return json.dumps({"resourceSpans": resources}).encode()


def _service(group: Any) -> str:
    found: str = group.resource.attributes[0].value.string_value
    return found


def _pair(key: str, text: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": text}}


def facts(*batches: SpanBatch) -> list[tuple[Any, ...]]:
    return [
        (span.span_id, span.scope, dict(span.resource.attributes), span.attributes())
        for batch in batches
        for span in batch.spans
    ]


@given(sizes=SIZES)
def test_slices_of_protobuf_hold_the_spans_of_the_whole(sizes: list[list[int]]) -> None:
    """In order, each with its resource and its scope, whatever the size of a slice."""
    body = request(sizes).SerializeToString()
    whole = facts(otlp_proto.decode(body))
    for most in (1, 200, 100_000):
        pieces = [piece for piece in proto_slices(body, most) if piece is not None]
        assert facts(*map(otlp_proto.decode, pieces)) == whole


@given(sizes=SIZES)
def test_slices_of_json_hold_the_spans_of_the_whole(sizes: list[list[int]]) -> None:
    """The slices of a JSON body hold the same spans as the whole body."""
    body = as_json(request(sizes))
    whole = facts(otlp_json.decode(body))
    for most in (1, 200, 100_000):
        pieces = [piece for _, piece in json_slices(body, most)]
        assert facts(*map(otlp_json.decode, pieces)) == whole


def test_slices_are_small() -> None:
    """A megabyte in one scope is cut into pieces of the stated size."""
    body = request([[500]], text="x" * 2_000).SerializeToString()
    pieces = [piece for piece in proto_slices(body) if piece is not None]
    assert len(pieces) >= 4
    assert max(map(len, pieces)) < LARGE_BYTES + 5_000
    texts = [piece for _, piece in json_slices(as_json(request([[500]], text="x" * 2_000)))]
    assert len(texts) >= 4
    assert max(map(len, texts)) < SLICE_BYTES + 5_000


def test_many_small_spans_are_cut_by_their_number() -> None:
    """A slice takes milliseconds also where its spans are tiny."""
    body = request([[2_500]]).SerializeToString()
    pieces = [piece for piece in proto_slices(body) if piece is not None]
    assert [len(otlp_proto.decode(piece).spans) for piece in pieces] == [500] * 5 + [0]
    tiny = raw_field(1, b"".join(raw_field(2, raw_field(2, b"")) for _ in range(5_000)))
    assert len([piece for piece in proto_slices(tiny) if piece is not None]) >= 5


def test_a_large_resource_is_not_repeated_without_end() -> None:
    """The slices together are at most a quarter larger than the whole."""
    message = request([[2_000]], text="x" * 500)
    message.resource_spans[0].resource.attributes.add(key="k").value.string_value = (
        "y" * 300_000
    )
    body = message.SerializeToString()
    assert sum(len(piece) for piece in proto_slices(body) if piece) < 1.3 * len(body)
    text = json.loads(as_json(message))
    text["resourceSpans"][0]["resource"]["attributes"].append(_pair("k", "y" * 300_000))
    body = json.dumps(text).encode()
    assert sum(len(piece) for _, piece in json_slices(body)) < 1.3 * len(body)


@pytest.mark.parametrize("size", [1, 200, 100_000])
def test_a_resource_that_comes_last_or_twice_belongs_to_all_its_spans(size: int) -> None:
    """Protobuf allows any order, and merges what occurs twice."""
    group = request([[3]]).resource_spans[0]
    more = ExportTraceServiceRequest().resource_spans.add()
    more.resource.attributes.add(key="k").value.string_value = "v"
    body = raw_field(
        1,
        raw_field(2, group.scope_spans[0].SerializeToString())
        + raw_field(1, group.resource.SerializeToString())
        + raw_field(1, more.resource.SerializeToString()),
    )
    pieces = [piece for piece in proto_slices(body, size) if piece is not None]
    assert facts(*map(otlp_proto.decode, pieces)) == facts(otlp_proto.decode(body))
    assert facts(otlp_proto.decode(body))[0][2] == {"service.name": "s0", "k": "v"}


GROUP = b"\xa3\x06\x08\x01\xa4\x06"
"""Field 100 as a group with a number in it: proto3 has none, and skips them."""


def test_unknown_fields_and_groups_are_skipped() -> None:
    """Unknown fields and groups are skipped at every level of the envelopes."""
    scope = request([[2]]).resource_spans[0].scope_spans[0].SerializeToString()
    other = raw_field(100, b"z") + b"\xa0\x06\x05" + b"\xa5\x06abcd" + b"\xa1\x06abcdefgh"
    body = raw_field(1, raw_field(2, scope + GROUP) + GROUP + other) + GROUP + other
    pieces = [piece for piece in proto_slices(body) if piece is not None]
    assert facts(*map(otlp_proto.decode, pieces)) == facts(otlp_proto.decode(body))
    assert len(facts(otlp_proto.decode(body))) == 2


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x02\x00",
        b"\x0f",
        b"\xa3\x06\x08\x01",
        b"\xa4\x06",
        b"\xa1\x06abc",
        raw_field(1, b"\x12\x7f"),
        b"\x0a\x02\x23\x2c",  # group 4 ends as group 5
        b"\x0a\x07\x88\x80\x80\x80\x80\x00\x01",  # a tag of six bytes
        b"\x0a\x06\x80\x80\x80\x80\x10\x01",  # a field number of 30 bits
    ],
)
def test_broken_envelopes_are_malformed(body: bytes) -> None:
    """Cut or invalid envelopes are malformed, for the full parser, too."""
    with pytest.raises(MalformedBodyError):
        otlp_proto.decode(body)
    with pytest.raises(MalformedBodyError):
        list(proto_slices(body))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"resourceSpans":1}',
        b'{"resourceSpans":[1]}',
        b'{"resourceSpans":[{"scopeSpans":{}}]}',
        b'{"resourceSpans":[{"scopeSpans":[{"spans":{}}]}]}',
        b'{"resourceSpans":[{"resource":' + b"[" * 100_000 + b"}]}",
    ],
)
def test_broken_json_is_malformed(body: bytes) -> None:
    """Broken JSON is found even where only the envelopes are read."""
    with pytest.raises(MalformedBodyError):
        list(json_slices(body))


def test_nulls_and_other_names_are_read_as_ever() -> None:
    """null is the default, and snake_case is read too."""
    spans = json.loads(as_json(request([[1]])))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    body = json.dumps(
        {
            "resourceSpans": None,
            "resource_spans": [
                {"resource": None, "scopeSpans": None, "scope_spans": [{"spans": spans}]},
                {"scopeSpans": [{"scope": None, "spans": None}]},
                {},
            ],
        }
    ).encode()
    found = [otlp_json.decode(piece) for _, piece in json_slices(body)]
    assert facts(*found) == facts(otlp_json.decode(body))
    assert len(facts(*found)) == 1


def test_a_resource_without_spans_is_checked() -> None:
    """A fault in a resource without spans is found, in a slice of its own."""
    body = b'{"resourceSpans":[{"resource":{"attributes":7}}]}'
    with pytest.raises(MalformedBodyError):
        [otlp_json.decode(piece) for _, piece in json_slices(body)]
    [piece] = proto_slices(raw_field(1, raw_field(1, b"\x0a\x7f")))
    assert piece is not None
    with pytest.raises(MalformedBodyError):
        otlp_proto.decode(piece)


def test_a_span_with_millions_of_fields_is_left_out_unread() -> None:
    """Such a span would take 1 GB to read, so it is left out. Its neighbours are taken."""
    good = request([[1]]).resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    crowd = b"\x4a\x00" * (16 * ATTRIBUTES_MAX)
    body = raw_field(1, raw_field(2, raw_field(2, crowd) + raw_field(2, good)))
    pieces = [piece for piece in proto_slices(body) if piece is not None]
    assert sum(map(len, pieces)) < len(body) / 2
    batches = [otlp_proto.decode(piece) for piece in pieces]
    assert len(facts(*batches)) == 1
    assert [batch.rejects.reasons for batch in batches if batch.rejected] == [{"over_bound": 1}]
    assert f"more than {ATTRIBUTES_MAX} attributes" in batches[0].message


def test_numbers_and_groups_without_end_give_others_their_turn() -> None:
    """Fields that are skipped are work, too: at each level, there are turns between them."""
    numbers = b"\x98\x06\x01" * 5_000
    group = b"\xa3\x06" + numbers + b"\xa4\x06"
    for filler in (numbers, group):
        for body in (filler, raw_field(1, filler), raw_field(1, raw_field(2, filler))):
            turns = [piece for piece in proto_slices(body) if piece is None]
            assert len(turns) >= 5


@given(
    lengths=st.lists(st.sampled_from([0, 1, 120, 127, 128, 300, 16_383, 16_384, 20_000])),
    cut=st.integers(0, 8),
)
def test_lengths_of_every_size_are_read(lengths: list[int], cut: int) -> None:
    """Lengths of one, two and three bytes are read; a cut length is malformed."""
    spans = b"".join(raw_field(2, raw_field(100, b"x" * length)) for length in lengths)
    scope = spans[: len(spans) - cut]
    body = raw_field(1, raw_field(2, scope))
    whole = cut_or_not = None
    with contextlib.suppress(MalformedBodyError):
        whole = otlp_proto.decode(body).rejected
    with contextlib.suppress(MalformedBodyError):
        pieces = [piece for piece in proto_slices(body) if piece is not None]
        cut_or_not = sum(otlp_proto.decode(piece).rejected for piece in pieces)
    assert cut_or_not == whole
