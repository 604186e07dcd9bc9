"""The C functions (`native.c`) that read a span's raw values; None each if they were not built.

Each does a codec's work without making an object of the raw value. It returns None for values that it
leaves to the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

__all__ = ["all_came_as", "came_as", "recurring_at", "text_at"]

_Text = Callable[[Sequence[Any], int], str | None]
_Same = Callable[[Sequence[Any], int, Any], bool]
_AllSame = Callable[[Sequence[Any], tuple[tuple[int, Any], ...]], bool]


def _built() -> tuple[_Text, _Text, _Same, _AllSame] | tuple[None, None, None, None]:
    try:
        from collector.decode import native
    except ImportError:
        return None, None, None, None
    return native.text_at, native.recurring_at, native.came_as, native.all_came_as


_BUILT: Final = _built()

text_at: Final[_Text | None] = _BUILT[0]
"""(values, index) -> the text at that index."""
recurring_at: Final[_Text | None] = _BUILT[1]
"""The same for a short text, which is interned."""
came_as: Final[_Same | None] = _BUILT[2]
"""(values, index, raw) -> whether the raw value at that index equals `raw`."""
all_came_as: Final[_AllSame | None] = _BUILT[3]
"""The same for several values: (index, raw) each."""
