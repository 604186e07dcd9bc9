"""ADK-Rust: what a tool is given is in an event of its span, one for each attempt.

The keys are in part those of Google's ADK, the scope is the program's. That a tool failed is told to no span of it.
"""

from collector.dialects.base import Dialect, Source
from collector.dialects.values.arguments import mapping

__all__ = ["ADK_RUST"]

ADK_RUST = Dialect(
    name="adk_rust",
    when=("tool.name", "gcp.vertex.agent.invocation_id"),
    unless=("gen_ai.tool.name", "openinference.span.kind"),
    span_name="execute_tool (?P<tool>.+)",
    tool=("tool.name",),
    arguments=(Source("tool.args", mapping, event="tool_call"),),
)
