"""The things of a session under a spec with `each`, as rows of a picture: one a thing, with its state.

Names and values are text of strangers: they are made visible and shortened; a cell's whole text is in its tool tip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from monitor.drawing.diagram import visible
from monitor.drawing.labels import short, width_of

__all__ = ["DrawnThing", "DrawnThings"]

ROWS_MAX: Final = 50

_HEADS: Final = ("thing", "state", "accepting", "calls", "harmful")
_STATE_MAX: Final = 110
"""Characters of a state: under constraints it names each of them that has moved."""
_ROW: Final = 20.0
_GAP: Final = 24.0
_TITLE: Final = 34.0


class DrawnThing(NamedTuple):
    """One thing, as it is after the session's calls."""

    name: str
    """The kind of thing and its value: `order A1`."""
    state: str
    accepting: bool
    calls: int
    harmful: int

    @property
    def cells(self) -> tuple[str, ...]:
        """Its texts, by column."""
        accepting = "yes" if self.accepting else "no"
        return self.name, self.state, accepting, str(self.calls), str(self.harmful)


class DrawnThings:
    """A table of things.

    Args:
        title: what stands above it.
        things: in the order of their rows; of more than `ROWS_MAX`, the first ones are drawn.
        count: the number of all things.
    """

    def __init__(self, title: str, things: Sequence[DrawnThing], count: int) -> None:
        self._title = visible(title)
        self._things = things[:ROWS_MAX]
        left = count - len(self._things)
        self._rest = "no call carries one" if not count else f"{left} more" if left else ""
        rows = [_HEADS, *(thing.cells for thing in self._things)]
        widths = [
            max(width_of(_shown(row[c], c), 6.8) for row in rows) for c in range(len(_HEADS))
        ]
        self._columns = [sum(widths[:c]) + _GAP * c for c in range(len(_HEADS) + 1)]

    @property
    def width(self) -> float:
        """Pixels from its left to its right."""
        return max(self._columns[-1], width_of(self._title, 8.4))

    @property
    def height(self) -> float:
        """Pixels from the top of its title to the end of its last row."""
        return _TITLE + _ROW * (1 + len(self._things) + bool(self._rest))

    def svg(self) -> Iterator[str]:
        """Its elements, with the top left corner at (0, 0)."""
        yield f'<text class="title" x="0" y="14">{escape(self._title)}</text>'
        yield from self._row(0, _HEADS, "head")
        for number, thing in enumerate(self._things, start=1):
            yield from self._row(
                number, thing.cells, "cell harmed" if thing.harmful else "cell"
            )
        if self._rest:
            yield _text("cell", 0, _TITLE + _ROW * (len(self._things) + 1.5), self._rest)

    def _row(self, number: int, cells: Sequence[str], kind: str) -> Iterator[str]:
        for column, text in enumerate(cells):
            at = _TITLE + _ROW * (number + 0.5)
            yield _text(kind, self._columns[column], at, _shown(text, column), visible(text))


def _shown(text: str, column: int) -> str:
    """A cell's text, shortened."""
    return short(text, _STATE_MAX) if column == 1 else short(text)


def _text(kind: str, x: float, y: float, text: str, whole: str = "") -> str:
    tip = f"<title>{escape(whole)}</title>" if whole not in ("", text) else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{tip}{escape(text)}</text>'
