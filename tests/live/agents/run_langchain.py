# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""LangChain's agent with a scripted chat model, under three instrumentations."""

from __future__ import annotations

import os
from typing import Any

import rover
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tracers.langchain import wait_for_all_tracers

THROUGH = os.environ["ROVER_THROUGH"]


class Script(BaseChatModel):
    """The next call of the script, and the answer after the last."""

    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        message = AIMessage(rover.ANSWER)
        if self.asked < len(rover.SCRIPT):
            name, arguments = rover.SCRIPT[self.asked]
            self.asked += 1
            call = {"name": name, "args": arguments, "id": f"call_{self.asked}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


@wrap_tool_call
def told(request: Any, handler: Any) -> Any:
    """A tool that raises is told to the model."""
    try:
        return handler(request)
    except RuntimeError as problem:
        return ToolMessage(f"error: {problem}", tool_call_id=request.tool_call["id"])


tracing = rover.provider()
if THROUGH == "openinference":
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=tracing)
elif THROUGH == "traceloop":
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    LangchainInstrumentor().instrument(tracer_provider=tracing)
agent = create_agent(
    Script(),
    tools=[tool(each) for each in rover.TOOLS],
    middleware=[told],
    name="farm_rover",
)
agent.invoke(
    {"messages": [("user", "water field 3")]},
    {"configurable": {"thread_id": rover.SESSION}, "metadata": {"session_id": rover.SESSION}},
)
wait_for_all_tracers()
tracing.shutdown()
