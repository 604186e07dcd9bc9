# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""CrewAI, instrumented by OpenInference."""

from __future__ import annotations

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false"}

import model_server
import rover
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation import using_session
from openinference.instrumentation.crewai import CrewAIInstrumentor

tracing = rover.provider()
CrewAIInstrumentor().instrument(tracer_provider=tracing)
agent = Agent(
    role="farm_rover",
    goal="water the fields",
    backstory="a rover",
    llm=LLM(model="openai/script", base_url=model_server.serve(), api_key="none"),
    tools=[tool(each.__name__)(each) for each in rover.TOOLS],
    max_iter=20,
)
task = Task(description="water field 3", expected_output="an answer", agent=agent)
with using_session(rover.SESSION):
    Crew(agents=[agent], tasks=[task], cache=False).kickoff()
tracing.shutdown()
