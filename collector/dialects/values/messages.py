"""What a span says of a model's conversation: its messages, and the tools that the model was offered.

Read are OpenTelemetry's GenAI attributes and events (as JSON texts or as values), OpenInference's and OpenLLMetry's
numbered attributes, and Pydantic AI's lists.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from collector.decode.span import SpanEvent
from collector.dialects.values.result_parts import RESULT_KEYS, RESULT_TYPES

__all__ = [
    "AskedCall",
    "Conversation",
    "SpanMessage",
    "conversation",
    "json_text",
    "user_texts",
    "value_of",
]

SYSTEM, ASSISTANT, TOOL = "system", "assistant", "tool"
USER: Final = "user"

_INPUTS: Final = ("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages")
_OUTPUTS: Final = ("gen_ai.output.messages", "gen_ai.completion")
_ALL: Final = ("pydantic_ai.all_messages", "all_messages_events", "events")
_SYSTEM: Final = ("gen_ai.system_instructions",)
_TOOLS: Final = ("gen_ai.tool.definitions", "gen_ai.request.tools")
_FINAL: Final = ("final_result", "ai.response.text")

_NUMBERED: Final = re.compile(
    r"(?P<list>llm\.input_messages|llm\.output_messages|gen_ai\.prompt|gen_ai\.completion)"
    r"\.(?P<at>\d+)\.(?:message\.)?(?P<rest>.+)"
)
_NUMBERED_TOOL: Final = re.compile(
    r"llm\.tools\.(\d+)\.tool\.json_schema|llm\.request\.functions\.(\d+)\.name"
)
_NUMBERED_CALL: Final = re.compile(
    r"tool_calls\.(?P<at>\d+)\.(?:tool_call\.)?(?:function\.)?(?P<field>id|name|arguments)"
)
_NUMBERED_PART: Final = re.compile(r"contents\.(?P<at>\d+)\.message_content\.(?P<field>.+)")
_INPUT_LISTS: Final = frozenset({"llm.input_messages", "gen_ai.prompt"})

_HINT: Final = re.compile("|".join(sorted(RESULT_TYPES | RESULT_KEYS)))
"""What a text that is JSON has where results are among its blocks."""

_USERS: Final = frozenset({USER, "human"})

_EVENTS: Final = {
    "gen_ai.system.message": SYSTEM,
    "gen_ai.user.message": USER,
    "gen_ai.assistant.message": ASSISTANT,
    "gen_ai.tool.message": TOOL,
    "gen_ai.choice": ASSISTANT,
}
_JSON: Final = frozenset('{["')
"""First characters of JSON that is more than a bare word."""

_DETAILS: Final = "gen_ai.client.inference.operation.details"


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A tool call that a model asked for."""

    tool: str
    arguments: str
    call_id: str


@dataclass(frozen=True, slots=True)
class SpanMessage:
    """One message of a conversation."""

    role: str
    text: str
    call_id: str = ""
    """Id of the call that a tool's message answers; "" if there is none."""
    asked: tuple[AskedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a model was given, and what it answered."""

    inputs: tuple[SpanMessage, ...] = ()
    outputs: tuple[SpanMessage, ...] = ()
    tools: tuple[str, ...] = ()
    """Definitions of tools, as JSON."""

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs or self.tools)


def conversation(
    attributes: Mapping[str, Any], events: Sequence[SpanEvent] = (), unsaid: str = USER
) -> Conversation:
    """The conversation of a span; empty if the span says nothing of one. Never raises.

    Args:
        attributes: of the span.
        events: of the span.
        unsaid: role of an input that says none, as a prompt in one text.
    """
    given, answered = _Side(), _Side()
    system = (SpanMessage(SYSTEM, _content(value_of(attributes.get(key)))) for key in _SYSTEM)
    given.take([each for each in system if each.text])
    tools: list[str] = []
    numbered: dict[str, dict[int, dict[str, Any]]] = {}
    for key, value in attributes.items():
        if key in _INPUTS:
            given.take(_messages(value, unsaid))
        elif key in _OUTPUTS:
            answered.take(_messages(value, ASSISTANT))
        elif key in _ALL:
            _take_whole(_messages(value, unsaid), given, answered)
        elif key in _FINAL:
            answered.take(_messages(value, ASSISTANT) if isinstance(value, str) else ())
        elif key in _TOOLS:
            tools += _definitions(value)
        elif key.startswith(("llm.", "gen_ai.")):
            _take_numbered(key, value, numbered, tools)
    for name, found in numbered.items():
        side = given if name in _INPUT_LISTS else answered
        side.take([each for at in sorted(found) for each in _message(found[at], unsaid)])
    _take_events(events, given, answered, unsaid)
    return Conversation(tuple(given.messages), tuple(answered.messages), tuple(tools))


class _Side:
    """What was given, or what was answered: attributes and events that say the same in several forms say it once."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: list[SpanMessage] = []

    def take(self, source: Sequence[SpanMessage]) -> None:
        """Adds the messages of one source: of each, as many as this source has more than the others."""
        known = Counter(map(_said, self.messages)) if self.messages and source else Counter()
        for each in source:
            said = _said(each)
            if known[said]:
                known[said] -= 1
            else:
                self.messages.append(each)


def _said(message: SpanMessage) -> Hashable:
    """What two forms of one message have in common."""
    return (message.role, message.text) if message.text else message


def user_texts(attributes: Mapping[str, Any], events: Sequence[SpanEvent]) -> list[str]:
    """What the user said by then, as far as a span of a model or an agent has it, each text once.

    A prompt in one text is left out: results of tools may stand in it.
    """
    found = conversation(attributes, events, unsaid="")
    texts = [each.text for each in found.inputs if each.role in _USERS and each.text]
    return list(dict.fromkeys(texts))


def _take_whole(found: Sequence[SpanMessage], given: _Side, answered: _Side) -> None:
    """Takes a whole conversation: what the model said last is its answer."""
    last = max((at for at, each in enumerate(found) if each.role != ASSISTANT), default=-1)
    given.take(found[: last + 1])
    answered.take(found[last + 1 :])


def _take_events(
    events: Sequence[SpanEvent], given: _Side, answered: _Side, unsaid: str
) -> None:
    """Takes the events of a span: a message each, or an event with a whole conversation."""
    inputs: list[SpanMessage] = []
    outputs: list[SpanMessage] = []
    for name, fields, _ in events:
        if name == _DETAILS:
            found = conversation(fields, unsaid=unsaid)
            given.take(found.inputs)
            answered.take(found.outputs)
        elif role := _EVENTS.get(name):
            raw = value_of(fields.get("message", fields.get("gen_ai.event.content")))
            body = {**fields, **raw} if isinstance(raw, dict) else dict(fields)
            (outputs if name == "gen_ai.choice" else inputs).extend(_message(body, role))
    given.take(inputs)
    answered.take(outputs)


@lru_cache(maxsize=4_096)
def _place(key: str) -> tuple[str, int, str] | None:
    """List, place and rest of a numbered key."""
    found = _NUMBERED.fullmatch(key)
    return (found["list"], int(found["at"]), found["rest"]) if found else None


def _take_numbered(
    key: str, value: Any, into: dict[str, dict[int, dict[str, Any]]], tools: list[str]
) -> None:
    place = _place(key)
    if place is None:
        if _NUMBERED_TOOL.fullmatch(key):
            tools.append(json_text(value))
        return
    name, at, rest = place
    message = into.setdefault(name, {}).setdefault(at, {})
    if call := _NUMBERED_CALL.fullmatch(rest):
        calls = message.setdefault("numbered_calls", {})
        calls.setdefault(int(call["at"]), {})[call["field"]] = value
    elif part := _NUMBERED_PART.fullmatch(rest):
        parts = message.setdefault("numbered_parts", {})
        parts.setdefault(int(part["at"]), {})[part["field"].rpartition(".")[2]] = value
    else:
        message[rest] = value


def _messages(value: Any, role: str) -> list[SpanMessage]:
    """The messages of a list, of one object, or of a plain text."""
    found = value_of(value)
    if isinstance(found, dict):
        inner = found.get("messages")
        found = inner if isinstance(inner, list) else [found]
    if isinstance(found, list):
        return [each for raw in found for each in _message(raw, role)]
    return [SpanMessage(role, found)] if isinstance(found, str) and found else []


def _message(raw: Any, role: str) -> Iterator[SpanMessage]:
    if isinstance(raw, list):  # a batch of prompts
        for each in raw:
            yield from _message(each, role)
        return
    if not isinstance(raw, dict):
        if raw:
            yield SpanMessage(role, _content(raw))
        return
    said = raw.get("role")
    if not isinstance(said, str) or not said:
        said = _EVENTS.get(str(raw.get("event.name")), role)
    results, content = _apart(raw.get("content"))
    answers = list(_answers(raw, results))
    yield from answers
    text = "\n".join(dict.fromkeys(filter(None, _texts(raw, content))))
    asked = tuple(_asked(raw))
    if text or asked:
        call_id = raw.get("tool_call_id", raw.get("id") if said == TOOL else "")
        yield SpanMessage(said, text, call_id if isinstance(call_id, str) else "", asked)


def _texts(raw: Mapping[str, Any], content: Any) -> Iterator[str]:
    yield _content(content)
    for part in _parts(raw):
        if part.get("type") != "tool_call" and not _is_result(part):
            yield _part(part)


def _apart(content: Any) -> tuple[list[Any], Any]:
    """The results of tools among the blocks of a message's content, and the content without them."""
    blocks = content
    if isinstance(content, str) and content.startswith("[") and _HINT.search(content):
        blocks = value_of(content)
    if not isinstance(blocks, list):
        return [], content
    results = [each for each in blocks if _is_result(each)]
    return results, [each for each in blocks if not _is_result(each)] if results else content


def _parts(raw: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    found = value_of(raw.get("parts"))
    for part in found if isinstance(found, list) else ():
        if isinstance(part, dict):
            yield part
    numbered = raw.get("numbered_parts", {})
    yield from (numbered[at] for at in sorted(numbered))


def _answers(raw: Mapping[str, Any], blocks: Sequence[Any]) -> Iterator[SpanMessage]:
    """Results of tools that stand as parts in a message, or as blocks of its content."""
    for part in (*_parts(raw), *blocks):
        if _is_result(part):
            keyed = next((part[key] for key in RESULT_KEYS if key in part), part)
            found = keyed if isinstance(keyed, dict) else part
            value = next(
                (found[key] for key in ("response", "result", "content") if key in found), ""
            )
            call_id = part.get("id") or part.get("tool_use_id") or ""
            yield SpanMessage(TOOL, _content(value), str(call_id))


def _is_result(part: Any) -> bool:
    """True if a part of a message is the result of a tool, whoever's the message is."""
    return isinstance(part, dict) and (
        part.get("type") in RESULT_TYPES or not RESULT_KEYS.isdisjoint(part)
    )


def _asked(raw: Mapping[str, Any]) -> Iterator[AskedCall]:
    calls = value_of(raw.get("tool_calls"))
    found: list[Mapping[str, Any]] = []
    if isinstance(calls, list):
        found += [each for each in calls if isinstance(each, dict)]
    numbered = raw.get("numbered_calls", {})
    found += [numbered[at] for at in sorted(numbered)]
    found += [part for part in _parts(raw) if part.get("type") == "tool_call"]
    for call in found:
        function = call.get("function")
        fields = function if isinstance(function, dict) else call
        name = fields.get("name")
        if isinstance(name, str) and name:
            arguments = fields.get("arguments", fields.get("args"))
            yield AskedCall(name, json_text(arguments), str(call.get("id") or ""))


def _content(value: Any) -> str:
    """The text of a message's content, whatever its form."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, (_part(each) for each in value)))
    return _part(value)


def _part(value: Any) -> str:
    if isinstance(value, dict):
        for key in ("text", "content", "thinking", "reasoning"):
            if isinstance(value.get(key), str):
                return str(value[key])
    return value if isinstance(value, str) else json_text(value)


def _definitions(value: Any) -> Iterator[str]:
    found = value_of(value)
    for each in found if isinstance(found, list) else [found]:
        if each:
            yield json_text(each)


def value_of(value: Any) -> Any:
    """The value; of a text that is JSON, what it says."""
    if isinstance(value, str) and value[:1] in _JSON:
        try:
            return msgspec.json.decode(value)
        except (ValueError, RecursionError):
            return value
    return value


def json_text(value: Any) -> str:
    """The value as a text: texts as they are, all else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, enc_hook=str).decode(errors="replace")
    except (ValueError, TypeError, RecursionError):
        return str(value)
