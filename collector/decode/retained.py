"""Counts the bytes of attributes that outlive their request: those of sessions, traces and spans.

A set of attributes counts once, from decoding until it is freed. The more bytes are live, the lower are the bounds on
new sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from monitor.weights import arguments_bytes

__all__ = ["AttributeBounds", "RetainedAttributes", "bounds"]


class AttributeBounds(NamedTuple):
    """Bounds on one set of attributes."""

    value: int
    """Characters of one value."""
    total: int
    """Characters of all values and keys."""


USUAL: Final = AttributeBounds(16 << 10, 64 << 10)
MANY: Final = AttributeBounds(1 << 10, 4 << 10)
TOO_MANY: Final = AttributeBounds(256, 1 << 10)

MANY_BYTES: Final = 32 << 20
TOO_MANY_BYTES: Final = 64 << 20
"""Approximate bytes of all live attributes. Those of a real service take some kilobytes, and are shared."""


class _Live:
    """Bytes of all live attributes."""

    def __init__(self) -> None:
        self.bytes = 0


_LIVE: Final = _Live()


class RetainedAttributes(dict[str, Any]):
    """Attributes whose bytes count until they are freed."""

    __slots__ = ("_bytes",)

    def __init__(self, found: Mapping[str, Any]) -> None:
        super().__init__(found)
        self._bytes = 0
        self.weigh()

    def weigh(self) -> None:
        """Counts what they take now."""
        _LIVE.bytes -= self._bytes
        self._bytes = arguments_bytes(self)
        _LIVE.bytes += self._bytes

    def __del__(self) -> None:
        _LIVE.bytes -= self._bytes

    def __reduce__(self) -> tuple[type[RetainedAttributes], tuple[dict[str, Any]]]:
        """A copy counts, too."""
        return RetainedAttributes, (dict(self),)


def bounds() -> AttributeBounds:
    """The bounds on attributes that are read now."""
    live = _LIVE.bytes
    return USUAL if live < MANY_BYTES else MANY if live < TOO_MANY_BYTES else TOO_MANY
