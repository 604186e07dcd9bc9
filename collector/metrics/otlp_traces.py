"""The service's own spans, pushed to an OTLP/HTTP receiver by opentelemetry-sdk.

A span that has ended goes to the SDK's `BatchSpanProcessor`, whose thread encodes and sends what there is every five
seconds (`OTEL_BSP_SCHEDULE_DELAY`). The event loop makes the span and puts it into a queue, nothing else. The SDK is
loaded by a thread at the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from collector.config.settings.telemetry import TelemetrySettings
from collector.net.otlp_exporter import require_exporter
from collector.net.threads import in_thread
from collector.telemetry.logs import log
from collector.telemetry.tracing import OwnSpan, Tracer

if TYPE_CHECKING:
    from collector.metrics.otlp_spans import SdkSpans

__all__ = ["OtlpTraces"]


class OtlpTraces:
    """Pushes the spans of this process.

    Args:
        settings: the section `telemetry`, with an endpoint.
        clock: Unix nanoseconds.

    Raises:
        OSError: a sentence; the exporter is not installed.
    """

    def __init__(self, settings: TelemetrySettings, clock: Callable[[], int]) -> None:
        require_exporter("telemetry.otlp_endpoint")
        self._endpoint = settings.otlp_endpoint
        self._spans: SdkSpans | None = None
        self._failing = False
        self.tracer = Tracer(
            self._deliver, settings.traces_ratio, settings.traces_per_second, clock
        )

    async def start(self) -> None:
        self._spans = await in_thread(self._load)

    async def stop(self, grace_seconds: float) -> None:
        """Sends the last spans, as far as the time allows."""
        spans, self._spans = self._spans, None
        if spans is None:
            return
        try:
            async with asyncio.timeout(grace_seconds):
                await in_thread(spans.close)
        except TimeoutError:
            spans.give_up()

    def _load(self) -> SdkSpans:
        from collector.metrics.otlp_spans import SdkSpans

        return SdkSpans(self._endpoint, self._count)

    def _deliver(self, span: OwnSpan) -> None:
        if self._spans is not None:
            self._spans.take(span)

    def _count(self, spans: int, failure: str) -> None:
        """Called by the processor's thread, after each request."""
        self.tracer.results["failed" if failure else "ok"] += spans
        if failure and not self._failing:
            log.warning("telemetry_traces_failed", reason=failure)
        elif self._failing and not failure:
            log.info("telemetry_traces_recovered")
        self._failing = bool(failure)
