"""Mastra: the GenAI conventions; a tool `agent-NAME` is a hand-off to another agent."""

from collector.dialects.base import Dialect
from collector.dialects.conventions.gen_ai import ARGUMENTS

__all__ = ["MASTRA"]

MASTRA = Dialect(
    name="mastra",
    scopes=("@mastra/",),
    when=("gen_ai.tool.name", "gen_ai.operation.name"),
    unless=("mcp.method.name",),
    values={"gen_ai.operation.name": frozenset({"execute_tool"})},
    tool=("gen_ai.tool.name",),
    arguments=ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    control_prefixes=("agent-",),
)
