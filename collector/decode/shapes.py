"""Shapes: the attribute keys of spans, one object for equal lists of them."""

from __future__ import annotations

from typing import Final

from collector.decode.memo import Memo
from collector.decode.span import OverBound, key_fault

__all__ = ["Shapes", "key_of"]

BYTES_MAX: Final = 2 << 20
"""Of all that are remembered: honest senders refill what was forgotten in no time."""
LARGE: Final = 64 << 10
"""Those that take more than this are not remembered."""
SHAPE_BYTES: Final = 256
"""Counted for each shape beside its keys: about what the objects around them take."""
KEY_BYTES: Final = 8
"""The same for each key: it is mostly an object that other shapes have, too."""

_KEYS: Final[Memo[str]] = Memo(bytes_max=1 << 20, key_bytes_max=256)


def key_of(raw: bytes) -> str:
    """A key as a text. Keys recur in ever new shapes: each is one object, hashed once."""
    known = _KEYS.entries.get(raw)
    return known if known is not None else _KEYS.put(raw, str(raw, "utf-8", "replace"))


class Shapes:
    """Shapes by their keys, while remembered; one for each encoding."""

    __slots__ = ("_bytes", "_known")

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._bytes = 0

    def of(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return the one object for equal keys, so that comparing shapes is comparing pointers.

        Raises:
            OverBound: there are too many, or one is too long.
        """
        known = self._known.get(keys)
        if known is not None:
            return known
        fault = key_fault(keys)
        if fault:
            raise OverBound(fault)
        size = SHAPE_BYTES
        for key in keys:
            size += len(key) + KEY_BYTES
        if size > LARGE:
            return keys
        if self._bytes + size > BYTES_MAX:
            self._known.clear()
            self._bytes = 0
        self._known[keys] = keys
        self._bytes += size
        return keys
