"""Bounds on the size of attribute values. Larger values are counted and not read.

A value over its bound is unknown, as if it were not on the wire; it is never cut. Sizes are checked when values are
read, so values that nobody reads cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from collector.decode.retained import USUAL, RetainedAttributes, bounds

__all__ = ["VALUE_BYTES_MAX", "VALUE_BYTES_MIN", "Sizes", "kept", "weight"]

VALUE_BYTES_MAX: Final = 1 << 20
"""Bytes of one value by default: arguments of tools that write files can be large."""
VALUE_BYTES_MIN: Final = 16 << 10
"""Shorter texts are read without a check of their size."""
KEPT_MAX: Final = USUAL.value
"""Bytes of a value that lives as long as its session: one of a resource, or one that specs bind on."""
KEPT_TOTAL_MAX: Final = USUAL.total
"""Bytes of all values of a resource. Both bounds are lower while much is retained: see `retained`."""
_NAMING: Final = ("service.", "deployment.", "offrails.", "telemetry.", "gen_ai.")
ITEM_WEIGHT: Final = 8


def _nobody() -> None:
    """Does not count."""


class Sizes:
    """The bound on values that are read, and the counter of larger ones.

    Args:
        bytes_max: bytes of one value (of JSON: characters), at least `VALUE_BYTES_MIN`.
        note: called for each larger value that was to be read.
    """

    __slots__ = ("bytes_max", "note")

    def __init__(
        self, bytes_max: int = VALUE_BYTES_MAX, note: Callable[[], None] = _nobody
    ) -> None:
        self.bytes_max = bytes_max
        self.note = note


def weight(value: Any, most: int) -> int:
    """The approximate size of a decoded value; counting stops above `most`."""
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
    """The attributes within the bounds on one value and on all values together."""
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
    return RetainedAttributes(small)


def _by_use(item: tuple[str, Any]) -> bool:
    """Sort key: attributes that name a service first, as not all can be kept."""
    return not item[0].startswith(_NAMING)
