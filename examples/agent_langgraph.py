"""The support desk in LangGraph, traced by OpenInference."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from openinference.instrumentation.langchain import LangChainInstrumentor
from support_desk import ANSWER, QUESTION, SCRIPT, SESSION, TOOLS, tracing


class Script(BaseChatModel):
    """The next call of the script, then the answer."""

    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "script"

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        message = AIMessage(ANSWER)
        if self.asked < len(SCRIPT):
            name, arguments = SCRIPT[self.asked]
            self.asked += 1
            call = {"name": name, "args": arguments, "id": f"call_{self.asked}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


model = Script()


def think(state: MessagesState) -> dict[str, Any]:
    """The model's turn."""
    return {"messages": [model.invoke(state["messages"])]}


def route(state: MessagesState) -> str:
    """Where the graph goes on."""
    return "act" if state["messages"][-1].tool_calls else END


graph = StateGraph(MessagesState)
graph.add_node("think", think)
graph.add_node("act", ToolNode([tool(each) for each in TOOLS]))
graph.add_edge(START, "think")
graph.add_conditional_edges("think", route)
graph.add_edge("act", "think")

# These are the lines that offrails needs: where spans go, and the id of the conversation.
provider = tracing()
LangChainInstrumentor().instrument(tracer_provider=provider)
agent = graph.compile(name="support_desk")
found = agent.invoke(
    {"messages": [("user", QUESTION)]},
    {"metadata": {"session_id": SESSION}, "recursion_limit": 50},
)
print(found["messages"][-1].content)
wait_for_all_tracers()
provider.shutdown()
