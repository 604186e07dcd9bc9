"""Attributes that live as long as what refers to them: sessions, traces, spans. Their bytes are counted.

Who refers to them does not matter, nor how many: they count from when they are read until nobody has
them. While there are many, less is kept of new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from monitor.weights import arguments_bytes

__all__ = ["Bounds", "Retained", "bounds", "retained_bytes"]


class Bounds(NamedTuple):
    """What may be kept of one set of attributes."""

    value: int
    """Characters of one value."""
    total: int
    """Of all of them, with their keys."""


USUAL: Final = Bounds(16 << 10, 64 << 10)
MANY: Final = Bounds(1 << 10, 4 << 10)
TOO_MANY: Final = Bounds(256, 1 << 10)

MANY_BYTES: Final = 32 << 20
TOO_MANY_BYTES: Final = 64 << 20
"""Of all attributes that live, about; real services' are some kilobytes each, and shared."""


class _Live:
    """What lives."""

    def __init__(self) -> None:
        self.bytes = 0


_LIVE: Final = _Live()


class Retained(dict[str, Any]):
    """Attributes that count while they live."""

    __slots__ = ("_bytes",)

    def __init__(self, found: Mapping[str, Any]) -> None:
        super().__init__(found)
        self._bytes = arguments_bytes(self)
        _LIVE.bytes += self._bytes

    def __del__(self) -> None:
        _LIVE.bytes -= self._bytes


def retained_bytes() -> int:
    """What lives by now, about."""
    return _LIVE.bytes


def bounds() -> Bounds:
    """What may be kept of attributes that are read now."""
    live = _LIVE.bytes
    return USUAL if live < MANY_BYTES else MANY if live < TOO_MANY_BYTES else TOO_MANY
