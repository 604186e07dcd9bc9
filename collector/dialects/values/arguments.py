"""The forms of arguments on the wire: one function each, which never raises and never guesses.

Each takes an attribute's value and returns a mapping; None (not on the wire); UNREADABLE (on the
wire, but not understood); `BareValue` (a value whose argument's name is lost); or `CarriedArguments` (arguments
with the call id from the same text).

Example: `call_form` turns '{"args": [], "kwargs": {"id": 3}}' into {"id": 3}, and '{"args": [3]}' into Bare(3).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from mypy_extensions import mypyc_attr

from collector.dialects.values import partial_json
from collector.dialects.values.members import (
    NESTED_MAX,
    cut,
    is_deep,
    is_single,
    lenient,
    paired,
    partly,
    shallow,
)
from monitor.partial import PartialArguments, all_but

__all__ = [
    "HIDDEN",
    "UNREADABLE",
    "Arguments",
    "BareValue",
    "CarriedArguments",
    "Unwrap",
    "action",
    "bare",
    "call_form",
    "callback_form",
    "component_input",
    "event_parts",
    "keyword_form",
    "literal",
    "mapping",
    "mapping_or_bare",
    "mapping_or_none",
    "maybe_call_form",
    "message_content",
    "outlined",
    "parsed",
    "request_form",
    "run_inputs",
    "scheduled",
    "traced_execution",
    "traced_inputs",
    "unless_scrubbed",
    "wrapped_input",
]


class _Unreadable:
    """Arguments that are on the wire but cannot be understood."""

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE: Final = _Unreadable()


@mypyc_attr(acyclic=True)
class BareValue:
    """The value of an argument whose name is lost; or several values, in order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@mypyc_attr(acyclic=True, free_list_len=1)
class CarriedArguments:
    """Arguments, and the call id found beside them."""

    __slots__ = ("arguments", "call_id")

    def __init__(
        self, arguments: Mapping[str, Any] | BareValue | _Unreadable | None, call_id: str
    ) -> None:
        self.arguments = arguments
        self.call_id = call_id


Arguments = Mapping[str, Any] | BareValue | CarriedArguments | _Unreadable | None
Unwrap = Callable[[Any], Arguments]

REDACTED: Final = "__REDACTED__"
"""OpenInference's replacement for content that is switched off."""

SCRUBBED: Final = "[Scrubbed due to "
"""Prefix of Logfire's replacement for values that may be secret."""
HIDDEN: Final[tuple[str, ...]] = (REDACTED, SCRUBBED)
"""Prefixes of texts that replace hidden values."""

_decode: Final = msgspec.json.Decoder().decode
_members: Final = partial_json.members
_NO_ID: Final = (None,)

_REPR: Final = re.compile(r"\{('[\w-]+': .+)?\}", re.DOTALL)
"""The Python repr of a mapping of arguments."""

LITERAL_MAX: Final = 64 * 1024
"""Longer Python literals are not read: the parser needs much time and memory."""

_KEYS: Final = frozenset({int, str})
"""Types of keys that JSON can write, as texts."""

_REQUEST: Final = frozenset({"tool_name", "arguments"})
"""All keys of the framework's object. An object with only some of them may be a model's arguments."""

_COMPONENT_INPUT: Final = ("ArgumentsInJSON", "text")
"""The key of the arguments' text for a plain tool, and for a multi-media tool."""

_ACTION: Final = frozenset({"action", "tool_input"})

_CALLBACK: Final = ('"input_str"', '"inputs"', '"kwargs"', '"tool_call_id"')
"""The names that are read of LangChain's callback, as they stand in its text."""

_CALL_FORM: Final = frozenset({"args", "kwargs"})


def parsed(value: Any) -> Any:
    """The value of a JSON text; any other value unchanged.

    UNREADABLE if the JSON is broken or nests too deeply.
    """
    if type(value) is not str and type(value) is not bytes:
        return value
    found = _read(value)
    if len(value) > 2 * NESTED_MAX and is_deep(found, value):  # most are shorter
        return UNREADABLE
    return found


def outlined(value: Any) -> Any:
    """`parsed` for a text that contains arguments: what nests too deeply is cut out, and the rest is read.

    `mapping` finds the arguments that were cut and makes them unread.
    """
    found = parsed(value)
    if found is UNREADABLE and type(value) is str:
        text = cut(value)
        return UNREADABLE if text is None else _read(text)
    return found


def _read(text: str | bytes) -> Any:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _parsed_leniently(text)


def _parsed_leniently(text: str | bytes) -> Any:
    # Python's writer emits NaN and Infinity, which strict JSON refuses; other readers accept still more.
    try:
        return lenient.decode(
            text if isinstance(text, str) else text.decode("utf-8", "surrogatepass")
        )
    except (ValueError, RecursionError):
        return UNREADABLE


def mapping(value: Any) -> Arguments:
    """The plain form: a mapping, or a JSON text of one; None if it is absent.

    If only some members can be read, it is a `PartialArguments`.
    """
    if isinstance(value, dict):
        return shallow(value)
    found = _whole(value)
    if type(value) is not str:
        return found
    if type(found) is dict:
        return _told_once(value, found)
    if found is UNREADABLE:
        known = partly(_encoded_once(value))
        return UNREADABLE if known is None else known
    return found


def _told_once(value: str, found: dict[str, Any]) -> dict[str, Any]:
    """An object as it was read from a text; where a member comes twice, it is unread."""
    text = value if value.startswith("{") else _encoded_once(value)
    if is_single(text, found):
        return found
    known = _paired(text)
    return shallow(known) if isinstance(known, dict) else found


def _paired(text: str) -> Any:
    try:
        return paired(text)
    except (ValueError, RecursionError):
        return UNREADABLE


def _encoded_once(text: str) -> str:
    """The JSON text of an object that may be encoded twice."""
    inner = parsed(text)
    return inner if type(inner) is str else text


def _opened(value: Any, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object read by `mapping` whose arguments are one member: read again, so that unread arguments do not hide others."""
    if type(found) is not PartialArguments or type(value) is not str:
        return found
    text = _encoded_once(value)
    read = _paired(text)
    if not isinstance(read, dict) or is_deep(read, text):
        read = outlined(text)
    return read if isinstance(read, dict) else found


def _whole(value: Any) -> Arguments:
    """The plain form if all of it can be read, else UNREADABLE."""
    if type(value) is dict:
        return value
    if type(value) is str:
        if not value or value == REDACTED:
            return None
    elif value is None:
        return None
    found = parsed(value)
    if type(found) is dict:
        return found
    if isinstance(found, str) and found.startswith("{"):
        found = parsed(found)
    if found is None:
        return None
    return found if isinstance(found, dict) else UNREADABLE


def unless_scrubbed(unwrap: Unwrap) -> Unwrap:
    """`unwrap` for spans whose exporter states that it hid values: arguments with a hidden value are UNREADABLE.

    For other spans the replacement text does not count, or an agent could hide its arguments with it.
    """

    def unwrapped(value: Any) -> Arguments:
        return UNREADABLE if type(value) is str and SCRUBBED in value else unwrap(value)

    return unwrapped


def mapping_or_bare(value: Any) -> Arguments:
    """The plain form, or a text: the single argument, whose name is not on the wire."""
    found = _whole(value)
    if found is UNREADABLE and type(value) is str and not value.startswith("{"):
        return BareValue(value)
    return found


def mapping_or_none(value: Any) -> Arguments:
    """The plain form; the text `None` means that the call has no arguments."""
    return {} if type(value) is str and value == "None" else mapping(value)


def bare(value: Any) -> Arguments:
    """A single value; the argument's name is not on the wire."""
    if value is None or value == REDACTED:
        return None
    return BareValue(value)


def call_form(value: Any) -> Arguments:
    """`{"args": [], "kwargs": {...}}`; names of positional arguments are lost."""
    found = mapping(value)
    return _called(_opened(value, found)) if isinstance(found, dict) else found


def _called(found: Mapping[str, Any]) -> Arguments:
    positional, named = found.get("args"), found.get("kwargs")
    if positional:
        return BareValue(positional[0] if isinstance(positional, list) else positional)
    if named is None:
        return {} if "kwargs" in found or "args" in found else UNREADABLE
    return mapping(named) if isinstance(named, dict) else UNREADABLE


def maybe_call_form(value: Any) -> Arguments:
    """`call_form` if the text has exactly its keys, else the plain form."""
    found = mapping(value)
    if isinstance(found, dict) and found.keys() == _CALL_FORM:
        return _called(_opened(value, found))
    return found


def keyword_form(value: Any) -> Arguments:
    """`{"kwargs": {...}}`; `call_form` if some arguments are positional; `{}` if there are none."""
    found = mapping(value)
    if not isinstance(found, dict) or not found or not found.keys() <= _CALL_FORM:
        return found
    return _called(_opened(value, found))


def request_form(value: Any) -> Arguments:
    """The request to an MCP server: exactly `{"tool_name": ..., "arguments": {...}}`."""
    found = mapping(value)
    if isinstance(found, dict) and found.keys() == _REQUEST:
        return mapping(_opened(value, found)["arguments"])
    return found


def callback_form(value: Any) -> Arguments:
    """The input of LangChain's callback: the arguments, and how the tool was run."""
    if type(value) is str and '"input_str"' in value:
        carried = _brief_callback(value)
        if carried is not None:
            return carried
    found = mapping(value)
    if isinstance(found, dict) and "input_str" in found:
        return _callback(_opened(value, found))
    return found


def _callback(found: Mapping[str, Any]) -> Arguments:
    """LangChain's `on_tool_start`: `input_str` is a repr, `inputs` has the arguments."""
    inputs, more = found.get("inputs"), found.get("kwargs")
    arguments = shallow(inputs) if isinstance(inputs, dict) else BareValue(found["input_str"])
    call_id = more.get("tool_call_id") if isinstance(more, dict) else None
    return CarriedArguments(arguments, call_id if isinstance(call_id, str) else "")


def _brief_callback(text: str) -> CarriedArguments | None:
    """The callback's arguments and call id, read without parsing all of the text; None for an unusual text."""
    if _members is None:
        return _decoded_callback(text)
    read = _members(text, "input_str", "inputs", "kwargs")
    if read is None:
        return None
    input_str, inputs, kwargs = read
    more = _members(kwargs, "tool_call_id") if kwargs is not None else _NO_ID
    if input_str is None or more is None:
        return None
    call_id = more[0]
    if type(inputs) is not bytes or isinstance(call_id, bytes):
        return None  # a rare form
    return _carried(inputs, call_id)


def _decoded_callback(text: str) -> CarriedArguments | None:
    """`_brief_callback` without C functions."""
    for name in _CALLBACK:
        if text.count(name) > 1:
            return None  # it may be there twice, and then it is unread
    try:
        read = partial_json.callback(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    if read.input_str is None or "\\u" in text:  # a name may be written in two ways
        return None
    call_id = read.kwargs.tool_call_id if read.kwargs is not None else None
    return _carried(bytes(read.inputs), call_id)


def _carried(inputs: bytes, call_id: str | None) -> CarriedArguments | None:
    """Arguments and a call id; None if the arguments are no object, or take a closer look."""
    arguments = parsed(inputs) if inputs else None
    if type(arguments) is not dict or not is_single(inputs.decode(), arguments):
        return None
    return CarriedArguments(arguments, call_id or "")


def component_input(value: Any) -> Arguments:
    """The input of an Eino tool: the arguments' JSON text, encoded once more, or an object that contains this text."""
    given = outlined(value)
    if not isinstance(given, dict):
        return mapping(given)
    texts = [given[key] for key in _COMPONENT_INPUT if key in given]
    return mapping(texts[0]) if len(texts) == 1 and isinstance(texts[0], str) else UNREADABLE


def run_inputs(value: Any) -> Arguments:
    """LangSmith's run inputs; old versions write `{"input": "<a Python repr>"}`."""
    found = mapping(value)
    if isinstance(found, dict) and found.keys() == {"input"}:
        inner = found["input"]
        if isinstance(inner, str) and _REPR.fullmatch(inner):
            return BareValue(inner)
    return found


def traced_inputs(value: Any) -> Arguments:
    """The input of LangSmith's `traceable` in JavaScript: a single object is written as it is, all else without names.

    Several arguments are `{"args": [...]}`, a single one that is no object is `{"input": ...}`. An argument object with
    only that key cannot be told apart.
    """
    found = mapping(value)
    if not isinstance(found, dict) or len(found) != 1:
        return found
    read = _opened(value, found)
    if isinstance(read.get("args"), list):
        return BareValue(read["args"])
    if "input" in read and not isinstance(read["input"], dict):
        return BareValue(read["input"])
    return found


def traced_execution(value: Any) -> Arguments:
    """`traced_inputs` of a Vercel AI SDK tool: `{"args": [{...}, {"toolCallId": ..., "messages": [...]}]}`."""
    found = mapping(value)
    if isinstance(found, dict) and len(found) == 1:
        given = _opened(value, found).get("args")
        if isinstance(given, list) and len(given) == 2 and isinstance(given[0], dict):
            call_id = _executed(given[1])
            if call_id:
                return CarriedArguments(shallow(given[0]), call_id)
    return traced_inputs(value)


def _executed(options: Any) -> str:
    """The call id in the options that the SDK passes to a tool; "" if they are not such options."""
    if not isinstance(options, dict) or not isinstance(options.get("messages"), list):
        return ""
    call_id = options.get("toolCallId")
    return call_id if isinstance(call_id, str) else ""


def scheduled(value: Any) -> Arguments:
    """The request to Gemini CLI's scheduler: `{"callId": ..., "name": ..., "args": {...}, ...}`."""
    found = mapping(value)
    return mapping(_opened(value, found).get("args")) if isinstance(found, dict) else found


def action(value: Any) -> Arguments:
    """The input of an OpenHands tool, executed or not: `{"action": {..., "kind": <its class>}}`."""
    found = mapping(value)
    if not isinstance(found, dict) or not found.keys() <= _ACTION or len(found) != 1:
        return found
    (given,) = _opened(value, found).values()
    if not isinstance(given, dict) or "kind" not in given:
        return UNREADABLE
    if given["kind"] == "MCPToolAction":
        return mapping(given.get("data"))
    return mapping({key: each for key, each in given.items() if key != "kind"})


def literal(value: Any, within: str = "") -> Arguments:
    """The Python repr (or JSON text) of a dictionary; of its member `within`, if that is given."""
    found = mapping(value)
    if isinstance(found, dict):
        if not within:
            return found
        inner = _opened(value, found).get(within)
        return mapping(inner) if isinstance(inner, dict) else UNREADABLE
    if found is not UNREADABLE or type(value) is not str or len(value) > LITERAL_MAX:
        return found
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return UNREADABLE
    if within and type(read) is dict:
        read = read.get(within)
    if type(read) is not dict or any(type(key) is not str for key in read):
        return UNREADABLE
    known: dict[str, Any] = {}
    unread: set[str] = set()
    for key, each in read.items():
        try:
            known[key] = _as_json(each, NESTED_MAX - 1)
        except ValueError:
            unread.add(key)
    return all_but(known, unread)


def _as_json(value: Any, most: int) -> Any:
    """The JSON value of a Python literal; ValueError if there is none or it nests too deeply."""
    if value is None or isinstance(value, str | int | float):
        return value
    if most > 0 and isinstance(value, list | tuple):
        return [_as_json(each, most - 1) for each in value]
    if most > 0 and isinstance(value, dict) and all(type(key) in _KEYS for key in value):
        return {str(key): _as_json(each, most - 1) for key, each in value.items()}
    raise ValueError("no JSON")


def wrapped_input(value: Any) -> Arguments:
    """`{"input": {...}}`, or `{}` if the call has no arguments."""
    found = mapping(value)
    if not isinstance(found, dict) or not found:
        return found
    if found.keys() != {"input"}:
        return UNREADABLE
    return mapping(_opened(value, found)["input"])


def message_content(value: Any) -> Arguments:
    """`[{"role": "tool", "content": "{...}"}]`: the arguments are the single message to the tool."""
    messages = outlined(value)
    if messages is None:
        return None
    if (
        not isinstance(messages, list)
        or len(messages) != 1
        or not isinstance(messages[0], dict)
    ):
        return UNREADABLE
    return mapping(messages[0].get("content"))


def event_parts(value: Any) -> Arguments:
    """Messages in an event: the arguments of their single `tool_call` part."""
    messages = outlined(value)
    if messages is UNREADABLE or not isinstance(messages, list):
        return UNREADABLE
    calls = [
        part
        for message in messages
        if isinstance(message, dict) and isinstance(message.get("parts"), list)
        for part in message["parts"]
        if isinstance(part, dict) and part.get("type") == "tool_call"
    ]
    return mapping(calls[0].get("arguments")) if len(calls) == 1 else None
