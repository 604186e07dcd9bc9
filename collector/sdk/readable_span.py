"""Spans of the OpenTelemetry SDK as the decoders would give them, without a wire in between."""

from __future__ import annotations

from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan

from collector.decode.json.otlp_json import JsonCodec
from collector.decode.shapes import Shapes
from collector.decode.span import Resource, Span, is_sampled

__all__ = ["SpanReader"]

RESOURCES_MAX: Final = 64
"""Resources that are remembered. A process has one, or one for each tracer provider."""


class SpanReader:
    """Turns spans of the SDK into `Span`.

    Values are the SDK's own objects; tuples become lists, as they are on the wire.
    """

    def __init__(self) -> None:
        self._codec = JsonCodec()
        self._shapes = Shapes()
        self._resources: dict[int, tuple[Any, Resource]] = {}

    def read(self, span: ReadableSpan) -> Span:
        """The span as it is now; without an end it is a call that is pending.

        Raises:
            OverBound: it has too many attributes, or a key is too long.
        """
        context, parent = span.context, span.parent
        attributes = span.attributes or {}
        scope, end_ns = span.instrumentation_scope, span.end_time or 0
        return Span(
            context.trace_id.to_bytes(16, "big"),
            context.span_id.to_bytes(8, "big"),
            parent.span_id.to_bytes(8, "big") if parent is not None else b"",
            span.name,
            span.kind.value + 1,  # OTLP has an unspecified kind before the SDK's first
            span.start_time or 0,
            end_ns,
            span.status.status_code.value,
            self._resource(span.resource),
            scope.name if scope is not None else "",
            span.dropped_attributes,
            self._shapes.of(tuple(attributes)),
            values=[_plain(value) for value in attributes.values()],
            codec=self._codec,
            events=[
                (event.name, _values(event.attributes), event.timestamp)
                for event in (span.events if end_ns else ())
            ],
            sampled=is_sampled(context.trace_state.to_header()),
        )

    def _resource(self, found: Any) -> Resource:
        """One object for each resource of the SDK, held with it so that its id is its own."""
        known = self._resources.get(id(found))
        if known is None:
            if len(self._resources) >= RESOURCES_MAX:
                self._resources.clear()
            known = found, Resource(_values(found.attributes))
            self._resources[id(found)] = known
        return known[1]


def _values(attributes: Any) -> dict[str, Any]:
    return {key: _plain(value) for key, value in (attributes or {}).items()}


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
