from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.decode.span import Span
from collector.receive.export import Export, ExportResult, RequestLimits, proto_answer
from collector.receive.status_codes import (
    GRPC_NAMES,
    ExportStatus,
    Refusal,
    status_bytes,
    status_message,
)
from collector.telemetry.counters import Stats
from collector.telemetry.duration_histogram import DurationHistogram
from collector.telemetry.logs import captured


class Pipeline:
    """Takes spans, or raises what it was given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[list[Span], int, str]] = []
        self.error = error

    def __call__(self, spans: list[Span], now_ns: int, transport: str) -> None:
        if self.error:
            raise self.error
        self.calls.append((spans, now_ns, transport))


def body(*trace_ids: bytes) -> bytes:
    message = ExportTraceServiceRequest()
    scope = message.resource_spans.add().scope_spans.add()
    for trace_id in trace_ids:
        scope.spans.add(trace_id=trace_id, span_id=b"\2" * 8)
    return message.SerializeToString()


GOOD, BAD = b"\1" * 16, b"\1"


def test_spans_are_handed_on_with_the_time_and_transport() -> None:
    """The pipeline gets the spans, the time and the transport."""
    pipeline, stats = Pipeline(), Stats()
    answer = Export(pipeline, stats, lambda: 42).ingest_now(
        "traces", body(GOOD, GOOD), "proto", "grpc"
    )
    assert answer == ExportResult()
    [(spans, now_ns, transport)] = pipeline.calls
    assert (len(spans), now_ns, transport) == (2, 42, "grpc")
    assert stats.spans == {("grpc", "accepted"): 2}
    assert stats.bytes == {"grpc": len(body(GOOD, GOOD))}


def test_partial_success_counts_exactly() -> None:
    """Rejected spans are counted and reported; the others are handed on."""
    pipeline, stats = Pipeline(), Stats()
    answer = Export(pipeline, stats, lambda: 0).ingest_now(
        "traces", body(GOOD, BAD, BAD), "proto", "grpc"
    )
    assert answer.rejected == 2
    assert answer.message.startswith("span 2 of the request: trace id has 1 bytes")
    assert stats.spans == {("grpc", "accepted"): 1, ("grpc", "rejected"): 2}
    partial = ExportTraceServiceResponse.FromString(proto_answer(answer)).partial_success
    assert (partial.rejected_spans, partial.error_message) == answer


@pytest.mark.parametrize("raw", [b"", body(), body(BAD)])
def test_without_spans_the_pipeline_is_not_called(raw: bytes) -> None:
    """A request without spans does not call the pipeline."""
    pipeline = Pipeline()
    Export(pipeline, Stats(), lambda: 0).ingest_now("traces", raw, "proto", "grpc")
    assert pipeline.calls == []


def test_full_success_leaves_partial_success_unset() -> None:
    """An empty response message, as the specification wants it."""
    assert proto_answer(ExportResult()) == b""


@pytest.mark.parametrize(
    ("signal", "encoding", "raw"),
    [
        ("traces", "proto", b"\xff"),
        ("traces", "json", b""),
        ("metrics", "proto", b"\x0a\xff"),
        ("metrics", "json", b"[]"),
        ("logs", "proto", b"garbage"),
        ("logs", "json", b"x"),
    ],
)
def test_malformed_bodies_are_refused(signal: Any, encoding: Any, raw: bytes) -> None:
    """Malformed bodies of any signal and encoding are refused as not retryable."""
    pipeline = Pipeline()
    with pytest.raises(Refusal) as refusal:
        asyncio.run(Export(pipeline, Stats(), lambda: 0).ingest(signal, raw, encoding, "grpc"))
    assert refusal.value.status is ExportStatus.MALFORMED
    assert pipeline.calls == []


def test_metrics_and_logs_are_accepted() -> None:
    """A sender with one endpoint for all signals does not fail."""
    export = Export(Pipeline(), Stats(), lambda: 0)
    assert export.ingest_now("metrics", b"\x0a\x00", "proto", "grpc") == ExportResult()
    assert (
        export.ingest_now("logs", b'{"resourceLogs":[]}', "json", "http_json") == ExportResult()
    )


def test_the_limit_holds_whatever_the_transport() -> None:
    """The last line of defence, for a transport set up with another limit."""
    export = Export(Pipeline(), Stats(), lambda: 0, RequestLimits(body_bytes=4))
    with pytest.raises(Refusal) as refusal:
        export.ingest_now("traces", b"\0" * 5, "proto", "grpc")
    assert refusal.value.status is ExportStatus.TOO_LARGE


def test_a_refusal_of_the_pipeline_is_passed_on() -> None:
    """The sender gets the pipeline's back-pressure."""
    pipeline, stats = Pipeline(Refusal(ExportStatus.UNAVAILABLE, "full", 7)), Stats()
    with pytest.raises(Refusal) as refusal:
        Export(pipeline, stats, lambda: 0).ingest_now("traces", body(GOOD), "proto", "grpc")
    assert (refusal.value.status, refusal.value.retry_seconds) == (ExportStatus.UNAVAILABLE, 7)
    assert stats.spans == {}
    assert +Counter(stats.dropped) == {}


def test_an_error_of_the_pipeline_is_counted_and_logged_once_a_minute() -> None:
    """Our fault is INTERNAL to the sender, a counter and one line to the operator."""
    stats, now = Stats(), [0]
    with captured() as lines:
        export = Export(Pipeline(KeyError("boom")), stats, lambda: now[0])
        for now[0] in (0, 1, 59_999_999_999, 60_000_000_000):
            with pytest.raises(Refusal, match="internal error") as refusal:
                export.ingest_now("traces", body(GOOD), "proto", "grpc")
            assert refusal.value.status is ExportStatus.INTERNAL
    assert [line["error"] for line in lines] == ["KeyError", "KeyError"]
    assert stats.counts == {("internal_errors", "KeyError"): 4}
    assert +Counter(stats.dropped) == {"internal_error": 4}


def test_the_table_has_a_name_for_each_code() -> None:
    """Each outcome can be counted by its gRPC name; only waiting helps against two of them."""
    assert all(outcome.value.grpc in GRPC_NAMES for outcome in ExportStatus)
    retryable = {outcome for outcome in ExportStatus if outcome.value.retryable}
    assert retryable == {ExportStatus.THROTTLED, ExportStatus.UNAVAILABLE}
    assert b"RetryInfo" in status_bytes(Refusal(ExportStatus.UNAVAILABLE, "full"))
    assert b"RetryInfo" not in status_bytes(Refusal(ExportStatus.MALFORMED, "no"))


def test_a_status_is_read_back() -> None:
    """The message of a Status body is read; other bodies have none."""
    assert status_message(status_bytes(Refusal(ExportStatus.UNAVAILABLE, "full"))) == "full"
    assert status_message(b"Not Found") is None


def test_histogram_bounds_are_inclusive() -> None:
    """An observation on a bound is at or below it, as Prometheus counts."""
    histogram = DurationHistogram((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 1.0, 7.0):
        histogram.observe(seconds)
    assert histogram.counts == [2, 2, 1]
    assert histogram.cumulative() == [(0.1, 2), (1.0, 4), (float("inf"), 5)]
    assert (histogram.count, round(histogram.sum_seconds, 9)) == (5, 8.65)


def test_a_histogram_follows_observations_from_bucket_to_bucket() -> None:
    """Each observation is counted in its own bucket, whatever came before."""
    histogram = DurationHistogram((0.1, 1.0))
    for seconds in (0.0, 5.0, 6.0, 0.05, 0.1, 0.5, 1.0, 0.0, -1.0):
        histogram.observe(seconds)
    assert histogram.counts == [5, 2, 2]
