"""Attribute values over the bound are unknown and counted. They crash nothing and are never cut."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.calls.pipeline import Pipeline
from collector.decode.json.otlp_json import JsonCodec
from collector.decode.json.otlp_json import decode as decode_json
from collector.decode.protobuf.otlp_proto import ProtoCodec
from collector.decode.protobuf.otlp_proto import decode as decode_proto
from collector.decode.sizes import (
    KEPT_MAX,
    KEPT_TOTAL_MAX,
    VALUE_BYTES_MIN,
    Sizes,
    kept,
    weight,
)
from collector.decode.span import SpanBatch
from collector.receive.export import Encoding, Export, RequestLimits
from collector.telemetry.counters import Stats
from monitor.engine import Monitor

BOUND = VALUE_BYTES_MIN


def proto(attributes: dict[str, Any], resource: dict[str, str] | None = None) -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    for key, text in (resource or {}).items():
        group.resource.attributes.add(key=key).value.string_value = text
    span = group.scope_spans.add().spans.add(trace_id=b"\1" * 16, span_id=b"\2" * 8)
    span.end_time_unix_nano = 7
    for key, value in attributes.items():
        place = span.attributes.add(key=key).value
        if isinstance(value, dict):
            for name, text in value.items():
                place.kvlist_value.values.add(key=name).value.string_value = text
        else:
            place.string_value = value
    return request.SerializeToString()


def text_json(attributes: dict[str, Any], resource: dict[str, str] | None = None) -> bytes:
    def pairs(given: dict[str, Any]) -> list[Any]:
        return [{"key": key, "value": any_value(value)} for key, value in given.items()]

    def any_value(value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return {"kvlistValue": {"values": pairs(value)}}
        return {"stringValue": value}

    span = {
        "traceId": "01" * 16,
        "spanId": "02" * 8,
        "endTimeUnixNano": 7,
        "attributes": pairs(attributes),
    }
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": pairs(resource or {})},
                    "scopeSpans": [{"spans": [span]}],
                }
            ]
        }
    ).encode()


BODIES = {"proto": proto, "json": text_json}


def decoded(encoding: Encoding, body: bytes, sizes: Sizes) -> SpanBatch:
    if encoding == "proto":
        return decode_proto(body, ProtoCodec(sizes))
    return decode_json(body, JsonCodec(sizes))


@pytest.mark.parametrize("encoding", ["proto", "json"])
@pytest.mark.parametrize(
    "value",
    ["x" * (BOUND + 1), {"a": {"b": "x"}, "c": "y" * (BOUND + 1)}],
    ids=["text", "tree"],
)
def test_a_large_value_is_unknown_and_told_of(encoding: Encoding, value: Any) -> None:
    """The values beside it are read. Each attempt to read the large one is counted."""
    if isinstance(value, dict):
        value = {"a": "b", "c": value["c"]}
    notes: list[int] = []
    sizes = Sizes(BOUND, lambda: notes.append(1))
    body = BODIES[encoding]({"big": value, "small": "s"})
    [span] = decoded(encoding, body, sizes).spans
    assert notes == []
    assert span.attributes() == {"big": None, "small": "s"}
    assert notes == [1]
    assert span.codec.is_large(span.values[0])
    assert not span.codec.is_large(span.values[1])


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_a_value_just_within_the_bound_is_read(encoding: Encoding) -> None:
    """The bound counts the value with its key and framing, so a little less always fits."""
    text = "x" * (BOUND - 100)
    [span] = decoded(encoding, BODIES[encoding]({"k": text}), Sizes(BOUND)).spans
    assert span.attributes() == {"k": text}


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_what_a_resource_keeps_is_small(encoding: Encoding) -> None:
    """A resource lives as long as its sessions, so its large values are dropped."""
    given = {"service.name": "s", "big": "x" * (KEPT_MAX + 1)}
    given |= {f"k{number}": "x" * 8_000 for number in range(20)}
    notes: list[int] = []
    sizes = Sizes(note=lambda: notes.append(1))
    [span] = decoded(encoding, BODIES[encoding]({}, given), sizes).spans
    found = span.resource.attributes
    assert found["service.name"] == "s"
    assert "big" not in found
    assert sum(map(len, found.values())) <= KEPT_TOTAL_MAX
    assert len(notes) == len(given) - len(found)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
)


@given(value=TREES, more=st.integers(0, 50))
def test_weight_grows_with_what_is_in_it(value: Any, more: int) -> None:
    """A value in a list weighs no less, and counting may stop early only above the bound."""
    full = weight(value, 1 << 30)
    assert weight([value, "x" * more], 1 << 30) >= full + more
    assert (weight(value, full) > full) is False
    if full:
        assert weight(value, full - 1) > full - 1


def test_kept_leaves_small_attributes_as_they_are() -> None:
    """Small attributes of any type stay unchanged."""
    given = {"a": "b", "n": 1, "l": ["x"], "none": None}
    assert kept(given, lambda: pytest.fail("nothing is large")) == given


@pytest.mark.parametrize("encoding", ["proto", "json"])
@pytest.mark.parametrize("form", ["text", "kvlist"])
def test_arguments_over_the_bound_are_unknown(encoding: Encoding, form: str) -> None:
    """The call is judged without them, its coverage says why, and the counter counts."""
    big: Any = {"x": "y" * (BOUND + 1)}
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "write",
        "gen_ai.tool.call.arguments": json.dumps(big) if form == "text" else big,
    }
    stats = Stats()
    monitor = Monitor([], started_ns=0)
    pipeline = Pipeline(monitor, stats, lambda verdicts: None)
    export = Export(pipeline.consume, stats, lambda: 10, RequestLimits(value_bytes=BOUND))
    asyncio.run(export.ingest("traces", BODIES[encoding](attributes), encoding, "grpc"))
    assert stats.counts["coverage", "over_bound"] == 1
    assert ("coverage", "arguments_missing") not in stats.counts
    assert ("arguments_unreadable", "gen_ai") not in stats.counts
    assert stats.counts[("attributes_over_bound",)] >= 1
    [seen] = pipeline.inventory
    assert (seen.calls, seen.arguments) == (1, 0)
