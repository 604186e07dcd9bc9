"""Claude Agent SDK: hooks around tools.

    options = ClaudeAgentOptions(hooks=hooks(guard), ...)

A denied call is not made: the model gets the message as the tool's error, and the run goes on.
"""

from __future__ import annotations

from typing import Any

from claude_agent_sdk import HookMatcher

from offrails_guard.adapters.claude_hooks import ASKED, OUTCOMES, denial, question
from offrails_guard.awaiting_outcome.decision_ids import DecisionIds
from offrails_guard.base import BaseGuard

__all__ = ["hooks"]


def hooks(guard: BaseGuard) -> dict[Any, list[HookMatcher]]:
    """The `hooks` of `ClaudeAgentOptions`, for every tool.

    Without a session of the guard, the SDK's session is it.
    """
    awaiting = DecisionIds()

    async def ask(event: Any, tool_use_id: str | None, _context: Any) -> Any:
        asked = question(guard, event)
        decision = await guard.acheck(asked.pop("tool"), asked.pop("arguments"), **asked)
        if not decision.allowed:
            guard.refused(decision)
            return denial(decision)
        awaiting.put(tool_use_id or asked["call_id"], decision.decision_id)
        return {}

    async def ended(event: Any, tool_use_id: str | None, _context: Any) -> Any:
        call = tool_use_id or event.get("tool_use_id") or ""
        guard.outcome(awaiting.take(call), OUTCOMES[event["hook_event_name"]])
        return {}

    before, after = HookMatcher(hooks=[ask]), HookMatcher(hooks=[ended])
    return {ASKED: [before], **{event: [after] for event in OUTCOMES}}
