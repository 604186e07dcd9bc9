"""How large attribute values may be: what is larger is not read, and told of.

A value over the bound is as if it had not been on the wire: unknown, never cut in two. Sizes are
looked at where values are read, so spans that nobody asks for cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from collector.decode.retained import USUAL, Retained, bounds

__all__ = ["VALUE_BYTES_MAX", "VALUE_BYTES_MIN", "Sizes", "kept", "weight"]

VALUE_BYTES_MAX: Final = 1 << 20
"""Of one value, unless told otherwise: arguments of tools that write files can be large."""
VALUE_BYTES_MIN: Final = 16 << 10
"""Shorter texts are read without looking at their size."""
KEPT_MAX: Final = USUAL.value
"""Of a value that lives as long as its session: of a resource, or what specs bind on."""
KEPT_TOTAL_MAX: Final = USUAL.total
"""Of all values of a resource. Both are less while much is kept: see `retained`."""
_NAMING: Final = ("service.", "deployment.", "offrails.", "telemetry.", "gen_ai.")
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
    most = bounds()
    room = most.total
    small: dict[str, Any] = {}
    items = list(found.items())
    if most is not USUAL:
        items.sort(key=_by_use)
    for key, value in items:
        size = len(key) + weight(value, most.value)
        if size > min(room, most.value):
            note()
            continue
        room -= size
        small[key] = value
    return Retained(small)


def _by_use(item: tuple[str, Any]) -> bool:
    """What names a service comes first, where not all can be kept."""
    return not item[0].startswith(_NAMING)
