"""What hooks of Claude Code and of the Claude Agent SDK say, and what is asked and answered by it.

    SessionStart        no call of the session was made yet, if it is a new one
    PreToolUse          ask, before the tool runs
    PostToolUse         the call ran
    PostToolUseFailure  the call failed

An allowed call is answered by nothing: `permissionDecision: allow` would skip the user's own rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from offrails_guard.base import BaseGuard
from offrails_guard.decision import Decision, Outcome

__all__ = ["ASKED", "OUTCOMES", "STARTED", "denial", "is_new", "question"]

STARTED: Final = "SessionStart"
ASKED: Final = "PreToolUse"
OUTCOMES: Final[Mapping[str, Outcome]] = {"PostToolUse": "ran", "PostToolUseFailure": "failed"}
"""Events after a call, and what became of it."""


NEW: Final = ("startup", "clear")
"""How a session starts that goes on with nothing."""


def is_new(event: Mapping[str, Any]) -> bool:
    """True for an event of `SessionStart` with which a conversation begins."""
    return event.get("source") in NEW


def question(guard: BaseGuard, event: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `check` for one event of `PreToolUse`."""
    arguments = event.get("tool_input")
    return {
        "tool": _text(event, "tool_name"),
        "arguments": arguments if isinstance(arguments, Mapping) else None,
        "call_id": _text(event, "tool_use_id"),
        "session": "" if guard.session else _text(event, "session_id"),
        "agent": "" if guard.agent else _text(event, "agent_type"),
    }


def denial(decision: Decision) -> dict[str, Any]:
    """The hook's answer to a call that is not made."""
    return {
        "hookSpecificOutput": {
            "hookEventName": ASKED,
            "permissionDecision": "deny",
            "permissionDecisionReason": decision.message,
        }
    }


def _text(event: Mapping[str, Any], key: str) -> str:
    found = event.get(key)
    return found if isinstance(found, str) else ""
