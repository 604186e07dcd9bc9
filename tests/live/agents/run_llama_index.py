# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""LlamaIndex, instrumented by OpenInference."""

from __future__ import annotations

import asyncio

import model_server
import rover
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from openinference.instrumentation import using_session
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor


async def play() -> None:
    """One run of the agent."""
    model = OpenAILike(
        model="script",
        api_base=model_server.serve(),
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
    )
    agent = FunctionAgent(name="farm_rover", llm=model, tools=list(rover.TOOLS))
    with using_session(rover.SESSION):
        await agent.run("water field 3", max_iterations=30)


tracing = rover.provider()
LlamaIndexInstrumentor().instrument(tracer_provider=tracing)
asyncio.run(play())
tracing.shutdown()
