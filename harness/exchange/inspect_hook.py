"""A hook of Inspect: each eval sends GenAI spans of its calls, as they are made, to any offrails.

Inspect finds it by an entry point (`inspect_entry`). It sends where `OTEL_EXPORTER_OTLP_ENDPOINT` says; without that it
does nothing. A queue of 2,048 spans waits for the receiver; what finds it full is lost, and the eval goes on.
"""

from __future__ import annotations

import os
from typing import Any, Final

from inspect_ai.hooks import (
    Hooks,
    RunEnd,
    SampleEnd,
    SampleEvent,
    SampleStart,
    TaskEnd,
    TaskStart,
    hooks,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

from collector.sdk.inspect_log import (
    SERVICE,
    error_of,
    event_attributes,
    event_name,
    nanoseconds,
    sample_attributes,
    score_attributes,
)

__all__ = ["InspectHook"]

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_FLUSH_MS: Final = 10_000
"""Milliseconds that the end of a run waits for the receiver."""


@hooks(name="offrails", description="sends GenAI spans of tool calls to an OTLP endpoint")
class InspectHook(Hooks):
    """Sends the spans of samples. One serves all evals of a process; samples may run at once."""

    def __init__(self) -> None:
        self._provider: TracerProvider | None = None
        self._tasks: dict[str, str] = {}
        """Eval -> name of its task."""
        self._samples: dict[str, tuple[str, Span, dict[str, Any]]] = {}
        """Sample -> its eval, its span, and what all its spans have."""

    def enabled(self) -> bool:
        """Whether somebody said where spans go."""
        return any(map(os.environ.get, _ENDPOINTS))

    async def on_task_start(self, data: TaskStart) -> None:
        """An eval begins."""
        self._tasks[data.eval_id] = data.spec.task

    async def on_sample_start(self, data: SampleStart) -> None:
        """A sample begins."""
        self._sample(data.eval_id, data.sample_id)

    async def on_sample_event(self, data: SampleEvent) -> None:
        """A call or an answer of a model is over."""
        name = event_name(data.event)
        if not name:
            return
        root, common = self._sample(data.eval_id, data.sample_id)
        span = self._tracer().start_span(
            name,
            set_span_in_context(root),
            attributes={**common, **event_attributes(data.event)},
            start_time=nanoseconds(data.event.timestamp),
        )
        if error := error_of(data.event):
            span.set_status(Status(StatusCode.ERROR, error))
        ended = max(nanoseconds(data.event.timestamp), nanoseconds(data.event.completed))
        span.end(ended)

    async def on_sample_end(self, data: SampleEnd) -> None:
        """A sample is over, and has its scores."""
        root, _ = self._sample(data.eval_id, data.sample_id)
        root.set_attributes(score_attributes(data.sample))
        self._end(data.sample_id)

    async def on_task_end(self, data: TaskEnd) -> None:
        """An eval is over; samples of it that were cut off are, too."""
        self._tasks.pop(data.eval_id, None)
        left = [
            uuid for uuid, (eval_id, *_) in self._samples.items() if eval_id == data.eval_id
        ]
        for uuid in left:
            self._end(uuid)

    async def on_run_end(self, data: RunEnd) -> None:  # noqa: ARG002 - whichever it is
        """All evals of a run are over: what waits is sent."""
        if self._provider is not None:
            self._provider.force_flush(_FLUSH_MS)

    def _sample(self, eval_id: str, uuid: str) -> tuple[Span, dict[str, Any]]:
        if uuid not in self._samples:
            common = sample_attributes(uuid, self._tasks.get(eval_id, ""))
            root = self._tracer().start_span(
                f"invoke_agent {common['inspect.task']}", attributes=common
            )
            self._samples[uuid] = eval_id, root, common
        return self._samples[uuid][1:]

    def _end(self, uuid: str) -> None:
        _, root, _ = self._samples.pop(uuid)
        root.end()

    def _tracer(self) -> Any:
        if self._provider is None:
            resource = Resource({"service.name": SERVICE})
            self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return self._provider.get_tracer(SERVICE)
