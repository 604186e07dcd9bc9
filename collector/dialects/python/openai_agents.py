"""The OpenAI Agents SDK, under three instrumentations.

OpenTelemetry's and Traceloop's share one scope name, so their keys distinguish them. In
OpenInference a hand-off is a TOOL span without a tool's name.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.openinference import OPENAI_AGENTS_JS_SCOPE, SWITCH, TOOL
from collector.dialects.values.arguments import mapping

__all__ = ["HANDOFF", "OPENAI_AGENTS", "OPENAI_AGENTS_OPENINFERENCE", "OPENAI_AGENTS_TRACELOOP"]

_CONTROL = ("transfer_to_", "handoff to ", "handoff_to_")
_SCOPE = ("opentelemetry.instrumentation.openai_agents",)
_OPENINFERENCE = (
    "openinference.instrumentation.openai_agents",
    OPENAI_AGENTS_JS_SCOPE,
)
_ARGUMENTS = (
    ArgumentSource("gen_ai.tool.call.arguments", mapping),
    ArgumentSource("traceloop.entity.input", mapping),
)

OPENAI_AGENTS = Dialect(
    name="openai_agents",
    scopes=_SCOPE,
    when=("gen_ai.tool.name",),
    unless=("traceloop.span.kind",),
    tool=("gen_ai.tool.name",),
    arguments=_ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    control_prefixes=_CONTROL,
    quotes=False,
    switch="OTEL_INSTRUMENTATION_OPENAI_AGENTS_CAPTURE_CONTENT=true",
)

OPENAI_AGENTS_TRACELOOP = Dialect(
    name="openai_agents_traceloop",
    scopes=_SCOPE,
    when=("traceloop.span.kind",),
    some=("gen_ai.tool.name", "traceloop.entity.name"),
    values={"traceloop.span.kind": frozenset({"tool"})},
    tool=("gen_ai.tool.name", "traceloop.entity.name"),
    span_name="(?P<tool>.+?)(?:\\.tool)?",
    arguments=_ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    control_prefixes=_CONTROL,
    quotes=False,
    switch="TRACELOOP_TRACE_CONTENT=true",
)

OPENAI_AGENTS_OPENINFERENCE = Dialect(
    name="openai_agents_openinference",
    scopes=_OPENINFERENCE,
    when=("tool.name", "openinference.span.kind"),
    values=TOOL,
    tool=("tool.name",),
    arguments=(ArgumentSource("input.value", mapping),),
    call_id=("tool_call.id", "tool.id"),
    control_prefixes=_CONTROL,
    switch=SWITCH,
)

HANDOFF = Dialect(
    name="openai_agents_openinference",
    scopes=_OPENINFERENCE,
    when=("openinference.span.kind",),
    unless=("tool.name",),
    values=TOOL,
    span_name="(?P<tool>handoff.*)",
    control_prefixes=("handoff",),
)
