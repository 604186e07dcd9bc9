"""Traceloop's SDK and its family of instrumentations: `traceloop.span.kind` is `tool`."""

from collector.dialects.base import ArgumentSource, Dialect, Freshness
from collector.dialects.values.arguments import mapping, maybe_call_form

__all__ = ["TRACELOOP"]

TRACELOOP = Dialect(
    name="traceloop",
    when=("traceloop.span.kind",),
    values={"traceloop.span.kind": frozenset({"tool"})},
    tool=("gen_ai.tool.name", "traceloop.entity.name"),
    span_name="(?P<tool>.+?)(?:\\.tool)?",
    arguments=(
        ArgumentSource("traceloop.entity.input", maybe_call_form),
        ArgumentSource("gen_ai.tool.call.arguments", mapping),
    ),
    call_id=("gen_ai.tool.call.id",),
    switch="TRACELOOP_TRACE_CONTENT=true",
    freshness=Freshness(
        roles=("gen_ai.prompt.",),
        scopes=(
            "opentelemetry.instrumentation.anthropic",
            "opentelemetry.instrumentation.langchain",
        ),
    ),
)
