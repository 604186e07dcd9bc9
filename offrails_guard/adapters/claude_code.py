"""Claude Code: a hook as a command, which is one process for each event.

The event is JSON on standard input. Exit codes are Claude Code's: with 2 the call is not made and the
model reads standard error, with 0 the call goes its usual way, and with any other the call goes on and
the user reads a notice. So where calls that nobody decides on are not to be made, every fault is a 2.

A model writes a part of the event: the arguments of its call. What of it Python's reader refuses is unknown; the call
is asked about all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from offrails_guard.adapters.claude_hooks import (
    ASKED,
    OUTCOMES,
    STARTED,
    denial,
    is_new,
    question,
)
from offrails_guard.awaiting_outcome.decision_id_files import DecisionIdFiles
from offrails_guard.base import BaseGuard
from offrails_guard.decision import NOT_ASKED, Decision
from offrails_guard.lenient_json import read
from offrails_guard.policies import Policy

__all__ = ["HookReply", "reply"]

GO_ON, NOTICE, BLOCK = 0, 1, 2
"""Exit codes of a hook."""


class HookReply(NamedTuple):
    """What the process answers."""

    code: int
    out: str = ""
    err: str = ""


def reply(
    text: bytes, guard: BaseGuard, awaiting: DecisionIdFiles, policy: Policy, *, as_json: bool
) -> HookReply:
    """The answer to one event; never raises.

    Args:
        text: the event.
        guard: asked before a tool.
        awaiting: the decisions of calls that are on their way.
        policy: what to do with a call where the event cannot be read.
        as_json: deny by `permissionDecision` on standard output, in place of exit code 2.
    """
    try:
        return _reply(text, guard, awaiting, as_json=as_json)
    except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
        if policy == "deny":
            return HookReply(BLOCK, err=NOT_ASKED)
        return HookReply(NOTICE, err=f"offrails hook: {problem}")


def _reply(
    text: bytes, guard: BaseGuard, awaiting: DecisionIdFiles, *, as_json: bool
) -> HookReply:
    event = _event(text)
    name, tool = event.get("hook_event_name"), event.get("tool_name")
    if not isinstance(name, str) or (name == ASKED and not isinstance(tool, str)):
        raise ValueError("the event cannot be read")
    if name == ASKED:
        return _ask(event, guard, awaiting, as_json=as_json)
    if name == STARTED and is_new(event):
        awaiting.put(_session(event), "new")
    if name in OUTCOMES:
        awaiting.take(_session(event))
        guard.outcome(awaiting.take(_call(event)), OUTCOMES[name])
    return HookReply(GO_ON)


def _event(text: bytes) -> dict[str, Any]:
    """What is read of the event; nothing where it is none."""
    found = read(text).values
    return found[0] if len(found) == 1 and isinstance(found[0], dict) else {}


def _ask(
    event: Mapping[str, Any], guard: BaseGuard, awaiting: DecisionIdFiles, *, as_json: bool
) -> HookReply:
    asked = question(guard, event)
    asked["new_session"] = awaiting.has(_session(event))
    decision = guard.check(asked.pop("tool"), asked.pop("arguments"), **asked)
    if decision.allowed:
        awaiting.put(_call(event), decision.decision_id)
        return HookReply(GO_ON, out=_notice(event, decision, awaiting))
    guard.refused(decision)
    if as_json:
        return HookReply(GO_ON, out=json.dumps(denial(decision)))
    return HookReply(BLOCK, err=decision.message)


def _notice(event: Mapping[str, Any], decision: Decision, awaiting: DecisionIdFiles) -> str:
    """For the user, once in a session: a call goes on that nobody has judged. "" otherwise."""
    kind = f"notice {decision.unavailable or decision.decision}"
    if decision.judged or not awaiting.is_first(f"{kind} {event.get('session_id')}"):
        return ""
    return json.dumps({"systemMessage": f"offrails: {decision.notice}"})


def _session(event: Mapping[str, Any]) -> str:
    """What names a session of which no call was made yet."""
    return f"new {event.get('session_id')}"


def _call(event: Mapping[str, Any]) -> str:
    """What names a call in the events before and after it."""
    return json.dumps([str(event.get("session_id")), str(event.get("tool_use_id"))])
