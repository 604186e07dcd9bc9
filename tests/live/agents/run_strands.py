# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""Strands, which writes its own spans."""

from __future__ import annotations

import model_server
import rover
from strands import Agent, tool
from strands.models.openai import OpenAIModel

tracing = rover.provider()
agent = Agent(
    model=OpenAIModel(
        client_args={"base_url": model_server.serve(), "api_key": "none"}, model_id="script"
    ),
    tools=[tool(each) for each in rover.TOOLS],
    name="farm_rover",
    callback_handler=None,
    trace_attributes={"session.id": rover.SESSION},
)
agent("water field 3")
tracing.shutdown()
