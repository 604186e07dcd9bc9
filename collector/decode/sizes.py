"""How large attribute values may be: what is larger is not read, and told of.

A value over the bound is as if it had not been on the wire: unknown, never cut in two. Sizes are
looked at where values are read, so spans that nobody asks for cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["VALUE_BYTES_MAX", "VALUE_BYTES_MIN", "Sizes", "kept", "weight"]

VALUE_BYTES_MAX: Final = 1 << 20
"""Of one value, unless told otherwise: arguments of tools that write files can be large."""
VALUE_BYTES_MIN: Final = 16 << 10
"""Shorter texts are read without looking at their size."""
KEPT_MAX: Final = 16 << 10
"""Of a value that lives as long as its session: of a resource, or what specs bind on."""
KEPT_TOTAL_MAX: Final = 64 << 10
"""Of all values of a resource."""
ITEM_WEIGHT: Final = 8


def _nobody() -> None:
    """Nobody is told."""


class Sizes:
    """The bound on values that are read, and who is told of larger ones.

    Args:
        bytes_max: of one value, at least `VALUE_BYTES_MIN`; of JSON, characters.
        note: called for each value that was to be read and is larger.
    """

    __slots__ = ("bytes_max", "note")

    def __init__(
        self, bytes_max: int = VALUE_BYTES_MAX, note: Callable[[], None] = _nobody
    ) -> None:
        self.bytes_max = bytes_max
        self.note = note


def weight(value: Any, most: int) -> int:
    """About the size of a decoded value; counting ends once it is more than `most`."""
    if isinstance(value, str | bytes):
        return len(value)
    total = 0
    waiting: list[Any] = [value]
    while waiting and total <= most:
        each = waiting.pop()
        total += ITEM_WEIGHT
        if isinstance(each, str | bytes):
            total += len(each)
        elif isinstance(each, dict):
            total += sum(map(len, each))
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return total


def kept(found: Mapping[str, Any], note: Callable[[], None]) -> dict[str, Any]:
    """The attributes that may be kept: no large value, and not too much in all."""
    room = KEPT_TOTAL_MAX
    small: dict[str, Any] = {}
    for key, value in found.items():
        size = len(key) + weight(value, KEPT_MAX)
        if size > min(room, KEPT_MAX):
            note()
            continue
        room -= size
        small[key] = value
    return small
