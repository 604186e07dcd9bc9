"""Sends spans to a receiver, and gives up on one that takes none: a run goes on without it, and what is lost is counted."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

__all__ = ["FAILURES_MAX", "SECONDS", "SpanSender"]

SECONDS: Final = 5.0
"""What one span may take, all its tries together, where the environment says nothing else."""
_TIMEOUTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
FAILURES_MAX: Final = 3
"""Spans in a row that nobody took: behind them no other one is sent."""


class SpanSender(SpanExporter):
    """Sends spans over HTTP. For one thread.

    Args:
        endpoint: URL of a receiver; None is what `OTEL_EXPORTER_OTLP_ENDPOINT` says.
    """

    def __init__(self, endpoint: str | None) -> None:
        # It logs each try; how many spans were lost is told once, at the end of the run.
        logging.getLogger(trace_exporter.__name__).setLevel(logging.CRITICAL)
        seconds = None if any(map(os.environ.get, _TIMEOUTS)) else SECONDS
        self._exporter = trace_exporter.OTLPSpanExporter(endpoint=endpoint, timeout=seconds)
        self._failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Sends spans, unless nobody has taken the ones before."""
        if self._failed >= FAILURES_MAX:
            return SpanExportResult.FAILURE
        found = self._exporter.export(spans)
        self._failed = 0 if found is SpanExportResult.SUCCESS else self._failed + 1
        return found

    def shutdown(self) -> None:
        """Closes the connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
