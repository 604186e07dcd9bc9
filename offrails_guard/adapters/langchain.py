"""LangChain and LangGraph: middleware around tool calls.

    agent = create_agent(model, tools, middleware=[GuardMiddleware(guard)])
    node = ToolNode(tools, wrap_tool_call=m.wrap_tool_call, awrap_tool_call=m.awrap_tool_call)

A denied call is not made: the model gets the message as a tool message with the status `error`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.prebuilt.tool_node import ToolCallRequest

from offrails_guard.base import BaseGuard
from offrails_guard.decision import Decision

__all__ = ["GuardMiddleware"]


class GuardMiddleware(AgentMiddleware[Any, Any]):
    """Asks before each tool call. Without a session of its guard, the `thread_id` is the session."""

    def __init__(self, guard: BaseGuard) -> None:
        super().__init__()
        self.guard = guard

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]
    ) -> Any:
        """Asks, and calls the handler only if the call is allowed."""
        call = request.tool_call
        decision = self.guard.check(call["name"], call["args"], **self._names(request))
        if not decision.allowed:
            return self._refusal(request, decision)
        with self._outcome(decision) as results:
            results.append(handler(request))
        return results[0]

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """As `wrap_tool_call`, in an event loop."""
        call = request.tool_call
        decision = await self.guard.acheck(call["name"], call["args"], **self._names(request))
        if not decision.allowed:
            return self._refusal(request, decision)
        with self._outcome(decision) as results:
            results.append(await handler(request))
        return results[0]

    def _names(self, request: ToolCallRequest) -> dict[str, Any]:
        config = getattr(request.runtime, "config", None) or {}
        thread = config.get("configurable", {}).get("thread_id")
        session = "" if self.guard.session or not thread else str(thread)
        return {"call_id": request.tool_call["id"] or "", "session": session}

    @contextmanager
    def _outcome(self, decision: Decision) -> Iterator[list[Any]]:
        """Says what became of the call; an interrupt for a person's answer comes before the call."""
        results: list[Any] = []
        try:
            yield results
        except GraphBubbleUp:
            self.guard.outcome(decision.decision_id, "skipped")
            raise
        except BaseException:
            self.guard.outcome(decision.decision_id, "failed")
            raise
        failed = getattr(results[0], "status", "") == "error"
        self.guard.outcome(decision.decision_id, "failed" if failed else "ran")

    def _refusal(self, request: ToolCallRequest, decision: Decision) -> ToolMessage:
        self.guard.refused(decision)
        call = request.tool_call
        return ToolMessage(
            decision.message, tool_call_id=call["id"], name=call["name"], status="error"
        )
