"""Caches the recurring parts of protobuf requests: resources, scopes, attribute lists.

Both decoders share these caches, so equal parts are one object for both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from google.protobuf.message import DecodeError

from collector.decode.memo import Memo
from collector.decode.protobuf.anyvalue import attributes_of, text_of, value_of
from collector.decode.protobuf.messages import Event, InstrumentationScope, ResourceMessage
from collector.decode.shapes import Shapes
from collector.decode.sizes import Sizes, kept
from collector.decode.span import MalformedBodyError, Resource, SpanEvent

__all__ = ["SHAPES", "ProtoCodec", "resource_of", "scope_name"]

_NAMES: Final[Memo[bytes, Any]] = Memo(key_bytes_max=256)
SHAPES: Final = Shapes()
_RESOURCES: Final[Memo[bytes, Resource]] = Memo(
    bytes_max=8 << 20
)  # room for thousands of senders
_SCOPES: Final[Memo[bytes, str]] = Memo()


class ProtoCodec:
    """Decodes KeyValue and Event messages up to a size."""

    __slots__ = ("_bytes_max", "sizes")

    def __init__(self, sizes: Sizes | None = None) -> None:
        self.sizes = sizes or Sizes()
        self._bytes_max = self.sizes.bytes_max

    def keys(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        return shape

    def is_large(self, raw: bytes) -> bool:
        return len(raw) > self._bytes_max

    def value(self, raw: bytes) -> Any:
        if len(raw) > self._bytes_max:
            self.sizes.note()
            return None
        found = text_of(raw)
        return found if found is not None else value_of(raw)

    def name(self, raw: bytes) -> Any:
        known = _NAMES.entries.get(raw)
        return known if known is not None else _NAMES.put(raw, self.value(raw))

    def events(self, raw: Iterable[bytes]) -> list[SpanEvent]:
        found = []
        for blob in raw:
            if self.is_large(blob):
                self.sizes.note()
            elif (event := _event(blob)) is not None:
                found.append(event)
        return found


def _event(blob: bytes) -> SpanEvent | None:
    try:
        event = Event.FromString(blob)
    except DecodeError:
        return None
    return event.name, attributes_of(event.attributes), event.time_unix_nano


def resource_of(blob: bytes, sizes: Sizes) -> Resource:
    """Read a Resource message.

    Raises:
        MalformedBodyError: not a Resource.
    """
    known = _RESOURCES.entries.get(blob)
    if known is not None:
        return known
    try:
        message = ResourceMessage.FromString(blob)
    except DecodeError as error:
        raise MalformedBodyError(f"resource: {error}") from error
    return _RESOURCES.put(blob, Resource(kept(attributes_of(message.attributes), sizes.note)))


def scope_name(blob: bytes) -> str:
    """Read the name of an InstrumentationScope message.

    Raises:
        MalformedBodyError: not an InstrumentationScope.
    """
    known = _SCOPES.entries.get(blob)
    if known is not None:
        return known
    try:
        return _SCOPES.put(blob, InstrumentationScope.FromString(blob).name)
    except DecodeError as error:
        raise MalformedBodyError(f"scope: {error}") from error
