r"""What a tool returned, from the attribute in which a dialect writes it: without what frameworks put around it.

Idea: MCP's answer, LangChain's message and the objects of a few frameworks hold what the tool returned as one member.
They are taken off one after the other. A text that is a JSON object or array is then read as JSON, once: a tool that
returns JSON mostly returns it as text. Any other text is the result.

Invariant: what cannot be told from a form that is not known is unknown: (). Of an object that was cut, the members
before the cut are known.

Example: `{"content": [{"type": "text", "text": "{\"status\": \"ok\"}"}]}` is `({"status": "ok"},)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from collector.dialects.values.arguments import UNREADABLE, parsed
from collector.dialects.values.cut_json import read_cut
from collector.dialects.values.results import CONTENT_TYPES, QUOTED_TEXT, RESULT_MAX
from monitor.partial import CutObject

__all__ = ["returned"]

Result = tuple[Any, ...]
"""The result as the only item; () if it is unknown."""

_UNKNOWN: Final[Result] = ()
_ENVELOPES_MAX: Final = 4
"""Objects around a result that are taken off."""
_MESSAGE: Final = "content="
_MESSAGE_END: Final = " tool_call_id='"
_SHOWN: Final = (
    "CallToolResult(",
    "ToolResponse(",
    "ToolOutput(",
    "meta=None content=[",
    "[TextContent(",
    "{'",
    "['",
    "[{'",
)
"""Objects that Python shows as texts, whose results are not read from them."""
_BEGUN: Final = re.compile(r"""\{\s*"|\[\s*[\[{"0-9-]""")
"""The beginning of JSON that is hardly that of another text."""
_CUT: Final = "_truncated"
"""A member by which frameworks say that they have cut an object, and put valid JSON in its place."""
_STRUCTURED: Final = ("structuredContent", "structured_content")


def returned(value: Any, *, quoted: bool) -> Result:
    """What a tool returned.

    Args:
        value: of the attribute.
        quoted: whether all values are written as JSON there, so that `"5"` is a text and `5` a number.
    """
    if isinstance(value, str):
        return _of_text(value, quoted=quoted)
    return _without_envelopes(value)


def _of_text(text: str, *, quoted: bool) -> Result:
    if len(text) > RESULT_MAX or text.startswith(_SHOWN):
        return _UNKNOWN
    if text.startswith(_MESSAGE) and _MESSAGE_END in text:
        return _of_shown_message(text)
    if quoted or _is_quoted(text):
        found = parsed(text)
        if found is not UNREADABLE:
            return _as_json(found) if isinstance(found, str) else _without_envelopes(found)
    read = _as_json(text)
    return _without_envelopes(read[0]) if read and not isinstance(read[0], str) else read


def _is_quoted(text: str) -> bool:
    """True for what is hardly a text of a tool: some frameworks write texts as JSON, and others do not."""
    return len(text) > 1 and text[0] == text[-1] == '"'


def _as_json(text: str) -> Result:
    """A text as JSON, if it is an object or an array; as far as it goes, if it was an object before it was cut."""
    if not text.startswith(("{", "[")):
        return (text,)
    found = parsed(text)
    if found is not UNREADABLE:
        return (found,)
    return read_cut(text) if _BEGUN.match(text) or _is_cut(text) else (text,)


def _is_cut(text: str) -> bool:
    """True for the beginning of a JSON text, or one that nests too deeply to be read."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        return "truncated" in str(problem)
    except (RecursionError, ValueError):
        pass
    return True


def _of_shown_message(text: str) -> Result:
    """The content of a message of LangChain that Python shows: `content='...' name='...' tool_call_id='...'`."""
    found = QUOTED_TEXT.match(text, len(_MESSAGE))
    if found is None:
        return _UNKNOWN
    try:
        content = ast.literal_eval(found[0])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _UNKNOWN
    read = _as_json(content)
    return _without_envelopes(read[0]) if read else read


def _without_envelopes(value: Any) -> Result:
    """What stands in the objects that protocols and frameworks put around a result."""
    for _ in range(_ENVELOPES_MAX):
        inner = _inner(value)
        if not inner:
            break
        if isinstance(inner[0], str):
            return _as_json(inner[0])
        value = inner[0]
    if isinstance(value, dict) and value.get(_CUT) is True:
        return (CutObject(value),)
    return (value,)


def _inner(value: Any) -> Result:
    """What one envelope holds; () if the value is none."""
    if isinstance(value, list):
        return _of_content(value) if value and _is_content(value) else ()
    if not isinstance(value, dict):
        return ()
    for opened in _ENVELOPES:
        found = opened(value)
        if found:
            return found
    return ()


def _of_mcp(answer: dict[str, Any]) -> Result:
    """An MCP server's answer: what is structured counts before what is shown."""
    content = answer.get("content")
    if not isinstance(content, list) or not _is_content(content):
        return ()
    for name in _STRUCTURED:
        if answer.get(name) is not None:
            return (_unwrapped(answer[name], content),)
    if not content and not answer.keys() & {"isError", "is_error", *_STRUCTURED}:
        return ()  # a tool's own empty list
    return _of_content(content)


def _unwrapped(structured: Any, content: list[Any]) -> Any:
    """What a tool returned that is no object: the SDK for Python names it `result`, and shows it as it is.

    Of a tool that returns such an object itself, the whole object is shown.
    """
    if not isinstance(structured, dict) or structured.keys() != {"result"}:
        return structured
    inner = structured["result"]
    # Of a tool that returns nothing, nothing is shown.
    values = (
        inner if isinstance(inner, list) else [] if inner is None and not content else [inner]
    )
    is_shown = len(content) == len(values) and all(map(_shows, content, values))
    return inner if is_shown else structured


def _shows(part: dict[str, Any], value: Any) -> bool:
    """True if a part of an answer's content shows a value: a text as it is, any other one as JSON."""
    text = part.get("text")
    if isinstance(value, str) or not isinstance(text, str):
        return isinstance(text, str) and text == value
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _is_content(parts: list[Any]) -> bool:
    return all(isinstance(part, dict) and part.get("type") in CONTENT_TYPES for part in parts)


def _of_content(parts: list[Any]) -> Result:
    texts = [part.get("text") for part in parts if part["type"] == "text"]
    if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
        return ({"content": parts},) if len(parts) != 1 else (parts[0],)
    return ("\n".join(map(str, texts)),)


def _of_langchain(message: dict[str, Any]) -> Result:
    """A message with a tool's result, or an object around it."""
    if isinstance(message.get("tool_call_id"), str) and "content" in message:
        return _of_message(message)
    for name in ("data", "kwargs"):
        inner = message.get(name)
        if isinstance(inner, dict) and "tool_call_id" in inner and "content" in inner:
            return _of_message(inner)
    return ()


def _of_message(message: dict[str, Any]) -> Result:
    """The content; of an MCP server's answer, which is kept beside it, what is structured."""
    kept = message.get("artifact")
    for name in _STRUCTURED:
        if isinstance(kept, dict) and kept.get(name) is not None:
            return (_unwrapped(kept[name], _parts(message["content"])),)
    return (message["content"],)


def _parts(content: Any) -> list[dict[str, Any]]:
    """The content of a message as the parts of an answer: adapters give them as they are, or their texts."""
    found = content if isinstance(content, list) else [content]
    return [each if isinstance(each, dict) else {"text": each} for each in found]


def _of_traceloop(value: dict[str, Any]) -> Result:
    """Traceloop's forms: of LangChain's callback, and of an MCP server's answer."""
    if value.keys() == {"output", "kwargs"}:
        return (value["output"],)
    return (value["result"],) if value.keys() == {"result", "is_error"} else ()


def _of_output(value: dict[str, Any]) -> Result:
    """An object around a message of LangChain, and nothing beside it."""
    inner = value.get("output")
    is_message = len(value) == 1 and isinstance(inner, dict) and bool(_of_langchain(inner))
    return (inner,) if is_message else ()


def _of_llama_index(value: dict[str, Any]) -> Result:
    """A `ToolOutput`."""
    if value.keys() >= {"tool_name", "raw_output"}:
        return (value["raw_output"],)
    return ()


def _of_adk(value: dict[str, Any]) -> Result:
    """A function's response, in which what is no object has the name `result`."""
    if value.keys() != {"id", "name", "response"}:
        return ()
    inner = value["response"]
    if isinstance(inner, dict) and inner.keys() == {"result"}:
        return (inner["result"],)
    return (inner,)


_ENVELOPES: Final[tuple[Callable[[dict[str, Any]], Result], ...]] = (
    _of_langchain,  # before MCP: a message's content may be parts as MCP's, and what counts beside it
    _of_mcp,
    _of_traceloop,
    _of_output,
    _of_llama_index,
    _of_adk,
)
