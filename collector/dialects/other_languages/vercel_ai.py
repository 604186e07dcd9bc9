"""The Vercel AI SDK: `ai.toolCall` spans and, since version 7, spans of the GenAI conventions.

OpenInference's processor copies the first error of a trace into the status of every span that ends later. A failed
call has no result, so the error status of a span with a result is ignored. LangSmith's wrapper traces a tool's
`execute` function: the arguments are the first of its two parameters.
"""

from dataclasses import replace

from collector.dialects.base import ArgumentSource, Dialect, Freshness
from collector.dialects.conventions.gen_ai import GEN_AI
from collector.dialects.python.langchain import LANGSMITH_TRACEABLE
from collector.dialects.values.arguments import mapping, traced_execution

__all__ = [
    "VERCEL_AI",
    "VERCEL_AI_ANSWERED",
    "VERCEL_AI_GENAI_ANSWERED",
    "VERCEL_AI_LANGSMITH",
]

_PROCESSED = "openinference.span.kind"

VERCEL_AI = Dialect(
    name="vercel_ai",
    when=("ai.toolCall.name",),
    not_values={"ai.operationId": frozenset({"ai.generateText", "ai.streamText"})},
    tool=("ai.toolCall.name",),
    arguments=(
        ArgumentSource("ai.toolCall.args", mapping),
        ArgumentSource("ai.toolCall.input", mapping),
    ),
    call_id=("ai.toolCall.id",),
    switch="experimental_telemetry: {recordInputs: true}",
    freshness=Freshness(messages=("ai.prompt.messages",), scopes=("ai",)),
)

VERCEL_AI_ANSWERED = replace(
    VERCEL_AI,
    when=(*VERCEL_AI.when, _PROCESSED),
    some=("ai.toolCall.result", "ai.toolCall.output"),
    status_tells=False,
)

VERCEL_AI_GENAI_ANSWERED = replace(
    GEN_AI,
    scopes=("gen_ai",),
    when=(*GEN_AI.when, _PROCESSED, "gen_ai.execute_tool.duration", "gen_ai.tool.call.result"),
    status_tells=False,
    freshness=Freshness(messages=("gen_ai.input.messages",), scopes=("gen_ai",)),
)

VERCEL_AI_LANGSMITH = replace(
    LANGSMITH_TRACEABLE,
    name="vercel_ai_langsmith",
    when=(*LANGSMITH_TRACEABLE.when, "langsmith.metadata.ls_integration"),
    values={
        **LANGSMITH_TRACEABLE.values,
        "langsmith.metadata.ls_integration": frozenset({"vercel-ai-sdk"}),
    },
    arguments=(ArgumentSource("gen_ai.prompt", traced_execution),),
)
