"""fast-agent: a span around each call of an MCP server's tool, under the name that the model knows; no other tools."""

from collector.dialects.base import Dialect

__all__ = ["FAST_AGENT"]

FAST_AGENT = Dialect(
    name="fast_agent",
    scopes=("fast_agent.",),
    when=("namespaced_tool_name",),
    tool=("namespaced_tool_name",),
)
