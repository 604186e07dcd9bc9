"""Strands: arguments in a span event, in an attribute (latest conventions), or under OpenInference's key.

A structured final answer is written as a tool call.
Version 0.2 names its spans `Tool: T` and writes status OK for a failed tool: only `tool.status` shows the failure.
"""

from collector.dialects.base import Dialect, Freshness
from collector.dialects.conventions.gen_ai import ARGUMENTS

__all__ = ["STRANDS"]

STRANDS = Dialect(
    name="strands",
    scopes=("strands",),
    when=("gen_ai.tool.name",),
    tool=("gen_ai.tool.name",),
    arguments=ARGUMENTS,
    call_id=("gen_ai.tool.call.id",),
    failed={"gen_ai.tool.status": frozenset({"error"}), "tool.status": frozenset({"error"})},
    control=frozenset({"handoff_to_agent", "handoff_to_user"}),
    control_marks={
        "gen_ai.tool.description": "IMPORTANT: This StructuredOutputTool should only be"
    },
    freshness=Freshness(events=True, scopes=("strands",)),
)
