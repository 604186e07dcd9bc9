"""Long JSON texts read for the few things that are asked for; all else in them is passed over.

Each decoder raises `msgspec.DecodeError` where the text is written otherwise than expected. It may
still be readable: then all of it is parsed.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["Message", "Metadata", "Part", "messages", "metadata"]


class Part(msgspec.Struct, gc=False):
    """A part of a message, as the GenAI conventions write it."""

    type: str | None = None
    name: str | None = None
    id: str | None = None


class Message(msgspec.Struct, gc=False):
    """A message of a model."""

    parts: tuple[Part, ...] = ()


class Metadata(msgspec.Struct, gc=False):
    """LangChain's metadata."""

    lc_agent_name: str = ""


messages: Final = msgspec.json.Decoder(tuple[Message, ...]).decode
metadata: Final = msgspec.json.Decoder(Metadata).decode
