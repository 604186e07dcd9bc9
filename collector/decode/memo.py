"""A bounded cache of decoded values, by the bytes they were decoded from.

Telemetry repeats: each request has the same resource, each span one of a few attribute lists. At its bound the cache
is cleared. Honest senders refill it within 1 ms, and a hostile sender cannot make it grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

__all__ = ["Memo"]

Key = TypeVar("Key", bound=Sequence[Any])
Value = TypeVar("Value")

BYTES_MAX: Final = 2 << 20
KEY_BYTES_MAX: Final = 64 << 10

ENTRY_BYTES: Final = 256
"""Bytes counted per entry beside its key, for the objects around it."""


class Memo(Generic[Key, Value]):
    """Values by the bytes they were decoded from, or by another key with a size.

    Args:
        bytes_max: forget everything before the remembered keys pass this many bytes.
        key_bytes_max: longer keys are not remembered.
    """

    __slots__ = ("_bytes", "_bytes_max", "_key_bytes_max", "entries")

    def __init__(self, bytes_max: int = BYTES_MAX, key_bytes_max: int = KEY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._key_bytes_max = key_bytes_max
        self._bytes = 0
        self.entries: dict[Key, Value] = {}
        """Remembered values. The hot path reads them directly; only `put` writes. The dictionary is
        never replaced."""

    def put(self, key: Key, value: Value, size: int | None = None) -> Value:
        """Remember `value` if its key is not too long, and return it.

        `size` is the key's size in bytes, if its length is not.
        """
        if size is None:
            size = len(key)
        cost = size + ENTRY_BYTES
        if size > self._key_bytes_max:
            return value
        if self._bytes + cost > self._bytes_max:
            self.entries.clear()
            self._bytes = 0
        self.entries[key] = value
        self._bytes += cost
        return value
