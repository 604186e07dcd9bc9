"""Claude Code: a hook as a command, which is one process for each event.

The event is JSON on standard input. Exit codes are Claude Code's: with 2 the call is not made and the
model reads standard error, with 0 the call goes its usual way, and with any other the call goes on and
the user reads a notice. So where calls that nobody decides on are not to be made, every fault is a 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from guard.adapters.claude_hooks import ASKED, OUTCOMES, denial, question
from guard.base import BaseGuard
from guard.decision import NOT_ASKED, Policy
from guard.held_files import HeldFiles

__all__ = ["Reply", "reply"]

GO_ON, NOTICE, BLOCK = 0, 1, 2
"""Exit codes of a hook."""


class Reply(NamedTuple):
    """What the process answers."""

    code: int
    out: str = ""
    err: str = ""


def reply(
    text: bytes, guard: BaseGuard, held: HeldFiles, policy: Policy, *, as_json: bool
) -> Reply:
    """The answer to one event.

    Args:
        text: the event.
        guard: asked before a tool.
        held: the decisions of calls that are on their way.
        policy: what to do with a call where the event cannot be read.
        as_json: deny by `permissionDecision` on standard output, in place of exit code 2.
    """
    try:
        event = _object(text)
    except (ValueError, RecursionError) as problem:
        if policy == "deny":
            return Reply(BLOCK, err=NOT_ASKED)
        return Reply(NOTICE, err=f"offrails hook: the event cannot be read: {problem}")
    name = str(event.get("hook_event_name"))
    if name == ASKED:
        return _ask(event, guard, held, as_json=as_json)
    if name in OUTCOMES:
        guard.outcome(held.take(_call(event)), OUTCOMES[name])
    return Reply(GO_ON)


def _object(text: bytes) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("expected an object")  # noqa: TRY004 - as for what is no JSON
    return found


def _ask(
    event: Mapping[str, Any], guard: BaseGuard, held: HeldFiles, *, as_json: bool
) -> Reply:
    asked = question(guard, event)
    decision = guard.check(asked.pop("tool"), asked.pop("arguments"), **asked)
    if decision.allowed:
        held.put(_call(event), decision.decision_id)
        return Reply(GO_ON)
    guard.refused(decision)
    if as_json:
        return Reply(GO_ON, out=json.dumps(denial(decision)))
    return Reply(BLOCK, err=decision.message)


def _call(event: Mapping[str, Any]) -> str:
    """What names a call in the events before and after it."""
    return json.dumps([str(event.get("session_id")), str(event.get("tool_use_id"))])
