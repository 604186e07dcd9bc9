# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""AutoGen with a model that replays the script: native spans below OpenInference's."""

from __future__ import annotations

import asyncio
import json

import rover
from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from openinference.instrumentation import using_session
from openinference.instrumentation.autogen_agentchat import AutogenAgentChatInstrumentor


def result(content: list[FunctionCall] | str) -> CreateResult:
    """The model's response."""
    reason = "stop" if isinstance(content, str) else "function_calls"
    usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
    return CreateResult(finish_reason=reason, content=content, usage=usage, cached=False)


async def play() -> None:
    """One run of the agent."""
    calls = [
        FunctionCall(id=f"call_{number}", name=tool, arguments=json.dumps(arguments))
        for number, (tool, arguments) in enumerate(rover.SCRIPT, start=1)
    ]
    model = ReplayChatCompletionClient(
        [*(result([call]) for call in calls), result(rover.ANSWER)],
        model_info=ModelInfo(
            vision=False,
            function_calling=True,
            json_output=False,
            family="unknown",
            structured_output=False,
        ),
    )
    agent = AssistantAgent(
        "farm_rover", model, tools=list(rover.TOOLS), max_tool_iterations=len(calls) + 1
    )
    with using_session(rover.SESSION):
        await agent.run(task="water field 3")


tracing = rover.provider()
AutogenAgentChatInstrumentor().instrument(tracer_provider=tracing)
asyncio.run(play())
tracing.shutdown()
