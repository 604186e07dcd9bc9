"""Requested calls, read from the outputs of LLM spans.

Each input repeats the whole history, so inputs are never a source of requests: only outputs are new.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
from mypy_extensions import mypyc_attr

from collector.decode.span import Span
from collector.dialects.base import NOT_A_TOOL
from collector.dialects.model_messages.event_messages import (
    answered_in_events,
    given_in_events,
)
from collector.dialects.model_messages.freshness import FreshnessAt, freshness_at
from collector.dialects.names.name_bound import NAME_MAX, bounded
from collector.dialects.values import partial_json
from collector.dialects.values.arguments import UNREADABLE, mapping, outlined, parsed
from collector.dialects.values.result_parts import RESULT_KEYS, RESULT_TYPES

__all__ = [
    "ABOUT_TOOLS",
    "JSON_DEPTH",
    "NOTHING",
    "OUTPUTS_FROM",
    "OVERSIZED",
    "REQUESTS_MAX",
    "TOOL_ROLE",
    "Outputs",
    "RequestedCall",
    "executed_within",
    "given_texts",
    "goes_on",
    "outputs_of",
    "requested",
]


@mypyc_attr(acyclic=True, free_list_len=1)
class RequestedCall:
    """A tool call that a model asked for; `arguments` is None if they cannot be read."""

    __slots__ = ("arguments", "call_id", "tool")

    def __init__(self, tool: str, arguments: Mapping[str, Any] | None, call_id: str) -> None:
        self.tool = tool
        self.arguments = arguments
        self.call_id = call_id


OVERSIZED: Final = RequestedCall("", None, "")
"""A request whose tool's name is longer than NAME_MAX, or a request beyond `REQUESTS_MAX`."""


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """Where spans of one shape have requests, and answers to earlier ones. Numbers are attribute indexes."""

    flat: tuple[tuple[int | None, int, int | None], ...]
    """(id, name, arguments) of each request that has attributes of its own."""
    listed: int | None
    """Messages with `tool_call` parts, as JSON."""
    plain: int | None
    """A plain list of calls, as JSON."""
    said: int | None
    """Answer of the model's API, or a framework's object with it, as JSON."""
    history: int | None
    """The same of Google's client, with what it has executed itself."""
    inputs: tuple[int, ...]
    """Attributes that may hold ids of answered requests."""
    results: Mapping[int, int]
    """Attribute of an answered request's id -> the one of its result, where both have attributes of their own."""
    roles: tuple[int, ...]
    """Role of each message of the inputs."""
    freshness: FreshnessAt | None
    """Evidence that a conversation begins; None if the spans have none."""
    answered: bool
    """True if the inputs have such an id as an attribute of its own."""
    done: bool
    """True if the keys say that the requests were executed within the span."""
    events: bool
    """True if events of such spans have the messages: see `event_messages`."""


NOTHING: Final = Outputs(
    (), None, None, None, None, (), {}, (), None, answered=False, done=False, events=False
)
"""The outputs of a model's span that has neither messages nor requests."""

_FLAT: Final = re.compile(
    r"((?:llm\.output_messages\.\d+\.)?message\.tool_calls\.\d+\.tool_call\."
    r"|gen_ai\.completion\.\d+\.(?:tool_calls\.\d+|function_call)\.)"
    r"(id|name|arguments|function\.name|function\.arguments)"
)
_DONE: Final = "message.tool_calls."
"""How those begin that Google's client has executed itself."""
_GOOGLE: Final = "openinference.instrumentation.google_genai"
_HISTORY: Final = "automatic_function_calling_history"
"""Key with the history of a stream whose requests begin like any other."""
_FLATS: Final[tuple[str, ...]] = ("llm.output_messages.", "gen_ai.completion.", _DONE)
"""How all begin."""
_INPUT: Final = re.compile(
    r"(?:llm\.input_messages\.\d+\.message|gen_ai\.prompt\.\d+)\.tool_call_id"
)
_ANSWERED: Final = ".tool_call_id"
"""How they end."""
_CONTENT: Final = ".content"
"""How the result beside such an id ends."""
_ROLE: Final = re.compile(r"(?:llm\.input_messages\.\d+\.message|gen_ai\.prompt\.\d+)\.role")
_SPEAKS: Final = ".role"
TOOL_ROLE: Final = "tool"
"""Role of a tool's answer."""
_INPUTS: Final = frozenset(
    {
        "gen_ai.input.messages",
        "gen_ai.prompt",
        "gcp.vertex.agent.llm_request",
        "input.value",
        "ai.prompt.messages",
        "langfuse.observation.input",
    }
)
"""Messages as JSON, which may have answers among them."""
_ANSWER_KEYS: Final = RESULT_KEYS | {"tool_call_id"}
"""Keys of messages and their parts that only an answer of a tool has; OpenAI's chat completions have the last one."""
_ANSWERS: Final = (
    *[f'"{each}"' for each in sorted(RESULT_TYPES | _ANSWER_KEYS)],
    '"role":"tool"',
    '"role": "tool"',
)
"""Texts of which an answer of a tool has one as JSON; some write no more than the role."""
ABOUT_TOOLS: Final = frozenset(
    {
        "config",
        "functions",
        "inputSchema",
        "input_schema",
        "parameters",
        "response_format",
        "schema",
        "toolConfig",
        "tool_config",
        "tools",
    }
)
"""Keys under which a model gets the descriptions of tools, beside the messages."""
JSON_DEPTH: Final = 12
"""Objects and lists looked into: messages, their parts, and what is around them."""
_LAMINAR: Final = "lmnr.span.type"
_LANGSMITH: Final = "langsmith.span.kind"
OUTPUTS_FROM: Final[dict[str, frozenset[str]]] = {
    "openinference.span.kind": frozenset({"LLM"}),
    "gen_ai.operation.name": frozenset({"chat", "generate_content", "text_completion"}),
    "traceloop.span.kind": frozenset({"llm"}),
    "ai.operationId": frozenset({"ai.generateText.doGenerate", "ai.streamText.doStream"}),
    "langfuse.observation.type": frozenset({"generation"}),
    _LAMINAR: frozenset({"LLM"}),
    _LANGSMITH: frozenset({"llm"}),
}
"""What spans say that they are whose outputs are read: by the first key they have, if any."""
_messages: Final = partial_json.messages
_listed: Final = partial_json.listed
_listed_at: Final = partial_json.listed_at
_MARK: Final = "tool_call"
"""Text that each request in a message contains."""
_CALLS: Final = frozenset({_MARK, "function_call", "tool_use"})
"""Types of the parts that are requests: the GenAI conventions', OpenAI Responses' and Anthropic's."""
_CALL_KEYS: Final = ("function_call", "functionCall", "toolUse")
"""Keys of parts without a type: OpenAI's of old and Google's, in two spellings, and Bedrock's."""
_MARKS: Final = (*sorted(_CALLS), "functionCall", "toolUse")
"""Texts of which each answer with a request has one."""
_IDS: Final = ("call_id", "id", "toolUseId")
_ARGUMENTS: Final = ("arguments", "args", "input")
_SHORT: Final = 4_096
"""Longer texts are searched for `_MARK` before they are parsed."""
REQUESTS_MAX: Final = 256
"""Further requests in one output are counted, not judged: no model makes so many."""


def outputs_of(place: dict[str, int], scope: str = "") -> Outputs | None:
    """Where spans with these keys may have requests or answers; None if nowhere."""
    listed, plain = place.get("gen_ai.output.messages"), place.get("ai.response.toolCalls")
    said = place.get("langfuse.observation.output", place.get("gcp.vertex.agent.llm_response"))
    if _LANGSMITH in place:
        said = place.get("gen_ai.completion")
    if _LAMINAR in place:  # Laminar writes a completion's choices there
        said = place.get("gen_ai.output.messages")
        listed = None
    flat = _flat(place)
    answers = [place[key] for key in place if key.endswith(_ANSWERED) and _INPUT.fullmatch(key)]
    inputs = answers + [place[key] for key in place if key in _INPUTS]
    results = {
        place[key]: place[beside]
        for key in place
        if key.endswith(_ANSWERED)
        and (beside := key.removesuffix(_ANSWERED) + _CONTENT) in place
    }
    roles = [place[key] for key in place if key.endswith(_SPEAKS) and _ROLE.fullmatch(key)]
    freshness = freshness_at(place, scope)
    none = listed is None and plain is None and said is None
    if none and freshness is None and not (flat or inputs or roles):
        return None
    done = any(key.startswith(_DONE) for key in place)
    return Outputs(
        flat,
        listed,
        plain,
        said,
        place.get("output.value") if flat and scope.startswith(_GOOGLE) else None,
        tuple(inputs),
        results,
        tuple(roles),
        freshness,
        answered=bool(answers),
        done=done,
        events=freshness is not None and freshness.events,
    )


def _flat(place: dict[str, int]) -> tuple[tuple[int | None, int, int | None], ...]:
    found: dict[str, dict[str, int]] = {}
    for key in [each for each in place if each.startswith(_FLATS)]:
        match = _FLAT.fullmatch(key)
        if match:
            part = match[2].removeprefix("function.")
            found.setdefault(match[1], {})[part] = place[key]
    return tuple(
        [
            (parts.get("id"), parts["name"], parts.get("arguments"))
            for parts in found.values()
            if "name" in parts
        ]
    )


def requested(span: Span, outputs: Outputs, *, names_only: bool = False) -> list[RequestedCall]:
    """The tool calls that the model asked for in this span.

    Args:
        span: a model's span.
        outputs: where its requests are.
        names_only: leaves out the arguments.
    """
    if outputs.flat:
        found = _flattened(span, outputs, names_only=names_only)
    elif outputs.listed is not None:
        found = _listed_in(span, outputs.listed, names_only=names_only)
    else:
        found = []
    if outputs.plain is not None and not found:
        found = _items(span.attribute(outputs.plain))
    if outputs.said is not None and not found:
        found = _answered(span.attribute(outputs.said))
    if outputs.events and not found:
        found = _answered(answered_in_events(span))
    asked = _usable(found)
    if len(asked) <= REQUESTS_MAX:
        return asked
    return asked[:REQUESTS_MAX] + [OVERSIZED] * (len(asked) - REQUESTS_MAX)


def executed_within(span: Span, outputs: Outputs) -> bool:
    """True if the model's client executed the requests itself, before the span ended."""
    if outputs.done:
        return True
    value = span.attribute(outputs.history) if outputs.history is not None else None
    if type(value) is not str or f'"{_HISTORY}"' not in value:
        return False
    found = parsed(value)
    if not isinstance(found, dict):
        return (
            found is UNREADABLE
        )  # the model's own text is at fault, and must not hide its calls
    return _is_answer(found.get(_HISTORY), JSON_DEPTH)


def goes_on(span: Span, outputs: Outputs) -> bool:
    """True if the model's input has results of tools, so earlier calls exist."""
    if outputs.answered or any(span.recurring(at) == TOOL_ROLE for at in outputs.roles):
        return True
    return any(map(_holds_answer, given_texts(span, outputs)))


def given_texts(span: Span, outputs: Outputs) -> list[Any]:
    """What a model was given: the attributes that may hold results of tools, or events as one text."""
    found = [span.attribute(at) for at in outputs.inputs]
    if outputs.events and (told := given_in_events(span)):
        found.append(told)
    return found


def _holds_answer(value: Any) -> bool:
    """True for JSON messages with a tool's result. Plain text of people never counts; in JSON it is escaped."""
    if isinstance(value, list | dict):
        return _is_answer(value, JSON_DEPTH)
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return False
    if not any(mark in value for mark in _ANSWERS):
        return False
    # A tool's parameters may have the names of the marks: its MCP server chooses them.
    found = parsed(value)
    return found is UNREADABLE or _is_answer(found, JSON_DEPTH)


def _is_answer(value: Any, depth: int) -> bool:
    """True for a tool's result, or a value that contains one. Descriptions of tools are skipped."""
    if isinstance(value, list):
        return depth > 0 and any(_is_answer(each, depth - 1) for each in value)
    if not isinstance(value, dict):
        return False
    if value.get("role") == TOOL_ROLE or not _ANSWER_KEYS.isdisjoint(value):
        return True
    kind = value.get("type")
    if isinstance(kind, str) and kind in RESULT_TYPES:
        return True
    return depth > 0 and any(
        _is_answer(each, depth - 1) for key, each in value.items() if key not in ABOUT_TOOLS
    )


def _usable(found: list[RequestedCall | None]) -> list[RequestedCall]:
    """The requests that name a tool: nearly always all of them."""
    for each in found:
        if each is None:
            return [other for other in found if other is not None]
    return cast("list[RequestedCall]", found)


def _flattened(span: Span, outputs: Outputs, *, names_only: bool) -> list[RequestedCall | None]:
    found: list[RequestedCall | None] = []
    for call_id, name, arguments in outputs.flat:
        given = None if arguments is None or names_only else span.attribute(arguments)
        id_ = None if call_id is None else span.attribute(call_id)
        found.append(_request(span.recurring(name), given, id_, absent={}))
    return found


def _listed_in(span: Span, at: int, *, names_only: bool) -> list[RequestedCall | None]:
    """Requests in messages. Most turns have none, which a search for `_MARK` shows without parsing."""
    found = _named_at(span, at) if names_only else None
    if found is not None:
        return found
    value = span.attribute(at)
    if type(value) is not str:
        return _parts(value, names_only=names_only)
    if len(value) > _SHORT and _MARK not in value:
        return []
    found = _named(value) if names_only else None
    if found is not None:
        return found
    return _parts(value, names_only=names_only) if _MARK in value else []


def _named_at(span: Span, at: int) -> list[RequestedCall | None] | None:
    """Requests without their arguments, read in place; None if the value must be decoded."""
    if _listed_at is None:
        return None
    return _requests(_listed_at(span.values, at, "parts", _MARK, "type", "name", "id"))


def _named(text: str) -> list[RequestedCall | None] | None:
    """Requests without their arguments, read in C; None if the text must be parsed in full."""
    if _listed is None:
        return None
    return _requests(_listed(text, "parts", _MARK, "type", "name", "id"))


def _requests(
    calls: list[tuple[str | bytes | None, ...]] | None,
) -> list[RequestedCall | None] | None:
    """Requests from their names and ids; None if one of them was not readable in place."""
    if calls is None:
        return None
    found: list[RequestedCall | None] = []
    for name, call_id in calls:
        if isinstance(name, bytes) or isinstance(call_id, bytes):
            return None
        found.append(_request(name, None, call_id))
    return found


def _parts(value: Any, *, names_only: bool) -> list[RequestedCall | None]:
    if names_only and type(value) is str:
        try:
            return _decoded(_messages(value))
        except (msgspec.DecodeError, RecursionError):
            pass  # another form, which the full parser may read
    messages = outlined(value)
    if not isinstance(messages, list):
        return []
    return [
        _request(part.get("name"), part.get("arguments"), part.get("id"))
        for message in messages
        if isinstance(message, dict) and isinstance(message.get("parts"), list)
        for part in message["parts"]
        if isinstance(part, dict) and part.get("type") == _MARK
    ]


def _decoded(messages: list[partial_json.ModelMessage]) -> list[RequestedCall | None]:
    return [
        _request(part.name, None, part.id)
        for message in messages
        for part in message.parts
        if part.type == _MARK
    ]


def _items(value: Any) -> list[RequestedCall | None]:
    calls = outlined(value)
    if not isinstance(calls, list):
        return []
    return [
        _request(
            item.get("toolName"), item.get("input", item.get("args")), item.get("toolCallId")
        )
        for item in calls
        if isinstance(item, dict)
    ]


def _answered(value: Any) -> list[RequestedCall | None]:
    """Requests in the JSON of a model's API, of a framework's message, or of an object around it."""
    if type(value) is str and not any(mark in value for mark in _MARKS):
        return []
    found: list[RequestedCall | None] = []
    _collect(outlined(value), found, JSON_DEPTH)
    return found


def _collect(value: Any, found: list[RequestedCall | None], depth: int) -> None:
    """Adds the requests in a value. Descriptions of tools are skipped."""
    if depth <= 0:
        return
    if isinstance(value, list):
        for each in value:
            _collect(each, found, depth - 1)
    elif isinstance(value, dict):
        asked = _asked(value)
        found.extend([_called(call, id_) for call, id_ in asked])
        for key, each in () if asked else value.items():
            if key not in ABOUT_TOOLS:
                _collect(each, found, depth - 1)


def _asked(part: dict[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    """The requests that a message or a part of one has itself, each with its id.

    In chat completions the call is in `function`, beside the id. LangChain has all in one object.
    """
    calls = part.get("tool_calls")
    if isinstance(calls, list):
        objects = [each for each in calls if isinstance(each, dict)]
        inner = [(each.get("function", each), _id(each)) for each in objects]
        return [(call, id_) for call, id_ in inner if isinstance(call, dict)]
    kind = part.get("type")
    if isinstance(kind, str) and kind in _CALLS:
        return [(part, _id(part))]
    return [(call, _id(call)) for key in _CALL_KEYS if isinstance(call := part.get(key), dict)]


def _id(call: dict[str, Any]) -> Any:
    return next((call[key] for key in _IDS if key in call), None)


def _called(call: dict[str, Any], id_: Any) -> RequestedCall | None:
    given = next((call[key] for key in _ARGUMENTS if key in call), None)
    return _request(call.get("name"), given, id_)


def _request(
    name: Any, arguments: Any, call_id: Any, absent: Any = None
) -> RequestedCall | None:
    """One request; `absent` stands for missing arguments: flattened attributes omit empty ones."""
    if not isinstance(name, str) or not name or name in NOT_A_TOOL:
        return None
    if len(name) > NAME_MAX:
        return OVERSIZED
    found = absent if arguments is None else mapping(arguments)
    return RequestedCall(
        name,
        found if isinstance(found, dict) else None,
        bounded(call_id) if isinstance(call_id, str) else "",
    )
