"""How judges and models do against each other, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from collector.offline.tables import aligned
from monitor.findings import printable

__all__ = ["comparison_table_lines"]

_FIGURES: Final = ("difference", "correlation", "alpha")


def comparison_table_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for two raters: the sessions that both scored, and each figure with its 95 % interval."""
    titles = ["a", "b", "sessions", *_FIGURES]
    rows = [
        [_rater(each["a"]), _rater(each["b"]), str(each["sessions"])]
        + [_cell(each[name], each[f"{name}_ci"]) for name in _FIGURES]
        for each in found
    ]
    yield ""
    if rows:
        yield from aligned([titles, *rows], texts=2)
    else:
        yield "no two judges or models have scored the same session"


def _rater(found: Mapping[str, str]) -> str:
    return f"{printable(found['judge'])} {printable(found['model'])}"


def _cell(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None:
        return "-"
    if interval is None:
        return f"{value:.3f}"
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"
