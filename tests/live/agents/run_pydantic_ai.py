# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""Pydantic AI with a function for a model."""

from __future__ import annotations

import os

import rover
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.agent import InstrumentationSettings
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

calls = enumerate(rover.SCRIPT, start=1)


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The next call of the script, and the answer after the last."""
    for number, (tool, arguments) in calls:
        return ModelResponse(parts=[ToolCallPart(tool, arguments, f"call_{number}")])
    return ModelResponse(parts=[TextPart(rover.ANSWER)])


def move(x: int, y: int) -> str:
    """Move the rover; a stuck wheel is told to the model."""
    try:
        return rover.move(x, y)
    except RuntimeError as problem:
        raise ModelRetry(str(problem)) from problem


tracing = rover.provider()
tools = [move if tool is rover.move else tool for tool in rover.TOOLS]
version = os.environ["ROVER_THROUGH"]
settings = {"version": int(version)} if version else {}
Agent.instrument_all(InstrumentationSettings(tracer_provider=tracing, **settings))
agent = Agent(FunctionModel(model), name="farm_rover", tools=tools, retries=2)
agent.run_sync("water field 3", conversation_id=rover.SESSION)
tracing.shutdown()
