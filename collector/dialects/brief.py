"""Long JSON texts read for the few things that are asked for; all else in them is passed over.

Each decoder raises `msgspec.DecodeError` where the text is written otherwise than expected. It may
still be readable: then all of it is parsed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = [
    "Callback",
    "Message",
    "Metadata",
    "More",
    "Part",
    "callback",
    "messages",
    "metadata",
]


class Part(msgspec.Struct, gc=False):
    """A part of a message, as the GenAI conventions write it."""

    type: str | None = None
    name: str | None = None
    id: str | None = None


class Message(msgspec.Struct, gc=False):
    """A message of a model."""

    parts: list[Part] = []


class Metadata(msgspec.Struct, gc=False):
    """LangChain's metadata."""

    lc_agent_name: str = ""


class More(msgspec.Struct, gc=False):
    """What LangChain's callback tells beside a tool's arguments."""

    tool_call_id: str | None = None


class Callback(msgspec.Struct, gc=False):
    """LangChain's `on_tool_start`, as Traceloop's entity input has it."""

    input_str: Any = None
    inputs: Any = None
    kwargs: More | None = None


callback: Final = msgspec.json.Decoder(Callback).decode
messages: Final = msgspec.json.Decoder(list[Message]).decode
metadata: Final = msgspec.json.Decoder(Metadata).decode
