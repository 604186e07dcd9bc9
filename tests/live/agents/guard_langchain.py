# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""LangChain's agent, or LangGraph's node of tools, with a scripted model and guarded tools."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import guarded
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.messages import ToolMessage
from langchain_script import CONFIG, Script
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from offrails_guard.adapters.langchain import GuardMiddleware

FORM = os.environ["ROVER_THROUGH"]
QUESTION = {"messages": [("user", "water field 3")]}


def graph(middleware: GuardMiddleware) -> Any:
    """An agent of one's own: a model, and a node of tools."""
    tools = [tool(each) for each in guarded.TOOLS]
    if FORM != "node":
        return create_agent(Script(), tools=tools, middleware=[middleware], name="farm_rover")
    model = Script()
    found = StateGraph(MessagesState)
    found.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    node = ToolNode(
        tools,
        wrap_tool_call=middleware.wrap_tool_call,
        awrap_tool_call=middleware.awrap_tool_call,
    )
    found.add_node("tools", node)
    found.add_edge(START, "model")
    found.add_conditional_edges("model", tools_condition)
    found.add_edge("tools", "model")
    return found.compile()


# The session is the thread's: the guard names none.
with guarded.guard(agent="farm_rover") as guard:
    agent = graph(GuardMiddleware(guard))
    config = {**CONFIG, "recursion_limit": 50}
    state = (
        asyncio.run(agent.ainvoke(QUESTION, config))
        if FORM == "async"
        else agent.invoke(QUESTION, config)
    )
messages = state["messages"]
told = [each.content for each in messages if isinstance(each, ToolMessage)]
guarded.finish(told, messages[-1].content)
