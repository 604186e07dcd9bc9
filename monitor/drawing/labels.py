"""Names of strangers in a picture: made visible, shortened, and about how wide they are."""

from __future__ import annotations

from typing import Final
from unicodedata import east_asian_width

from monitor.drawing.diagram import visible

__all__ = ["NAME_MAX", "short", "width_of"]

NAME_MAX: Final = 32
"""Characters of a name that are shown; the rest is in its tool tip."""


def short(text: str, most: int = NAME_MAX) -> str:
    """The text on one line, with an ellipsis where it has more than so many characters."""
    text = visible(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def width_of(text: str, each: float = 6.4) -> float:
    """About how wide a text is, in pixels; `each` is the width of a common letter."""
    return sum(each * (1.9 if east_asian_width(char) in "WF" else 1.0) for char in text)
