# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""Pydantic AI with a function for a model and a guarded toolset."""

from __future__ import annotations

import guarded
import rover
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from offrails_guard.adapters.pydantic_ai import GuardedToolset

calls = enumerate(rover.SCRIPT, start=1)
told: list[str] = []


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The next call of the script, and the answer after the last."""
    parts = [part for message in messages for part in message.parts]
    told[:] = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
    for number, (tool, arguments) in calls:
        return ModelResponse(parts=[ToolCallPart(tool, arguments, f"call_{number}")])
    return ModelResponse(parts=[TextPart(rover.ANSWER)])


# The session is the run's conversation, and the agent is the run's: the guard names neither.
with guarded.guard() as guard:
    tools = GuardedToolset(FunctionToolset(guarded.TOOLS), guard)
    agent = Agent(FunctionModel(model), name="farm_rover", toolsets=[tools])
    result = agent.run_sync("water field 3", conversation_id=rover.SESSION)
guarded.finish(told, result.output)
