"""Gemini CLI: the GenAI conventions' keys, with values of its own.

The input of a tool's span is the scheduler's request. Its output is the outcome, status first. Both are cut off after
10,000 characters.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import scheduled

__all__ = ["GEMINI_CLI"]

GEMINI_CLI = Dialect(
    name="gemini_cli",
    scopes=("gemini-cli",),
    when=("gen_ai.tool.name", "gen_ai.operation.name"),
    values={"gen_ai.operation.name": frozenset({"tool_call"})},
    tool=("gen_ai.tool.name",),
    arguments=(ArgumentSource("gen_ai.input.messages", scheduled),),
    call_id=("gen_ai.tool.call_id",),
    failed_marks={
        "gen_ai.output.messages": ('{"status":"error"', '{"status":"cancelled"'),
    },
    control=frozenset(
        {
            "ask_user",
            "complete_task",
            "enter_plan_mode",
            "exit_plan_mode",
            "invoke_agent",
            "update_topic",
            "write_todos",
        }
    ),
    switch="GEMINI_TELEMETRY_TRACES_ENABLED=true",
)
