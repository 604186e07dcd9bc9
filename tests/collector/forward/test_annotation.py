"""Attributes with verdicts in requests, against the official messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.forward.annotation import SpanAnnotation, annotated_json, annotated_proto
from collector.forward.transcode import to_protobuf
from tests.captures import CAPTURES, NO_CAPTURES, SAMPLED_CAPTURES, capture_name

MARK = SpanAnnotation("harmful", "out_of_order", "farm_rover", 0.25, possible=False)
MARKS = st.builds(
    SpanAnnotation,
    st.sampled_from(["progress", "harmful"]),
    st.text(max_size=200),
    st.text(max_size=5),
    st.none() | st.floats(0, 1),
    possible=st.booleans(),
)


def expected(mark: SpanAnnotation) -> list[KeyValue]:
    """The attributes, made by the official classes."""
    found = [
        KeyValue(key="offrails.verdict", value=AnyValue(string_value=mark.verdict)),
        KeyValue(key="offrails.spec", value=AnyValue(string_value=mark.spec)),
    ]
    if mark.reason:
        found.append(KeyValue(key="offrails.reason", value=AnyValue(string_value=mark.reason)))
    if mark.harm_rate is not None:
        found.append(
            KeyValue(key="offrails.harm_rate", value=AnyValue(double_value=mark.harm_rate))
        )
    if mark.possible:
        found.append(KeyValue(key="offrails.possible_harm", value=AnyValue(bool_value=True)))
    return found


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def annotated(request: ExportTraceServiceRequest, marks: dict[bytes, SpanAnnotation]) -> bytes:
    """The request with what is to be added, by the official classes."""
    wanted = ExportTraceServiceRequest()
    wanted.CopyFrom(request)
    for span in spans_of(wanted):
        mark = marks.get(span.trace_id + span.span_id)
        if mark is not None:
            span.attributes.extend(expected(mark))
    return wanted.SerializeToString(deterministic=True)


UNKNOWN = st.sampled_from(
    [
        b"",
        b"\xf8\x3f\x96\x01",  # field 1023, a number
        b"\xfa\x3f\x03new",  # field 1023, bytes
        b"\xfd\x3f\1\2\3\4",  # field 1023, 4 bytes
        b"\xf9\x3f\1\2\3\4\5\6\7\x08",  # field 1023, 8 bytes
    ]
)


@st.composite
def requests(draw: Any) -> tuple[ExportTraceServiceRequest, dict[bytes, SpanAnnotation]]:
    """A request with fields of a later version anywhere, and marks for some of its spans and for others."""
    request = ExportTraceServiceRequest()
    marks: dict[bytes, SpanAnnotation] = {}
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="a").value.string_value = draw(st.text())
        resource.MergeFromString(draw(UNKNOWN))
        for _ in range(draw(st.integers(0, 2))):
            scope = resource.scope_spans.add()
            scope.MergeFromString(draw(UNKNOWN))
            for _ in range(draw(st.integers(0, 4))):
                number += 1
                span = scope.spans.add(
                    trace_id=number.to_bytes(16, "big"),
                    span_id=number.to_bytes(8, "big"),
                    name=draw(st.text(max_size=300)),
                )
                if draw(st.booleans()):
                    span.attributes.add(key="x").value.int_value = 1
                span.MergeFromString(draw(UNKNOWN))
                if draw(st.booleans()):
                    marks[span.trace_id + span.span_id] = draw(MARKS)
    if draw(st.booleans()):
        marks[b"other" * 5] = MARK
    return request, marks


@given(requests())
def test_spans_equal_the_original_plus_attributes(
    given: tuple[ExportTraceServiceRequest, dict[bytes, SpanAnnotation]],
) -> None:
    """Marked spans have the attributes behind their own; all else, unknown fields too, is as it was."""
    request, marks = given
    body = request.SerializeToString(deterministic=True)
    found = annotated_proto(body, marks)

    parsed = ExportTraceServiceRequest.FromString(found)
    assert parsed.SerializeToString(deterministic=True) == annotated(request, marks)
    marked = any(each.trace_id + each.span_id in marks for each in spans_of(request))
    assert (found is body) == (not marked)


@given(requests())
def test_json_says_the_same(
    given: tuple[ExportTraceServiceRequest, dict[bytes, SpanAnnotation]],
) -> None:
    """A request in JSON gets the same attributes, in JSON's form."""
    request, marks = given
    found = MessageToDict(request)
    for resource in found.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            for number, span in enumerate(scope.get("spans", ())):
                for key in ("traceId", "spanId"):
                    import base64

                    span[key] = base64.b64decode(span[key]).hex()
                span["later"] = {"version": number}
    body = json.dumps(found).encode()
    made = annotated_json(body, marks)

    wanted = ExportTraceServiceRequest.FromString(annotated(request, marks))
    wanted.DiscardUnknownFields()
    parsed = ExportTraceServiceRequest.FromString(to_protobuf("traces", made))
    assert parsed == wanted
    assert made.count(b'"later":') == body.count(b'"later":')


def test_the_rest_is_the_same_bytes() -> None:
    """Order, repeated fields and overlong numbers that no encoder writes stay around a marked span."""
    ids = b"\x0a\x10" + b"\1" * 16 + b"\x12\x08" + b"\2" * 8
    span = b"\x2a\x81\x00x" + ids + b"\x2a\x01y"  # a name twice, the first length overlong
    scope = b"\x1a\x01s" + b"\x12" + bytes((len(span),)) + span + b"\x0a\x00"
    group = b"\x12" + bytes((len(scope),)) + scope + b"\x0a\x82\x00\x20\x01"
    body = b"\x10\x07" + b"\x0a" + bytes((len(group),)) + group
    found = annotated_proto(body, {b"\1" * 16 + b"\2" * 8: MARK})

    added = len(found) - len(body)
    assert found.startswith(b"\x10\x07\x0a")
    assert b"\x1a\x01s\x12" in found
    assert span in found
    assert found.endswith(b"\x0a\x00" + b"\x0a\x82\x00\x20\x01")
    assert added > 90
    ((parsed,),) = [[*spans_of(ExportTraceServiceRequest.FromString(found))]]
    assert [each.key for each in parsed.attributes] == [
        "offrails.verdict",
        "offrails.spec",
        "offrails.reason",
        "offrails.harm_rate",
    ]


@given(st.binary(max_size=100))
def test_no_bytes_crash_it(body: bytes) -> None:
    """Whatever the bytes are, they are annotated, left alone, or refused."""
    for annotate in (annotated_proto, annotated_json):
        try:
            annotate(body, {b"\1" * 24: MARK})
        except ValueError:
            continue


@pytest.mark.skipif(not CAPTURES, reason=NO_CAPTURES)
@pytest.mark.parametrize("file", SAMPLED_CAPTURES, ids=capture_name)
def test_annotated_captures_are_official_messages(file: Path) -> None:
    """Every span of real instrumentations can be annotated, and parses as it did, with the attributes."""
    for body in file.read_bytes().splitlines():
        proto = to_protobuf("traces", body)
        request = ExportTraceServiceRequest.FromString(proto)
        marks = {each.trace_id + each.span_id: MARK for each in spans_of(request)}
        assert marks
        wanted = annotated(request, marks)
        for made in (
            annotated_proto(proto, marks),
            to_protobuf("traces", annotated_json(body, marks)),
        ):
            parsed = ExportTraceServiceRequest.FromString(made)
            assert parsed.SerializeToString(deterministic=True) == wanted
