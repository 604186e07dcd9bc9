"""Claude Code and the Claude Agent SDK: the program's own spans, and three instrumentations.

All use the model's name of a tool: `mcp__<server>__<tool>` for the tool of an MCP server. The
program's own spans also have the conventions' name, without the server, and have no arguments.
Spans below the call's span show its outcome, and a person's refusal: see `FAILED_PARTS`.
"""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.conventions.openinference import SWITCH, TOOL
from collector.dialects.values.arguments import mapping, wrapped_input

__all__ = [
    "CLAUDE_CODE",
    "CLAUDE_LANGSMITH",
    "CLAUDE_LOGFIRE",
    "CLAUDE_OPENINFERENCE",
]

_CONTROL = frozenset(
    {
        "Agent",
        "AskUserQuestion",
        "EnterPlanMode",
        "ExitPlanMode",
        "StructuredOutput",
        "Task",
        "TodoWrite",
        "ToolSearch",
    }
)
"""Tools that hand over to a part of the agent, ask its user, plan, or answer: they have no effect."""

CLAUDE_CODE = Dialect(
    name="claude_code",
    scopes=("com.anthropic.claude_code",),
    when=("tool_name", "span.type"),
    values={"span.type": frozenset({"tool"})},
    tool=("tool_name",),
    call_id=("gen_ai.tool.call.id", "tool_use_id"),
    control=_CONTROL,
)

CLAUDE_OPENINFERENCE = Dialect(
    name="claude_openinference",
    scopes=(
        "openinference.instrumentation.claude_agent_sdk",
        "@arizeai/openinference-instrumentation-claude-agent-sdk",
    ),
    when=("tool.name", "openinference.span.kind"),
    values=TOOL,
    tool=("tool.name",),
    arguments=(ArgumentSource("input.value", mapping),),
    call_id=("tool.id",),
    control=_CONTROL,
    switch=SWITCH,
)

CLAUDE_LOGFIRE = Dialect(
    name="claude_logfire",
    scopes=("logfire.claude_agent_sdk",),
    when=("gen_ai.tool.name", "gen_ai.operation.name"),
    values={"gen_ai.operation.name": frozenset({"execute_tool"})},
    tool=("gen_ai.tool.name",),
    arguments=(ArgumentSource("gen_ai.tool.call.arguments", mapping),),
    call_id=("gen_ai.tool.call.id",),
    failed_without=("gen_ai.tool.call.result",),
    control=_CONTROL,
)

CLAUDE_LANGSMITH = Dialect(
    name="claude_langsmith",
    when=("langsmith.span.kind", "langsmith.metadata.ls_integration"),
    values={
        "langsmith.span.kind": frozenset({"tool"}),
        "langsmith.metadata.ls_integration": frozenset({"claude-agent-sdk"}),
    },
    tool=("gen_ai.tool.name",),
    span_name="(?P<tool>.+)",
    arguments=(ArgumentSource("gen_ai.prompt", wrapped_input),),
    call_id=("gen_ai.tool.call.id",),
    failed_by_exception=True,
    control=_CONTROL,
    switch="LANGSMITH_HIDE_INPUTS=false",
)
