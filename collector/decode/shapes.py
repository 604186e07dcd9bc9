"""Shapes: the lists of attribute keys of spans. Equal lists are one object, so shapes are compared by identity."""

from __future__ import annotations

from typing import Final

from collector.decode.memo import Memo
from collector.decode.span import OverBound, key_fault

__all__ = ["Shapes", "key_of"]

KEY_BYTES: Final = 8
"""Bytes of a key beside its text: a pointer, since shapes share their keys."""

_KEYS: Final[Memo[bytes, str]] = Memo(bytes_max=1 << 20, key_bytes_max=256)


def key_of(raw: bytes) -> str:
    """A key as text, interned: keys recur in new shapes, and each is hashed once."""
    known = _KEYS.entries.get(raw)
    return known if known is not None else _KEYS.put(raw, str(raw, "utf-8", "replace"))


class Shapes:
    """The cache of shapes of one encoding."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: Memo[tuple[str, ...], tuple[str, ...]] = Memo()

    def of(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return the shape of these keys: one object for equal keys.

        Raises:
            OverBound: there are too many keys, or one is too long.
        """
        known = self._known.entries.get(keys)
        if known is not None:
            return known
        fault = key_fault(keys)
        if fault:
            raise OverBound(fault)
        size = 0
        for key in keys:
            size += len(key) + KEY_BYTES
        return self._known.put(keys, keys, size)
