"""All dialects, in the order in which they are tried.

To add one, write its table in the folder of its kind (`python/`, `other_languages/`, `coding_agents/`, `backends/`,
`conventions/`) and add it here.
"""

from __future__ import annotations

from typing import Final

from collector.dialects.backends.agentops import AGENTOPS
from collector.dialects.backends.datadog import DATADOG
from collector.dialects.backends.laminar import LAMINAR, LAMINAR_RAISED
from collector.dialects.backends.langfuse import LANGCHAIN_LANGFUSE, LANGFUSE
from collector.dialects.backends.langwatch import LANGWATCH
from collector.dialects.backends.logfire import OPENAI_AGENTS_LOGFIRE
from collector.dialects.backends.mlflow import MLFLOW
from collector.dialects.backends.sentry import SENTRY
from collector.dialects.base import Dialect
from collector.dialects.coding_agents.claude import (
    CLAUDE_CODE,
    CLAUDE_LANGSMITH,
    CLAUDE_LOGFIRE,
    CLAUDE_OPENINFERENCE,
)
from collector.dialects.coding_agents.codex import CODEX, CODEX_MCP
from collector.dialects.coding_agents.copilot import COPILOT
from collector.dialects.coding_agents.gemini_cli import GEMINI_CLI
from collector.dialects.coding_agents.opencode import OPENCODE
from collector.dialects.coding_agents.openhands import OPENHANDS
from collector.dialects.coding_agents.qwen_code import QWEN_CODE
from collector.dialects.conventions.gen_ai import GEN_AI, GEN_AI_BY_NAME, GEN_AI_IN_PART
from collector.dialects.conventions.mcp import MCP, MCP_SEND, MCP_TRACELOOP
from collector.dialects.conventions.openinference import (
    OPENINFERENCE,
    OPENINFERENCE_BY_NAME,
    TOOL_NAME_ALONE,
)
from collector.dialects.conventions.traceloop import TRACELOOP
from collector.dialects.other_languages.adk_rust import ADK_RUST
from collector.dialects.other_languages.eino import EINO
from collector.dialects.other_languages.genkit import GENKIT
from collector.dialects.other_languages.mastra import MASTRA
from collector.dialects.other_languages.quarkus import QUARKUS_LANGCHAIN4J
from collector.dialects.other_languages.spring_ai import SPRING_AI
from collector.dialects.other_languages.tanstack import TANSTACK_AI
from collector.dialects.other_languages.trpc_agent import TRPC_AGENT
from collector.dialects.other_languages.vercel_ai import (
    VERCEL_AI,
    VERCEL_AI_ANSWERED,
    VERCEL_AI_GENAI_ANSWERED,
    VERCEL_AI_LANGSMITH,
)
from collector.dialects.other_languages.voltagent import VOLTAGENT
from collector.dialects.python.agentscope import AGENTSCOPE
from collector.dialects.python.agno import AGNO, AGNO_GENAI, AGNO_OPENLIT, AGNO_TRACELOOP
from collector.dialects.python.autogen import AUTOGEN, AUTOGEN_OPENINFERENCE
from collector.dialects.python.beeai import BEEAI, BEEAI_JS
from collector.dialects.python.crewai import CREWAI, CREWAI_SPLUNK
from collector.dialects.python.dapr import DAPR_AGENTS
from collector.dialects.python.dspy import DSPY
from collector.dialects.python.fast_agent import FAST_AGENT
from collector.dialects.python.google_adk import (
    GOOGLE_ADK,
    GOOGLE_ADK_BARE,
    GOOGLE_ADK_OPENINFERENCE,
)
from collector.dialects.python.haystack import HAYSTACK
from collector.dialects.python.langchain import (
    LANGCHAIN_GENAI,
    LANGCHAIN_LANGSMITH,
    LANGCHAIN_OPENINFERENCE,
    LANGCHAIN_OPENLIT,
    LANGCHAIN_TRACELOOP,
    LANGSMITH_TRACEABLE,
)
from collector.dialects.python.letta import LETTA
from collector.dialects.python.llama_index import (
    LLAMA_INDEX,
    LLAMA_INDEX_GENAI,
    LLAMA_INDEX_TRACELOOP,
)
from collector.dialects.python.llama_stack import LLAMA_STACK, LLAMA_STACK_SEARCH
from collector.dialects.python.microsoft import (
    AGENT_FRAMEWORK,
    SEMANTIC_KERNEL,
    SEMANTIC_KERNEL_BY_PROGRAM,
    SEMANTIC_KERNEL_JAVA,
)
from collector.dialects.python.nemo import NEMO_FUNCTION, NEMO_TOOL
from collector.dialects.python.openai_agents import (
    HANDOFF,
    OPENAI_AGENTS,
    OPENAI_AGENTS_OPENINFERENCE,
    OPENAI_AGENTS_TRACELOOP,
)
from collector.dialects.python.pydantic_ai import PYDANTIC_AI
from collector.dialects.python.smolagents import SMOLAGENTS
from collector.dialects.python.strands import STRANDS
from collector.dialects.python.upsonic import UPSONIC

__all__ = ["DIALECTS"]

DIALECTS: Final[tuple[Dialect, ...]] = (
    # Frameworks, known by their scope.
    PYDANTIC_AI,
    OPENAI_AGENTS_TRACELOOP,
    OPENAI_AGENTS,
    OPENAI_AGENTS_OPENINFERENCE,
    HANDOFF,
    LANGCHAIN_OPENINFERENCE,
    LANGCHAIN_TRACELOOP,
    MCP_TRACELOOP,
    SMOLAGENTS,
    STRANDS,
    AGENT_FRAMEWORK,
    SEMANTIC_KERNEL,
    SEMANTIC_KERNEL_BY_PROGRAM,
    OPENAI_AGENTS_LOGFIRE,
    BEEAI,
    BEEAI_JS,
    DSPY,
    MASTRA,
    VOLTAGENT,
    GOOGLE_ADK_OPENINFERENCE,
    GOOGLE_ADK,
    CREWAI,
    CREWAI_SPLUNK,
    AUTOGEN,
    AUTOGEN_OPENINFERENCE,
    AGNO,
    AGNO_OPENLIT,
    AGNO_TRACELOOP,
    AGNO_GENAI,
    LLAMA_INDEX,
    LLAMA_INDEX_TRACELOOP,
    LLAMA_INDEX_GENAI,
    CLAUDE_CODE,
    CLAUDE_OPENINFERENCE,
    CLAUDE_LOGFIRE,
    LANGCHAIN_OPENLIT,
    LANGCHAIN_GENAI,
    QUARKUS_LANGCHAIN4J,
    TRPC_AGENT,
    EINO,
    GEMINI_CLI,
    QWEN_CODE,
    COPILOT,
    OPENCODE,
    UPSONIC,
    LLAMA_STACK,
    VERCEL_AI_GENAI_ANSWERED,
    DAPR_AGENTS,
    AGENTSCOPE,
    FAST_AGENT,
    LETTA,
    # Frameworks and protocols, known by their keys.
    MCP,
    SPRING_AI,
    VERCEL_AI_ANSWERED,
    VERCEL_AI,
    TANSTACK_AI,
    GENKIT,
    SEMANTIC_KERNEL_JAVA,
    ADK_RUST,
    CODEX,
    CODEX_MCP,
    OPENHANDS,
    NEMO_FUNCTION,
    NEMO_TOOL,
    HAYSTACK,
    DATADOG,
    AGENTOPS,
    CLAUDE_LANGSMITH,
    VERCEL_AI_LANGSMITH,
    LANGSMITH_TRACEABLE,
    LANGCHAIN_LANGSMITH,
    LANGCHAIN_LANGFUSE,
    # Conventions.
    SENTRY,
    GEN_AI,
    OPENINFERENCE,
    TRACELOOP,
    LANGFUSE,
    LAMINAR_RAISED,
    LAMINAR,
    LANGWATCH,
    MLFLOW,
    # Spans that follow a convention in part.
    GEN_AI_IN_PART,
    GEN_AI_BY_NAME,
    OPENINFERENCE_BY_NAME,
    TOOL_NAME_ALONE,
    # Known by scope and span name alone.
    MCP_SEND,
    GOOGLE_ADK_BARE,
    LLAMA_STACK_SEARCH,
)
"""Dialects in order of preference, for spans that speak several: the more specific first."""
