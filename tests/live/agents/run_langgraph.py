# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""A LangGraph of one's own with a scripted chat model: a node of ours calls the tools, or LangGraph's."""

from __future__ import annotations

import os
from typing import Any

import rover
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_core.tracers.langchain import wait_for_all_tracers
from langchain_script import CONFIG, Script, instrument
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

TOOLS = {each.__name__: tool(each) for each in rover.TOOLS}
MODEL = Script()


def think(state: MessagesState) -> Any:
    """The model's turn."""
    return {"messages": [MODEL.invoke(state["messages"])]}


def act(state: MessagesState) -> Any:
    """The tools the model asked for."""
    answers = []
    for call in state["messages"][-1].tool_calls:
        try:
            content = TOOLS[call["name"]].invoke(call["args"])
        except RuntimeError as problem:
            content = f"error: {problem}"
        answers.append(ToolMessage(content, tool_call_id=call["id"]))
    return {"messages": answers}


def ends(state: MessagesState) -> str:
    """Where the graph goes on."""
    return "act" if state["messages"][-1].tool_calls else END


tracing = instrument()
own = ToolNode([*TOOLS.values()], handle_tool_errors=True)
graph = StateGraph(MessagesState)
graph.add_node("think", think)
graph.add_node("act", own if "toolnode" in os.environ["ROVER_THROUGH"] else act)
graph.add_edge(START, "think")
graph.add_conditional_edges("think", ends)
graph.add_edge("act", "think")
app = graph.compile(name="farm_rover")
app.invoke({"messages": [("user", "water field 3")]}, {**CONFIG, "recursion_limit": 50})
wait_for_all_tracers()
tracing.shutdown()
