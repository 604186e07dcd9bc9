"""Agno under OpenInference: `tool.parameters` holds the arguments themselves here."""

from collector.dialects.arguments import mapping
from collector.dialects.base import Dialect, Source
from collector.dialects.openinference import SWITCH, TOOL

__all__ = ["AGNO"]

AGNO = Dialect(
    name="agno_openinference",
    scopes=("openinference.instrumentation.agno",),
    when=("openinference.span.kind",),
    values=TOOL,
    tool=("tool.name",),
    span_name="(?P<tool>.+)",
    arguments=(Source("input.value", mapping), Source("tool.parameters", mapping)),
    call_id=("tool_call.id", "tool.id"),
    control=frozenset(
        {"delegate_task_to_member", "delegate_task_to_members", "transfer_task_to_member"}
    ),
    switch=SWITCH,
)
