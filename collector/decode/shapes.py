"""Shapes: the attribute keys of spans, one object for equal lists of them."""

from __future__ import annotations

from collector.decode.memo import Memo
from collector.decode.span import OverBound, key_fault

__all__ = ["Shapes"]


class Shapes:
    """Shapes by their keys, while remembered; one for each encoding."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: Memo[tuple[str, ...]] = Memo()

    def of(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return the one object for equal keys, so that comparing shapes is comparing pointers.

        Raises:
            OverBound: there are too many, or one is too long.
        """
        name = "\0".join(keys).encode("utf-8")
        known = self._known.entries.get(name)
        if known == keys:
            return known
        fault = key_fault(keys)
        if fault:
            raise OverBound(fault)
        return self._known.put(name, keys)
