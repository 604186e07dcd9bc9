"""Where sessions and agents are named: on any span of a trace, whatever its dialect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "AGENTS",
    "AGENT_KEYS",
    "AGENT_SPANS",
    "BETWEEN",
    "CONVENTIONS",
    "DOCTOR_SCOPE",
    "FAILED_PARTS",
    "METADATA_SCOPES",
    "MODELS",
    "NO_AGENT",
    "NO_SESSION",
    "PREFIX",
    "ROOT_AGENT",
    "SESSION_KEYS",
    "STOPS",
    "AgentSpan",
    "PartSpans",
    "is_served",
]

DOCTOR_SCOPE: Final = "offrails.doctor"
"""The instrumentation scope of the test spans of `offrails doctor`: they are nobody's, and count as no fault."""

SESSION_KEYS: Final = (
    "gen_ai.conversation.id",
    "session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id",
    "traceloop.association.properties.thread_id",
    "traceloop.association.properties.chat_id",
    "langsmith.metadata.session_id",
    "langsmith.metadata.conversation_id",
    "langsmith.metadata.thread_id",
    "langsmith.metadata.sessionId",
    "langsmith.metadata.session.id",
    "langsmith.metadata.conversationId",
    "langsmith.metadata.threadId",
    "langsmith.metadata.chatId",
    "langfuse.session.id",
    "ai.telemetry.metadata.sessionId",
    "ai.telemetry.metadata.session_id",
    "ai.telemetry.metadata.session.id",
    "ai.telemetry.metadata.conversationId",
    "ai.telemetry.metadata.conversation_id",
    "ai.telemetry.metadata.threadId",
    "ai.telemetry.metadata.thread_id",
    "ai.telemetry.metadata.chatId",
    "ai.settings.context.sessionId",
    "ai.settings.context.session_id",
    "ai.settings.context.conversationId",
    "ai.settings.context.conversation_id",
    "ai.settings.context.threadId",
    "ai.settings.context.thread_id",
    "ai.settings.context.chatId",
    "mastra.metadata.sessionId",
    "gcp.vertex.agent.session_id",
    "lmnr.association.properties.session_id",
    "spring.ai.chat.client.conversation.id",
    "mirascope.ops.session.id",
    "gen_ai.session.id",
    "conversation.id",
    "conversation_id",
    "session_id",
    "thread_id",
)
"""Attributes that may hold a conversation's id, best first; the first present one wins.

Not here: `langsmith.trace.session_name` is a project, `mcp.session.id` differs per request.
"""

AGENT_KEYS: Final = (
    "gen_ai.agent.name",
    "agent.name",
    "traceloop.association.properties.lc_agent_name",
    "langsmith.metadata.lc_agent_name",
    "ai.telemetry.functionId",
)

NO_AGENT: Final = frozenset(
    {"", "OpenAI Agent", "LangGraph", "AgentToolExecutor", "ChatClient"}
)
"""Names that name nobody: OpenTelemetry's instrumentation writes the first on every tool span, a graph that was
given no name has the second, and Dapr's tools and models have the others."""

NO_SESSION: Final = "[no_session_id]"
"""AgentScope's value for a conversation without an id."""

METADATA_SCOPES: Final[tuple[str, ...]] = (
    "openinference.instrumentation.langchain",
    "@arizeai/openinference-instrumentation-langchain",
    "mlflow.",
)
"""Scopes whose attribute `metadata` is a JSON text with LangGraph's `lc_agent_name`."""


@dataclass(frozen=True, slots=True)
class AgentSpan:
    """Spans that name an agent: in the attribute `key` if one is given, else in the group `agent` of their name."""

    span_name: str = ""
    key: str = ""
    scopes: tuple[str, ...] = ()
    values: dict[str, frozenset[str]] = field(default_factory=dict)
    unless: str = ""
    """A key that must not be there."""
    quoted: bool = False
    """The attribute is a JSON text."""


_AGENT: Final = {"openinference.span.kind": frozenset({"AGENT"})}

AGENT_SPANS: Final[tuple[AgentSpan, ...]] = (
    AgentSpan(
        "(?:invoke_agent|create_agent) (?P<agent>.+)",
        values={"gen_ai.operation.name": frozenset({"invoke_agent", "create_agent"})},
    ),
    AgentSpan(
        "(?:agent_run \\[(?P<agent>.+)\\]|invoke_agent (?P<agent2>.+))",
        scopes=("gcp.vertex.agent", "openinference.instrumentation.google_adk"),
    ),
    AgentSpan(
        "(?P<agent>.+)\\._execute_core", scopes=("openinference.instrumentation.crewai",)
    ),
    AgentSpan(
        key="graph.node.id",  # agents' spans have other names without a crew, or by events
        scopes=("openinference.instrumentation.crewai",),
        values=_AGENT,
    ),
    AgentSpan(
        "(?P<agent>.+)\\.(?:a?run|a?run_stream)",
        scopes=(
            "openinference.instrumentation.smolagents",
            "openinference.instrumentation.agno",
        ),
        values=_AGENT,
    ),
    AgentSpan(
        key="graph.node.id",  # the workflow has kind AGENT, too, but lacks this key
        scopes=("@arizeai/openinference-instrumentation-openai-agents",),
        values=_AGENT,
    ),
    AgentSpan(
        key="entity.name",
        scopes=("@voltagent/",),
        values={"entity.type": frozenset({"agent"})},
    ),
    AgentSpan(
        key="runinfo.name",
        scopes=("github.com/cloudwego/eino-ext/callbacks/apmplus",),
        values={"runinfo.component": frozenset({"Agent", "AgenticAgent"})},
    ),
    AgentSpan(
        key="traceloop.entity.name",  # span names are reversed: agent.rover
        scopes=("respan.",),
        values={"traceloop.span.kind": frozenset({"agent"})},
    ),
    AgentSpan(
        "(?P<agent>.+?)(?:\\.agent)?",
        values={"traceloop.span.kind": frozenset({"agent"})},
    ),
    AgentSpan(key="upsonic.agent.name", scopes=("upsonic",)),
    AgentSpan("Turn .+ for agent (?P<agent>.+)", scopes=("logfire.openai_agents",)),
    AgentSpan(key="langfuse.observation.metadata.lc_agent_name", quoted=True),
    AgentSpan(
        "(?P<agent>.+)",
        values={"langfuse.observation.type": frozenset({"agent"})},
        unless="langfuse.observation.metadata.langgraph_node",  # any with "agent" in its name
    ),
    AgentSpan(
        "(?P<agent>.+)",
        values={
            "gen_ai.operation.name": frozenset({"agent"}),
            "_dd.llmobs.artificial_gen_ai_tags": frozenset({"true"}),
        },
    ),
    AgentSpan("(?P<agent>[^.]+)", values={"mlflow.spanType": frozenset({'"AGENT"'})}),
)


ROOT_AGENT: Final = {"gen_ai.operation.name": frozenset({"invoke_agent"})}
"""Agents' spans: a root span among these that names no agent stands for its service, whatever agents are below."""


@dataclass(frozen=True, slots=True)
class PartSpans:
    """Which spans below a call's own show how the call went."""

    scopes: tuple[str, ...]
    values: dict[str, frozenset[str]]
    event: dict[str, str] = field(default_factory=dict)
    """If given, one event of the span must have these attributes."""


_CLAUDE_CODE: Final = ("com.anthropic.claude_code",)

FAILED_PARTS: Final[tuple[PartSpans, ...]] = (
    PartSpans(
        _CLAUDE_CODE,
        {"span.type": frozenset({"tool.execution"}), "success": frozenset({"false"})},
    ),
    PartSpans(
        _CLAUDE_CODE,
        {"span.type": frozenset({"tool.blocked_on_user"}), "decision": frozenset({"reject"})},
    ),
    PartSpans(
        ("codex", "Codex"),
        {"target": frozenset({"codex_core::tools::router"})},
        {"event.name": "codex.tool_result", "success": "false"},
    ),
)
"""Spans that show that the call of their parent failed, or that a person refused it."""

CONVENTIONS: Final[tuple[str, ...]] = (
    "agentops.",
    "ai.",
    "gcp.vertex.agent.",
    "gen_ai.",
    "genkit:",
    "haystack.",
    "langfuse.",
    "langsmith.",
    "langwatch.",
    "llm.",
    "lmnr.",
    "mastra.",
    "mcp.",
    "mirascope.",
    "mlflow.",
    "openinference.",
    "spring.ai.",
    "tanstack.ai.",
    "traceloop.",
)
"""Prefixes of keys that only agents' spans have. A span without such a key follows no dialect."""

STOPS: Final[dict[str, frozenset[str]]] = {
    "gen_ai.operation.name": frozenset(
        {"chat", "generate_content", "text_completion", "invoke_agent", "invoke_workflow"}
    ),
    "openinference.span.kind": frozenset({"AGENT", "LLM"}),
    "traceloop.span.kind": frozenset({"agent", "workflow"}),
    "ai.operationId": frozenset({"ai.generateText", "ai.streamText"}),
    "langfuse.observation.type": frozenset({"agent", "generation"}),
    "lmnr.span.type": frozenset({"LLM"}),
    "mlflow.spanType": frozenset({'"AGENT"', '"CHAT_MODEL"', '"LLM"'}),
}
"""Spans of models and agents. A tool span below one and a tool span above it are never the same call."""

MODELS: Final[dict[str, frozenset[str]]] = {
    "gen_ai.operation.name": frozenset({"chat", "generate_content", "text_completion"}),
    "openinference.span.kind": frozenset({"LLM"}),
    "traceloop.span.kind": frozenset({"llm"}),
    "ai.operationId": frozenset({"ai.generateText.doGenerate", "ai.streamText.doStream"}),
    "langfuse.observation.type": frozenset({"generation"}),
    "langsmith.span.kind": frozenset({"llm"}),
    "lmnr.span.type": frozenset({"LLM"}),
    "mlflow.spanType": frozenset({'"CHAT_MODEL"', '"LLM"'}),
}
"""Spans of one request to a model: whoever asks is the span above."""

AGENTS: Final[dict[str, frozenset[str]]] = {
    key: values - MODELS.get(key, frozenset()) for key, values in STOPS.items()
}
"""Spans of agents. One that is also marked as a model's is an agent's."""

PREFIX: Final = "mcp__"
BETWEEN: Final = "__"
"""Agents name an MCP tool PREFIX, server, BETWEEN, tool."""


def is_served(asked: str, served: str) -> bool:
    """True if `asked` is `served` with its MCP server's name in front."""
    return asked.startswith(PREFIX) and asked.endswith(BETWEEN + served)
