"""Own spans as those of opentelemetry-sdk. This module loads it; a thread of `otlp_traces` imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, StatusCode

from collector import __version__
from collector.metrics.otlp_client import exporter_arguments, resource
from collector.telemetry.tracing import OWN, Kind, OwnSpan

__all__ = ["SdkSpans"]

KINDS: Final[Mapping[Kind, SpanKind]] = {
    "request": SpanKind.SERVER,
    "delivery": SpanKind.CLIENT,
    "scrape": SpanKind.SERVER,
    "reload": SpanKind.INTERNAL,
}

BATCH_SPANS: Final = 64
"""Spans in one request: few enough that an offrails receiver reads it at once and recognises them
as its own."""

NO_ANSWER: Final = "the receiver refused it, or gave no answer in time"


class SdkSpans:
    """A tracer of the SDK with its processor and exporter.

    Args:
        endpoint: the OTLP/HTTP receiver.
        count: told of each request's spans, and why it failed ("" if it did not), by a thread.
    """

    def __init__(self, endpoint: str, count: Callable[[int, str], None]) -> None:
        self._exporter: SpanExporter = OTLPSpanExporter(
            **exporter_arguments(endpoint, "/v1/traces")
        )
        self._provider = TracerProvider(
            # Which spans there are is decided before they come here.
            sampler=ALWAYS_ON,
            resource=resource(**{OWN: True}),
            shutdown_on_exit=False,
        )
        counted = _Counted(self._exporter, count)
        self._provider.add_span_processor(
            BatchSpanProcessor(counted, max_export_batch_size=BATCH_SPANS)
        )
        self._tracer = self._provider.get_tracer("offrails", __version__)

    def take(self, span: OwnSpan) -> None:
        """Puts a span that has ended into the processor's queue."""
        made = self._tracer.start_span(
            f"offrails.{span.kind}",
            context=Context(),
            kind=KINDS[span.kind],
            attributes={f"offrails.{key}": value for key, value in span.attributes.items()},
            start_time=span.start_ns,
        )
        if span.error:
            made.set_status(StatusCode.ERROR, span.error)
        made.end(span.end_ns)

    def close(self) -> None:
        """Sends what waits, and ends the thread."""
        self._provider.shutdown()

    def give_up(self) -> None:
        """Tries nothing again: the thread ends with the request that is under way."""
        self._exporter.shutdown()


class _Counted(SpanExporter):
    """Says how each request went."""

    def __init__(self, exporter: SpanExporter, count: Callable[[int, str], None]) -> None:
        self._exporter = exporter
        self._count = count

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception as error:
            self._count(len(spans), f"{type(error).__name__}: {error}")
            raise
        sent = result is SpanExportResult.SUCCESS
        self._count(len(spans), "" if sent else NO_ANSWER)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()
