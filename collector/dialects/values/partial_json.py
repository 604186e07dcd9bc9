"""Decodes a few members of long JSON texts and skips the rest.

Each decoder raises `msgspec.DecodeError` if the text has another form than expected. The caller then
parses the whole text. The C functions (`native.pyi`), if built, take a third of a decoder's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

__all__ = [
    "Callback",
    "CallbackArguments",
    "MessagePart",
    "Metadata",
    "ModelMessage",
    "Result",
    "callback",
    "in_context",
    "lacks_at",
    "last_asked",
    "listed",
    "listed_at",
    "members",
    "members_at",
    "messages",
    "metadata",
    "result",
]


class MessagePart(msgspec.Struct, gc=False):
    """A part of a message, as the GenAI conventions write it."""

    type: str | None = None
    name: str | None = None
    id: str | None = None


class ModelMessage(msgspec.Struct, gc=False):
    """A message of a model."""

    parts: list[MessagePart] = []


class Metadata(msgspec.Struct, gc=False):
    """LangChain's metadata."""

    lc_agent_name: str = ""


class CallbackArguments(msgspec.Struct, gc=False):
    """The keyword arguments of LangChain's callback."""

    tool_call_id: str | None = None


class Callback(msgspec.Struct, gc=False):
    """LangChain's `on_tool_start` in Traceloop's entity input."""

    input_str: Any = None
    inputs: msgspec.Raw = msgspec.Raw()
    # A union with None would refuse all but null.
    kwargs: CallbackArguments | None = None


class Result(msgspec.Struct, gc=False):
    """LangChain's `ToolMessage`, or an object around it."""

    tool_call_id: str | None = None
    status: str | None = None
    data: Result | None = None
    kwargs: Result | None = None
    output: Result | None = None


class _State(msgspec.Struct, gc=False):
    messages: list[msgspec.Raw] = []


class _InContext(msgspec.Struct, gc=False):
    """A call that LangGraph sends to its node of tools together with the state."""

    tool_call: Any = None


class _Said(msgspec.Struct, gc=False):
    """A model's message within a message of LangChain."""

    tool_calls: list[Any] = []


class _Spoken(msgspec.Struct, gc=False):
    """A message of LangChain."""

    data: _Said | None = None


Members = Callable[..., tuple[str | bytes | None, ...] | None]
Listed = Callable[..., list[tuple[str | bytes | None, ...]] | None]
Lacks = Callable[[Sequence[Any], int, str], bool]


def _in_c() -> tuple[
    Members | None, Listed | None, Members | None, Listed | None, Lacks | None
]:
    """The functions of `native.pyi`; None each if it was not built."""
    try:
        import collector.decode.native  # noqa: F401 - the next one finds its values only where it is loaded
        from collector.dialects import native
    except ImportError:
        return None, None, None, None, None
    return native.members, native.listed, native.members_at, native.listed_at, native.lacks_at


members, listed, members_at, listed_at, lacks_at = _in_c()
callback: Final = msgspec.json.Decoder(Callback).decode
messages: Final = msgspec.json.Decoder(list[ModelMessage]).decode
metadata: Final = msgspec.json.Decoder(Metadata).decode
_state: Final = msgspec.json.Decoder(_State).decode
_in_context: Final = msgspec.json.Decoder(_InContext).decode
_spoken: Final = msgspec.json.Decoder(_Spoken).decode
result: Final = msgspec.json.Decoder(Result).decode


def in_context(text: str) -> Any:
    """The call that LangGraph sent together with the state."""
    return _in_context(text).tool_call


def last_asked(text: str) -> list[Any]:
    """The calls that the last message of a LangGraph state requests."""
    messages = _state(text).messages
    said = _spoken(messages[-1]).data if messages else None
    return said.tool_calls if said is not None else []
