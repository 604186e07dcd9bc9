"""Head sampling is recognised by its mark in the trace state, in both encodings."""

from __future__ import annotations

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.calls.pipeline import Pipeline
from collector.decode.json import otlp_json
from collector.decode.protobuf import otlp_proto
from collector.decode.span import is_sampled
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor

MARKS = [
    ("", False),
    ("vendor=x", False),
    ("ot=th:0", False),
    ("ot=th:c", True),
    ("rojo=1,ot=th:fffe;rv:0123456789abcd", True),
    ("ot=p:0;r:4", False),
    ("ot=p:3", True),
    ("ot=rv:0123456789abcd", False),
    ("not=th:c", False),
]


def request(state: str) -> dict[str, object]:
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "traceState": state,
        "name": "execute_tool water",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
            {"key": "gen_ai.tool.name", "value": {"stringValue": "water"}},
        ],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


@pytest.mark.parametrize(("state", "sampled"), MARKS)
def test_the_mark_is_read(state: str, sampled: bool) -> None:
    """A threshold or probability below one marks a sampled trace; other members do not."""
    assert is_sampled(state) is sampled


@pytest.mark.parametrize(("state", "sampled"), MARKS)
def test_both_encodings_show_sampling(state: str, sampled: bool) -> None:
    """JSON and protobuf give the same answer."""
    (span,) = otlp_json.decode(json.dumps(request(state)).encode()).spans
    message = ExportTraceServiceRequest()
    made = message.resource_spans.add().scope_spans.add().spans.add()
    made.trace_id, made.span_id = span.trace_id, span.span_id
    made.name, made.trace_state = "x", state
    (other,) = otlp_proto.decode(message.SerializeToString()).spans

    assert span.sampled is other.sampled is sampled


def test_sampled_calls_are_covered_and_uncertain() -> None:
    """A call of a sampled trace is counted so, and its session gives no scores."""
    monitor, stats = Monitor((), Limits()), Stats()
    pipeline = Pipeline(monitor, stats, lambda _: None)
    pipeline.consume(
        otlp_json.decode(json.dumps(request("ot=th:c")).encode()).spans, 3, "replay"
    )

    assert stats.counts["coverage", "sampled_upstream"] == 1
    (found,) = monitor.judgements()
    assert (found["joined"], found["exact"]) == (True, False)


@pytest.mark.parametrize("dropped", [0, 3])
def test_dropped_attributes_leave_the_session_uncertain(dropped: int) -> None:
    """The sender may have dropped the session id, so calls of the session may be elsewhere."""
    monitor, stats = Monitor((), Limits()), Stats()
    made = request("")
    made["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["droppedAttributesCount"] = dropped  # type: ignore[index]
    Pipeline(monitor, stats, lambda _: None).consume(
        otlp_json.decode(json.dumps(made).encode()).spans, 3, "replay"
    )

    (found,) = monitor.judgements()
    assert (found["joined"], found["exact"]) == (dropped > 0, dropped == 0)
    assert stats.counts.get(("coverage", "truncated_attributes"), 0) == (dropped > 0)
