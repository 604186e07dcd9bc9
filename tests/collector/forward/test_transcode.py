"""OTLP/JSON to protobuf, against the official messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.forward.transcode import TranscodeError, to_protobuf

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def spans(**fields: Any) -> bytes:
    span = {"traceId": TRACE, "spanId": SPAN, "name": "x", **fields}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def first(body: bytes) -> Any:
    request = ExportTraceServiceRequest.FromString(to_protobuf("traces", body))
    return request.resource_spans[0].scope_spans[0].spans[0]


def test_all_fields_of_a_span_are_kept() -> None:
    """Ids, numbers as texts, nested values, events and links mean the same in protobuf."""
    span = first(
        spans(
            parentSpanId=SPAN.upper(),
            kind=3,
            startTimeUnixNano="1700000000000000001",
            endTimeUnixNano=1700000000000000002,
            attributes=[
                {"key": "traceId", "value": {"stringValue": "no id"}},
                {"key": "n", "value": {"intValue": "-5"}},
                {"key": "b", "value": {"bytesValue": "AAEC"}},
                {"key": "d", "value": {"doubleValue": "NaN"}},
                {
                    "key": "list",
                    "value": {"arrayValue": {"values": [{"boolValue": True}, {}]}},
                },
            ],
            events=[{"name": "e", "timeUnixNano": "7"}],
            links=[{"traceId": TRACE, "spanId": SPAN}],
            status={"code": 2, "message": "bad"},
            unknown={"x": 1},
        )
    )

    assert span.trace_id.hex() == TRACE
    assert span.span_id.hex() == span.parent_span_id.hex() == SPAN
    assert span.links[0].trace_id.hex() == TRACE
    assert (span.kind, span.status.code, span.status.message) == (3, 2, "bad")
    assert span.end_time_unix_nano - span.start_time_unix_nano == 1
    found = {each.key: each.value for each in span.attributes}
    assert found["traceId"].string_value == "no id"
    assert found["n"].int_value == -5
    assert found["b"].bytes_value == b"\0\1\2"
    assert found["d"].double_value != found["d"].double_value
    assert found["list"].array_value.values[0].bool_value
    assert span.events[0].time_unix_nano == 7


def test_metrics_and_logs_have_ids_too() -> None:
    """Exemplars of metrics and log records refer to spans."""
    exemplar = {"traceId": TRACE, "spanId": SPAN, "asInt": "3"}
    point = {"asDouble": 1.5, "exemplars": [exemplar]}
    metric = {"name": "m", "sum": {"dataPoints": [point], "isMonotonic": True}}
    body = json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]})
    found = ExportMetricsServiceRequest.FromString(to_protobuf("metrics", body.encode()))
    data = found.resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points[0]
    assert (data.exemplars[0].trace_id.hex(), data.exemplars[0].as_int) == (TRACE, 3)

    record = {"traceId": TRACE, "spanId": SPAN, "body": {"stringValue": "said"}}
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    logs = ExportLogsServiceRequest.FromString(to_protobuf("logs", body.encode()))
    line = logs.resource_logs[0].scope_logs[0].log_records[0]
    assert (line.span_id.hex(), line.body.string_value) == (SPAN, "said")


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    """An agent may say what protobuf's texts cannot hold."""
    assert first(spans(name="a\ud800b")).name == "a?b"
    assert first(spans(name="a\U0001f600b")).name == "a\U0001f600b"


@pytest.mark.parametrize(
    "body",
    [
        spans(traceId="xyz"),
        spans(name=7),
        spans(startTimeUnixNano="soon"),
        spans(attributes={}),
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"resourceSpans": 7}',
    ],
)
def test_what_the_schema_does_not_allow_is_said(body: bytes) -> None:
    """A value of another type, or no JSON at all, is an error of its own."""
    with pytest.raises(TranscodeError):
        to_protobuf("traces", body)


def test_deep_values_are_no_crash() -> None:
    """A value nested deeper than the runtime reads is an error, too."""
    deep: Any = {"stringValue": "x"}
    for _ in range(300):
        deep = {"arrayValue": {"values": [deep]}}
    with pytest.raises(TranscodeError):
        to_protobuf("traces", spans(attributes=[{"key": "deep", "value": deep}]))
