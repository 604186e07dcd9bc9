"""Spans that name a tool, or say that one ran, but that no dialect reads as a call.

No known instrumentation writes them. They are read as far as their evidence goes.
"""

from __future__ import annotations

from typing import Final

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import mapping, maybe_call_form

__all__ = [
    "GIVEN",
    "NAMES",
    "SAYS",
    "SPOKEN",
    "SPOKEN_BEGINS",
    "TOOL_BY_NAME",
    "UNCLEAR",
    "WITH_PARTS",
]

NAMES: Final = (
    "gen_ai.tool.name",
    "tool.name",
    "mcp.tool.name",
    "ai.toolCall.name",
    "haystack.tool.name",
    "langchain.tool.name",
    "spring.ai.tool.definition.name",
    "upsonic.tool.name",
)
"""Keys that name a tool and nothing else."""

SAYS: Final[dict[str, frozenset[str]]] = {
    "agentops.span.kind": frozenset({"tool"}),
    "ai.operationId": frozenset({"ai.toolCall"}),
    "gen_ai.operation.name": frozenset({"execute_tool"}),
    "langfuse.observation.type": frozenset({"tool"}),
    "langsmith.span.kind": frozenset({"tool"}),
    "langwatch.span.type": frozenset({"tool"}),
    "mcp.method.name": frozenset({"tools/call"}),
    "mlflow.spanType": frozenset({'"TOOL"'}),
    "openinference.span.kind": frozenset({"TOOL"}),
    "traceloop.span.kind": frozenset({"tool"}),
}
"""Key -> values that say that a tool ran."""

TOOL_BY_NAME: Final = "openinference.span.kind"
"""The one of them whose spans have the tool's name for their own."""

SPOKEN: Final = "(?:execute_tool|(?:MCP send )?tools/call) (?P<tool>.+)"
"""Names of spans that name a tool, and their prefixes, which are checked first."""

SPOKEN_BEGINS: Final = ("execute_tool ", "tools/call ", "MCP send tools/call ")

WITH_PARTS: Final = ("opencode", "adk-telemetry")
"""Beginnings of scopes that name a call's tool on spans below it, too."""

GIVEN: Final = frozenset(
    {
        "ai.toolCall.args",
        "ai.toolCall.id",
        "ai.toolCall.input",
        "gen_ai.tool.arguments",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.id",
        "gen_ai.tool.call.result",
        "mcp.tool.arguments",
        "spring.ai.tool.call.arguments",
        "spring.ai.tool.call.id",
        "tool.arguments",
        "tool_call.function.arguments",
        "tool_call.id",
    }
)
"""Keys that only a call's own span has."""

UNCLEAR: Final = Dialect(
    name="unclear",
    arguments=(
        ArgumentSource("gen_ai.tool.call.arguments", mapping),
        ArgumentSource("mcp.tool.arguments", mapping),
        ArgumentSource("gen_ai.tool.arguments", mapping),
        ArgumentSource("tool_call.function.arguments", mapping),
        ArgumentSource("tool.arguments", mapping),
        ArgumentSource("ai.toolCall.args", mapping),
        ArgumentSource("ai.toolCall.input", mapping),
        ArgumentSource("spring.ai.tool.call.arguments", mapping),
        ArgumentSource("input.value", maybe_call_form, needs="openinference.span.kind"),
    ),
    call_id=("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id", "spring.ai.tool.call.id"),
)
"""Sources of the parts of a call in such spans."""
