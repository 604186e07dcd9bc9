"""A model's messages in the events of its span, as one JSON text: what it was given, and what it answered.

Idea: under older conventions each message is an event of its own, `gen_ai.{role}.message` or `gen_ai.choice`. Under newer ones
one event has all of them. As one text they are read like the messages in an attribute.

Example: the events `gen_ai.user.message` with the content `[{"text": "buy"}]` and `gen_ai.tool.message` with
`[{"toolResult": {...}}]` are `[[{"text": "buy"}],[{"toolResult": {...}}]]`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from collector.decode.span import Span, SpanEvent
from collector.dialects.values.arguments import UNREADABLE, outlined

__all__ = ["DETAILS", "EVENT", "GIVEN", "MESSAGE", "answered_in_events", "given_in_events"]

EVENT: Final = "gen_ai."
MESSAGE: Final = ".message"
"""How the names of events with one message begin and end."""
DETAILS: Final = "gen_ai.client.inference.operation.details"
"""The event that has all messages."""
GIVEN: Final = "gen_ai.input.messages"

_SAID: Final = "gen_ai.output.messages"
_CHOICE: Final = "gen_ai.choice"
_ANSWERS: Final = (_CHOICE.encode(), _SAID.encode())


def given_in_events(span: Span) -> str:
    """The messages that a model was given, as a JSON array; "" if no event has one."""
    return _array([_given(each) for each in span.span_events()])


def answered_in_events(span: Span) -> str:
    """The messages that a model answered, as a JSON array; "" if no event has one. Other events are not decoded."""
    if not span.events:
        return ""
    events = [raw for raw in span.events if type(raw) is not bytes or _may_answer(raw)]
    return _array([_answer(each) for each in span.codec.events(events)]) if events else ""


def _may_answer(raw: bytes) -> bool:
    return any(each in raw for each in _ANSWERS)


def _given(event: SpanEvent) -> Any:
    name, attributes, _ = event
    if name == DETAILS:
        return attributes.get(GIVEN)
    return (
        attributes.get("content") if name.startswith(EVENT) and name.endswith(MESSAGE) else None
    )


def _answer(event: SpanEvent) -> Any:
    name, attributes, _ = event
    if name == DETAILS:
        return attributes.get(_SAID)
    return attributes.get("message") if name == _CHOICE else None


def _array(found: list[Any]) -> str:
    """What is no JSON object or array is a person's or a model's text, which holds neither requests nor results."""
    texts = [each for each in found if type(each) is str and each.startswith(("[", "{"))]
    joined = f"[{','.join(texts)}]"
    if not _is_json(joined):
        # "[urgent] buy" is a person's text, too, and must not hide the others.
        texts = [each for each in texts if outlined(each) is not UNREADABLE]
        joined = f"[{','.join(texts)}]"
    return joined if texts else ""


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
