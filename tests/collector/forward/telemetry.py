"""Telemetry of an agent as the SDK's own exporters send it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import grpc
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import (
    OTLPLogExporter as GrpcLogs,
)
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
    OTLPMetricExporter as GrpcMetrics,
)
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcTraces,
)
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
    OTLPMetricExporter as HttpMetrics,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpTraces,
)
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

__all__ = ["SIGNALS", "Protocol", "export"]

Protocol = Literal["grpc", "http"]
SIGNALS = ("traces", "metrics", "logs")
RESOURCE = Resource({"service.name": "farm-rover", "tags": ["a", "b"]})
EPOCH_NS = 1_700_000_000_000_000_000
KINDS = {
    ("grpc", "traces"): GrpcTraces,
    ("grpc", "metrics"): GrpcMetrics,
    ("grpc", "logs"): GrpcLogs,
    ("http", "traces"): HttpTraces,
    ("http", "metrics"): HttpMetrics,
    ("http", "logs"): HttpLogs,
}


@cache
def _spans() -> Sequence[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("farm.rover", "1.0")
    for number, tool in enumerate(("unlock_safety", "move", "scan", "fly")):
        span = tracer.start_span(f"execute_tool {tool}", start_time=EPOCH_NS + number)
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", tool)
        span.set_attribute("gen_ai.conversation.id", "s")
        span.add_event("seen", {"ü": [1.5, 2.5]}, timestamp=EPOCH_NS)
        span.end(EPOCH_NS + number + 1)
    return memory.get_finished_spans()


@cache
def _metrics() -> Any:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], RESOURCE, shutdown_on_exit=False)
    meter = provider.get_meter("farm.rover")
    meter.create_counter("calls").add(3, {"tool": "move"})
    meter.create_histogram("seconds").record(0.5)
    return reader.get_metrics_data()


@cache
def _logs() -> Sequence[ReadableLogRecord]:
    record = LogRecord(
        timestamp=EPOCH_NS,
        observed_timestamp=EPOCH_NS,
        severity_number=SeverityNumber.INFO,
        body={"said": ["moved", 1, None]},
        attributes={"tool": "move"},
        event_name="done",
    )
    return [ReadableLogRecord(record, RESOURCE, InstrumentationScope("farm.rover"))]


DATA = {"traces": _spans, "metrics": _metrics, "logs": _logs}


async def export(
    protocol: Protocol,
    signal: str,
    address: str,
    *,
    gzip: bool = False,
    headers: dict[str, str] | None = None,
    seconds: float = 10,
) -> bool:
    """Has the SDK's exporter send a signal's data to HOST:PORT; True if they arrived.

    Each call sends the same bytes.
    """
    options: dict[str, Any] = {"headers": headers, "timeout": seconds}
    if protocol == "grpc":
        options |= {"endpoint": address, "insecure": True}
        if gzip:
            options["compression"] = grpc.Compression.Gzip
    else:
        options["endpoint"] = f"http://{address}/v1/{signal}"
        options["compression"] = Compression.Gzip if gzip else Compression.NoCompression

    def send() -> bool:
        exporter: Any = KINDS[protocol, signal](**options)
        try:
            name: str = exporter.export(DATA[signal]()).name
            return name == "SUCCESS"
        finally:
            exporter.shutdown()

    return await asyncio.to_thread(send)
