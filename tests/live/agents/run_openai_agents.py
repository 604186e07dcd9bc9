# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""The OpenAI Agents SDK with a scripted model, under three instrumentations."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import Any

import rover
from agents import Agent, Model, ModelResponse, Runner, function_tool, set_trace_processors
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

if os.environ["ROVER_THROUGH"] == "openinference":
    from openinference.instrumentation import using_session
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
else:  # OpenTelemetry's and Traceloop's share a name, and name no session.
    from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    using_session = contextlib.nullcontext


class Script(Model):
    """The next call of the script, and the answer after the last."""

    def __init__(self) -> None:
        self.asked = 0

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
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
tracing = rover.provider()
OpenAIAgentsInstrumentor().instrument(tracer_provider=tracing)
agent = Agent(
    name="farm_rover", model=Script(), tools=[function_tool(tool) for tool in rover.TOOLS]
)
with using_session(rover.SESSION):
    asyncio.run(Runner.run(agent, "water field 3", max_turns=20))
tracing.shutdown()
