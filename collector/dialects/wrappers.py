"""Wrappers: spans around a tool span that are not calls but have more of the call than the tool span.

LangGraph runs each call in a node `tools`. OpenInference writes there either the call as the model made
it, with argument names and id, or the state of the graph, whose last message requests the call. Each
call of a turn has such a node, so the calls are siblings only if wrappers are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from collector.dialects.values import partial_json
from collector.dialects.values.arguments import parsed
from collector.dialects.values.members import is_deep

__all__ = ["WRAPPERS", "Listed", "WrappedCall", "Wrapper"]


class WrappedCall(NamedTuple):
    """A call as the wrapper lists it."""

    tool: str
    arguments: Mapping[str, Any] | None
    call_id: str


Listed = Callable[[Any], tuple[WrappedCall, ...]]

TEXT_MAX: Final = 1024 * 1024
"""Longer texts are not read. A state contains all results so far, which may be long pages."""

_SENT: Final = '{"__type": "tool_call_with_context",'
"""The beginning of a single call that is sent to a node of tools, with the state behind it."""


def listed_calls(value: Any) -> tuple[WrappedCall, ...]:
    """Calls in `[{"name", "args", "id", "type": "tool_call"}, ...]`; () for any other value."""
    if not isinstance(value, str) or not value.startswith("[{") or len(value) > TEXT_MAX:
        return ()
    return _wrapped(parsed(value))


def python_calls(value: Any) -> tuple[WrappedCall, ...]:
    """Calls in the input of LangGraph's node of tools: a list, one call with the state, or the state."""
    if not isinstance(value, str) or not value.startswith("{"):
        return listed_calls(value)
    sent = value.startswith(_SENT)
    if len(value) > TEXT_MAX or not (
        sent or _may_ask(value, '"type": "tool_call"', '"type": "tool"')
    ):
        return ()
    try:
        asked = [partial_json.in_context(value)] if sent else partial_json.last_asked(value)
    except (msgspec.DecodeError, RecursionError):
        return ()
    return () if is_deep(asked, value) else _wrapped(asked)


def javascript_calls(value: Any) -> tuple[WrappedCall, ...]:
    """Calls in the input of a node of LangGraph for JavaScript, which is always the state.

    One call is in `lg_tool_call`, or several are in the last message.
    """
    if not isinstance(value, str) or not value.startswith("{") or len(value) > TEXT_MAX:
        return ()
    if not _may_ask(value, '"lg_tool_call":{') and not _may_ask(
        value, '"type":"tool_call"', '"ToolMessage"'
    ):
        return ()
    found = parsed(value)
    if not isinstance(found, dict):
        return ()
    one, messages = found.get("lg_tool_call"), found.get("messages")
    if one is not None:
        return _wrapped([one])
    last = messages[-1] if isinstance(messages, list) and messages else None
    said = last.get("kwargs") if isinstance(last, dict) else None
    return _wrapped(said.get("tool_calls") if isinstance(said, dict) else None)


def _may_ask(state: str, asked: str, answered: str = "") -> bool:
    """True if the last message of a state may request calls: `asked` occurs, and `answered` not behind it.

    Many nodes get the state, which may hold a long conversation. So it is searched from its end and parsed only if
    this is true. `asked` closes a call and comes after its arguments, so no text in them counts as an answer.
    """
    at = state.rfind(asked)
    return at >= 0 and (not answered or state.find(answered, at) < 0)


def _wrapped(found: Any) -> tuple[WrappedCall, ...]:
    if not isinstance(found, list):
        return ()
    calls = []
    for item in found:
        if not isinstance(item, dict) or item.get("type") != "tool_call":
            return ()
        name, arguments, call_id = item.get("name"), item.get("args"), item.get("id")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return ()
        calls.append(WrappedCall(name, arguments, call_id if isinstance(call_id, str) else ""))
    return tuple(calls)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """Which spans wrap a tool span directly.

    `span_name` is a pattern, "" is any; `source` is the key of the list of calls, "" if there is no list.
    """

    scopes: tuple[str, ...]
    span_name: str
    values: dict[str, frozenset[str]] = field(default_factory=dict)
    source: str = ""
    listed: Listed = listed_calls
    """Reads the list."""


WRAPPERS: Final[tuple[Wrapper, ...]] = (
    Wrapper(
        scopes=("openinference.instrumentation.langchain",),
        span_name="",
        values={"openinference.span.kind": frozenset({"CHAIN"})},
        source="input.value",
        listed=python_calls,
    ),
    Wrapper(
        scopes=("@arizeai/openinference-instrumentation-langchain",),
        span_name="",
        values={"openinference.span.kind": frozenset({"CHAIN"})},
        source="input.value",
        listed=javascript_calls,
    ),
    Wrapper(
        scopes=("opentelemetry.instrumentation.langchain",),
        span_name="(?:execute_task tools|tools\\.task)",
    ),
    Wrapper(scopes=("langsmith",), span_name="tools"),
    Wrapper(
        scopes=("openinference.instrumentation.llama_index",),
        span_name=".*\\.call_tool",
    ),
)
