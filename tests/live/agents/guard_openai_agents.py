# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""The OpenAI Agents SDK with a scripted model and guarded tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import guarded
import rover
from agents import Agent, Model, ModelResponse, Runner, function_tool, set_trace_processors
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from offrails_guard.adapters import openai_agents

told: list[str] = []


class Script(Model):
    """The next call of the script, and the answer after the last."""

    def __init__(self) -> None:
        self.asked = 0

    async def get_response(self, *, input: Any, **kwargs: Any) -> ModelResponse:  # noqa: A002
        told[:] = [
            each["output"]
            for each in input
            if isinstance(each, dict) and each.get("type") == "function_call_output"
        ]
        return ModelResponse(output=[self._next()], usage=Usage(), response_id=None)

    def _next(self) -> ResponseFunctionToolCall | ResponseOutputMessage:
        if self.asked == len(rover.SCRIPT):
            text = ResponseOutputText(annotations=[], text=rover.ANSWER, type="output_text")
            return ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        tool, arguments = rover.SCRIPT[self.asked]
        self.asked += 1
        return ResponseFunctionToolCall(
            arguments=json.dumps(arguments),
            call_id=f"call_{self.asked}",
            name=tool,
            type="function_call",
        )

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


set_trace_processors([])
with guarded.guard(session=rover.SESSION) as guard:
    tools = openai_agents.guarded([function_tool(tool) for tool in guarded.TOOLS], guard)
    agent = Agent(name="farm_rover", model=Script(), tools=tools)
    result = asyncio.run(Runner.run(agent, "water field 3", max_turns=20))
guarded.finish(told, result.final_output)
