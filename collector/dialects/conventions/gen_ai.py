"""The GenAI semantic conventions of OpenTelemetry: `execute_tool` spans.

Arguments are opt-in: a JSON text, or a structured attribute since SDK 1.45. The last tables read spans
that follow the conventions only in part.
"""

from collector.dialects.base import NOT_A_TOOL, ArgumentSource, Dialect, Freshness
from collector.dialects.values.arguments import event_parts, mapping, maybe_call_form

__all__ = ["ARGUMENTS", "EVENTS", "GEN_AI", "GEN_AI_BY_NAME", "GEN_AI_IN_PART", "SWITCH"]

SWITCH = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"

NAMELESS = ("@openlit/instrumentation-langchain",)
"""Scopes that name a tool's class instead of the tool. Their models' requests are judged, which
have the name."""

EVENTS = (
    ArgumentSource("content", event="gen_ai.tool.message"),
    ArgumentSource(
        "gen_ai.input.messages", event_parts, event="gen_ai.client.inference.operation.details"
    ),
)
ARGUMENTS = (
    ArgumentSource("gen_ai.tool.call.arguments", mapping),
    *EVENTS,
    # OpenInference's processors rewrite a framework's spans and may remove the events.
    ArgumentSource("input.value", mapping, needs="openinference.span.kind"),
)

_FAILED = {
    "gen_ai.tool.status": frozenset({"error"}),
    "tool.status": frozenset({"error"}),
    "gen_ai.task.status": frozenset({"failure", "error"}),
    "gen_ai.tool.call.outcome": frozenset({"error", "denied", "skipped"}),
}

_FRESHNESS = Freshness(
    messages=("gen_ai.input.messages",),
    scopes=("pydantic-ai", "opentelemetry.instrumentation.langchain"),
)
"""Clients of APIs that keep conversations write only what is new of them, and agents that write code summarise."""

GEN_AI = Dialect(
    name="gen_ai",
    when=("gen_ai.tool.name", "gen_ai.operation.name"),
    not_scopes=NAMELESS,
    values={"gen_ai.operation.name": frozenset({"execute_tool"})},
    tool=("gen_ai.tool.name",),
    arguments=ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    failed=_FAILED,
    switch=SWITCH,
    freshness=_FRESHNESS,
)

GEN_AI_IN_PART = Dialect(
    name="gen_ai",
    when=("gen_ai.tool.name",),
    not_scopes=NAMELESS,
    not_values={"gen_ai.operation.name": NOT_A_TOOL},
    tool=("gen_ai.tool.name",),
    arguments=(
        *ARGUMENTS,
        ArgumentSource("tool_arguments", mapping),
        ArgumentSource("tool_args", mapping),
        ArgumentSource("gen_ai.tool.arguments", mapping),
        ArgumentSource("traceloop.entity.input", maybe_call_form),
        ArgumentSource("input.value", mapping),
    ),
    call_id=("gen_ai.tool.call.id",),
    failed=_FAILED,
    switch=SWITCH,
)

GEN_AI_BY_NAME = Dialect(
    name="gen_ai",
    when=("gen_ai.operation.name",),
    unless=("gen_ai.tool.name",),
    not_scopes=NAMELESS,
    values={"gen_ai.operation.name": frozenset({"execute_tool"})},
    span_name="execute_tool (?P<tool>.+)",
    arguments=ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    failed=_FAILED,
    switch=SWITCH,
)
