"""fast-agent: a span around each call of an MCP tool, under the model's name of it; other tools have no spans."""

from collector.dialects.base import Dialect

__all__ = ["FAST_AGENT"]

FAST_AGENT = Dialect(
    name="fast_agent",
    scopes=("fast_agent.",),
    when=("namespaced_tool_name",),
    tool=("namespaced_tool_name",),
)
