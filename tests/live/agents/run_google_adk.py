# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""Google ADK with a scripted model: its own spans, or OpenInference's over them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import rover
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

calls = enumerate(rover.SCRIPT, start=1)


class Script(BaseLlm):
    """The next call of the script, and the answer after the last."""

    async def generate_content_async(self, *_: Any, **__: Any) -> AsyncIterator[LlmResponse]:
        part = types.Part(text=rover.ANSWER)
        for number, (tool, arguments) in calls:
            call = types.FunctionCall(id=f"call_{number}", name=tool, args=arguments)
            part = types.Part(function_call=call)
            break
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def told(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
    """Returns a tool's exception to the model."""
    return {"error": str(error)}


async def play() -> None:
    """One turn of one session."""
    agent = Agent(
        name="farm_rover",
        model=Script(model="script"),
        tools=list(rover.TOOLS),
        on_tool_error_callback=told,
    )
    runner = InMemoryRunner(agent=agent, app_name="rover")
    where = {"user_id": "farmer", "session_id": rover.SESSION}
    await runner.session_service.create_session(app_name="rover", **where)
    message = types.Content(role="user", parts=[types.Part(text="water field 3")])
    async for _ in runner.run_async(**where, new_message=message):
        pass


tracing = rover.provider()
if os.environ.get("ROVER_THROUGH") == "openinference":
    from openinference.instrumentation.google_adk import GoogleADKInstrumentor

    GoogleADKInstrumentor().instrument(tracer_provider=tracing)
asyncio.run(play())
tracing.shutdown()
