"""A memory of what was decoded from equal bytes, bounded in bytes.

Telemetry repeats itself: the same resource in every request, the same few attribute lists in
every span. When the bound is reached everything is forgotten at once: honest senders refill it
in a millisecond, and a hostile one cannot make it grow.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

__all__ = ["Memo"]

Value = TypeVar("Value")

ENTRY_BYTES: Final = 256
"""Counted per entry beside its key: about what the objects around it take."""


class Memo(Generic[Value]):
    """Values by the bytes they were decoded from.

    Args:
        bytes_max: forget everything before the remembered keys pass this many bytes.
        key_bytes_max: longer keys are not remembered.
    """

    __slots__ = ("_bytes", "_bytes_max", "_key_bytes_max", "entries")

    def __init__(self, bytes_max: int = 2 << 20, key_bytes_max: int = 64 << 10) -> None:
        self._bytes_max = bytes_max
        self._key_bytes_max = key_bytes_max
        self._bytes = 0
        self.entries: dict[bytes, Value] = {}
        """Read directly on the hot path; written by `put` alone, never replaced."""

    def put(self, key: bytes, value: Value) -> Value:
        """Remember `value` if its key is not too long, and return it."""
        cost = len(key) + ENTRY_BYTES
        if len(key) > self._key_bytes_max:
            return value
        if self._bytes + cost > self._bytes_max:
            self.entries.clear()
            self._bytes = 0
        self.entries[key] = value
        self._bytes += cost
        return value
