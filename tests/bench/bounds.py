"""Bounds that a figure has to keep, said beside it: kept or not is worked out, never written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Bound", "lines", "table"]


class Bound(NamedTuple):
    """A figure, and the most it may be."""

    what: str
    found: float
    most: float
    unit: str = ""

    @property
    def is_kept(self) -> bool:
        """True if the figure, as it is shown, is within the bound."""
        return self.found <= self.most


def lines(bounds: Iterable[Bound]) -> str:
    """A line of text for each."""
    return "\n".join(
        f"check: {each.what}: {_shown(each.found, each)} of at most {_shown(each.most, each)}: "
        + ("kept" if each.is_kept else "NOT KEPT")
        for each in bounds
    )


def table(bounds: Iterable[Bound]) -> str:
    """The same as a Markdown table."""
    rows = (
        f"| {each.what} | {_shown(each.found, each)} | {_shown(each.most, each)} "
        f"| {'yes' if each.is_kept else '**no**'} |"
        for each in bounds
    )
    return "\n".join(["| bound | found | at most | kept |", "|---|---|---|---|", *rows])


def _shown(figure: float, bound: Bound) -> str:
    """Three digits, or all before the point."""
    digits = f"{figure:.0f}" if figure >= 100 else f"{figure:.3g}"
    return f"{digits} {bound.unit}".rstrip() if bound.unit != "x" else f"{digits}x"
