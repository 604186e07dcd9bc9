"""Agno under four instrumentations.

Under OpenInference `tool.parameters` holds the arguments themselves. Under Traceloop the status of a failed tool is
OK: only the result, a Python repr, shows the failure. OpenLIT and OpenTelemetry follow the GenAI conventions.
"""

from dataclasses import replace

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.gen_ai import GEN_AI
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.conventions.traceloop import TRACELOOP
from collector.dialects.values.arguments import mapping

__all__ = ["AGNO", "AGNO_GENAI", "AGNO_OPENLIT", "AGNO_TRACELOOP"]

_CONTROL = frozenset(
    {"delegate_task_to_member", "delegate_task_to_members", "transfer_task_to_member"}
)

AGNO = Dialect(
    name="agno_openinference",
    scopes=("openinference.instrumentation.agno",),
    when=("openinference.span.kind",),
    values=TOOL,
    tool=("tool.name",),
    span_name="(?P<tool>.+)",
    arguments=(
        ArgumentSource("input.value", mapping),
        ArgumentSource("tool.parameters", mapping),
    ),
    call_id=("tool_call.id", "tool.id"),
    control=_CONTROL,
    switch=SWITCH,
)

AGNO_TRACELOOP = replace(
    TRACELOOP,
    name="agno_traceloop",
    scopes=("opentelemetry.instrumentation.agno",),
    arguments=(ArgumentSource("traceloop.entity.input", mapping),),
    failed_marks={"traceloop.entity.output": ("status='failure'",)},
    control=_CONTROL,
)

AGNO_OPENLIT = replace(
    GEN_AI, name="agno_openlit", scopes=("openlit.instrumentation.agno",), control=_CONTROL
)

AGNO_GENAI = replace(
    GEN_AI,
    name="agno_genai",
    scopes=("opentelemetry.instrumentation.genai.agno",),
    control=_CONTROL,
)
