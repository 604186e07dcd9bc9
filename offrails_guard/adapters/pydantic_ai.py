"""Pydantic AI: a toolset around another one.

    agent = Agent(model, toolsets=[GuardedToolset(FunctionToolset([water, scan]), guard)])

A denied call is not made: the model gets the message as a denied tool's answer, and the run goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_ai import RunContext, ToolDenied
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from offrails_guard.base import BaseGuard

__all__ = ["GuardedToolset"]


@dataclass
class GuardedToolset(WrapperToolset[Any]):
    """Asks before each call of the wrapped toolset.

    Without a session of its guard, the run's `conversation_id` is the session; without an agent, the
    run's agent is it.
    """

    guard: BaseGuard

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],
    ) -> Any:
        """Asks, and calls the tool only if the call is allowed."""
        guard = self.guard
        agent = getattr(getattr(ctx, "agent", None), "name", None)
        decision = await guard.acheck(
            name,
            tool_args,
            call_id=ctx.tool_call_id or "",
            session="" if guard.session else ctx.conversation_id or "",
            agent="" if guard.agent else agent or "",
        )
        if not decision.allowed:
            guard.refused(decision)
            return ToolDenied(decision.message)
        try:
            result = await super().call_tool(name, tool_args, ctx, tool)
        except (ApprovalRequired, CallDeferred):
            guard.outcome(decision.decision_id, "skipped")  # it is called again, or elsewhere
            raise
        except BaseException:
            guard.outcome(decision.decision_id, "failed")
            raise
        guard.outcome(decision.decision_id, "ran")
        return result
