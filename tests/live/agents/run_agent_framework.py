# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""Microsoft's Agent Framework, which writes its own spans."""

from __future__ import annotations

import asyncio

import model_server
import rover
from agent_framework import Agent, tool
from agent_framework.openai import OpenAIChatCompletionClient

tracing = rover.provider()
client = OpenAIChatCompletionClient(
    model="script", base_url=model_server.serve(), api_key="none"
)
agent = Agent(client, name="farm_rover", tools=[tool(each) for each in rover.TOOLS])
session = agent.create_session(session_id=rover.SESSION)
asyncio.run(agent.run("water field 3", session=session))
tracing.shutdown()
