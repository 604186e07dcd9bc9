# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""Agno, instrumented by OpenInference."""

from __future__ import annotations

import model_server
import rover
from agno.agent import Agent
from agno.models.openai import OpenAIChat
from openinference.instrumentation.agno import AgnoInstrumentor

tracing = rover.provider()
AgnoInstrumentor().instrument(tracer_provider=tracing)
model = OpenAIChat(id="script", base_url=model_server.serve(), api_key="none")
agent = Agent(name="farm_rover", model=model, tools=list(rover.TOOLS), telemetry=False)
agent.run("water field 3", session_id=rover.SESSION)
tracing.shutdown()
