# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""LangChain's agent with a scripted chat model, under three instrumentations, or two of them at once."""

from __future__ import annotations

from typing import Any

import rover
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain.tools import tool
from langchain_core.messages import ToolMessage
from langchain_core.tracers.langchain import wait_for_all_tracers
from langchain_script import CONFIG, Script, instrument


@wrap_tool_call
def told(request: Any, handler: Any) -> Any:
    """Returns a tool's exception to the model."""
    try:
        return handler(request)
    except RuntimeError as problem:
        return ToolMessage(f"error: {problem}", tool_call_id=request.tool_call["id"])


tracing = instrument()
agent = create_agent(
    Script(),
    tools=[tool(each) for each in rover.TOOLS],
    middleware=[told],
    name="farm_rover",
)
agent.invoke({"messages": [("user", "water field 3")]}, CONFIG)
wait_for_all_tracers()
tracing.shutdown()
