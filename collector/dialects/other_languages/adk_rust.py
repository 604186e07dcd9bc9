"""ADK-Rust: arguments are in an event of the tool's span, one event per attempt.

Some keys are those of Google's ADK; the scope is the program's. No span shows that a tool failed.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping

__all__ = ["ADK_RUST"]

ADK_RUST = Dialect(
    name="adk_rust",
    when=("tool.name", "gcp.vertex.agent.invocation_id"),
    unless=("gen_ai.tool.name", "openinference.span.kind"),
    span_name="execute_tool (?P<tool>.+)",
    tool=("tool.name",),
    arguments=(ArgumentSource("tool.args", mapping, event="tool_call"),),
)
