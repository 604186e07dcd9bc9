"""VoltAgent: `input` holds the arguments; `tool.parameters` is the tool's schema."""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping

__all__ = ["VOLTAGENT"]

VOLTAGENT = Dialect(
    name="voltagent",
    scopes=("@voltagent/",),
    when=("tool.name", "tool.call.id"),
    tool=("tool.name",),
    arguments=(ArgumentSource("input", mapping),),
    call_id=("tool.call.id",),
    control=frozenset({"delegate_task"}),
)
