"""Whether the request in a model's span begins a conversation.

Idea: a conversation that goes on holds what its assistant said before. A request of nothing but a system's and a
user's messages is the first one. Which attributes hold the messages is data of the dialects (`Freshness`).

Only a proof counts: a message that cannot be read, a role that is not known, or a sign of a conversation that the
model's server keeps (`previous_response_id`) proves nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from collector.decode.span import Span
from collector.dialects.base import Freshness
from collector.dialects.model_messages.event_messages import DETAILS, EVENT, GIVEN, MESSAGE
from collector.dialects.registry import DIALECTS
from collector.dialects.values.arguments import parsed
from collector.dialects.values.result_parts import RESULT_KEYS, RESULT_TYPES

__all__ = ["FreshnessAt", "freshness_at"]

_TABLES: Final[tuple[Freshness, ...]] = tuple(
    dict.fromkeys(each.freshness for each in DIALECTS if each.freshness is not None)
)

_ROLE: Final = ".role"

_USERS: Final = frozenset({"user", "human"})
_BEGINNING: Final = _USERS | {"system", "developer"}
"""Roles that write before the assistant does."""

_ELSEWHERE_KEYS: Final = ("previous_response_id", "previous_interaction_id")
"""How attributes end that name what is continued."""

_ELSEWHERE: Final = re.compile(
    r'"(?:previous_response_id|previous_interaction_id|conversation|conversation_id)"\s*:(?!\s*null)'
)
"""The same in JSON. Inside a text of JSON the quotes are escaped, so nobody's words match."""

_CALLS: Final = frozenset({"tool_call", "function_call", "tool_use", "tool-call", "reasoning"})
_NO_TURN: Final = RESULT_TYPES | _CALLS
"""Types of parts that only a conversation under way has."""
_NO_TURN_KEYS: Final = RESULT_KEYS | {"function_call", "functionCall", "toolUse"}
"""The same, as keys of parts: Google's and Bedrock's."""
_QUOTED: Final = "For context:"
"""Google's ADK hands what other agents did to an agent as a user's message, behind this text."""

_OPERATION: Final = "gen_ai.operation.name"


@dataclass(frozen=True, slots=True, eq=False)
class FreshnessAt:
    """Where the proof is in spans of one shape. Numbers are places."""

    messages: tuple[int, ...]
    roles: tuple[int, ...]
    elsewhere: tuple[int, ...]
    events: bool

    def is_fresh(self, span: Span) -> bool:
        """True for the first request of a conversation; False if it is none, or may be none."""
        if span.dropped or any(_continues(span.attribute(at)) for at in self.elsewhere):
            return False
        if self.roles:
            return _begins([span.recurring(at) for at in self.roles])
        if self.events:
            return _is_told_beginning(span)
        # Of several attributes with messages each is the whole request.
        return all(_is_beginning(span.attribute(at)) for at in self.messages)


def freshness_at(place: dict[str, int], scope: str) -> FreshnessAt | None:
    """Where spans with these keys show that a conversation begins; None if they do not."""
    tables = [each for each in _TABLES if scope.startswith(each.scopes)]
    if not tables or any(key.endswith(_ELSEWHERE_KEYS) for key in place):
        return None
    for table in tables:
        messages = tuple([place[key] for key in table.messages if key in place])
        elsewhere = tuple([place[key] for key in table.elsewhere if key in place])
        roles = tuple([at for key, at in place.items() if _tells_role(key, table)])
        events = table.events and _OPERATION in place
        if (roles or messages or events) and (elsewhere or not table.elsewhere):
            return FreshnessAt(messages, roles, elsewhere, events=events)
    return None


def _tells_role(key: str, table: Freshness) -> bool:
    return bool(table.roles) and key.endswith(_ROLE) and key.startswith(table.roles)


def _continues(value: Any) -> bool:
    """True for JSON that names what is continued, and for what is no text."""
    return not isinstance(value, str) or _ELSEWHERE.search(value) is not None


def _begins(roles: list[Any]) -> bool:
    return any(role in _USERS for role in roles) and all(role in _BEGINNING for role in roles)


def _is_beginning(value: Any) -> bool:
    """True for the messages of a conversation that no assistant has answered yet."""
    messages = parsed(value) if isinstance(value, str) else value
    if isinstance(messages, dict):  # a request of Google's, as it is
        messages = messages.get("contents")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        return False
    roles = [each.get("role") for each in messages]
    if not all(isinstance(role, str) for role in roles) or not _begins(roles):
        return False
    return not any(_is_under_way(each) for each in messages)


def _is_under_way(message: dict[str, Any]) -> bool:
    """True for a message with parts that only a conversation under way has."""
    parts = message.get("parts", message.get("content"))
    if not isinstance(parts, list):
        return False
    return any(isinstance(part, dict) and _is_of_a_turn(part) for part in parts)


def _is_of_a_turn(part: dict[str, Any]) -> bool:
    return (
        part.get("type") in _NO_TURN
        or not _NO_TURN_KEYS.isdisjoint(part)
        or part.get("text", part.get("content")) == _QUOTED
    )


def _is_told_beginning(span: Span) -> bool:
    """The same of messages in events."""
    has_user = False
    for name, attributes, _ in span.span_events():
        if name == DETAILS:
            told = attributes.get(GIVEN)
            if told is not None and not _is_beginning(told):
                return False
            has_user = has_user or told is not None
        elif name.startswith(EVENT) and name.endswith(MESSAGE):
            role = name[len(EVENT) : -len(MESSAGE)]
            message = {"content": parsed(attributes.get("content"))}
            if role not in _BEGINNING or _is_under_way(message):
                return False
            has_user = has_user or role in _USERS
    return has_user
