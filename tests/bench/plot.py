"""Rows of the process benchmark as a picture: bars beside each other, one group a way of sending.

A line in each group says how long our bar may be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.bench.process import COMPILED_MAX, Row
from tests.bench.service import COLLECTOR

__all__ = ["svg"]

WIDTH, BAR, GAP, LEFT, TOP = 760, 14, 16, 92, 54
ROOM = WIDTH - LEFT - 70
"""For the longest bar of a group."""
LETTER = 6.5
"""Width of one, a little more than most are."""

LINE = "#dc2626"
COLOURS = ("#2563eb", "#94a3b8", "#d97706", "#059669")
STYLE = "font-family: system-ui, sans-serif; font-size: 12px"


def svg(rows: Sequence[Row]) -> str:
    """The picture, light and dark alike on any page."""
    names = list(dict.fromkeys(row.server for row in rows))
    groups = list(dict.fromkeys((row.transport, row.spans_a_request) for row in rows))
    height = TOP + len(groups) * (len(names) * BAR + GAP) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" style="{STYLE}" role="img">',
        "<title>CPU microseconds a span</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#f8fafc"/>',
        *_legend(names),
    ]
    for number, (transport, size) in enumerate(groups):
        found = {row.server: row.cpu_us for row in rows if row[1:3] == (transport, size)}
        top = TOP + number * (len(names) * BAR + GAP)
        most = COMPILED_MAX.get((transport, size), 0.0) * found.get(COLLECTOR, 0.0)
        longest = max(most, *found.values())
        costs = [found[name] for name in names]
        parts += _group(f"{transport}, {size}", costs, longest, top)
        if most:
            parts.append(_bound(most / longest, top))
    return "\n".join([*parts, "</svg>", ""])


def _legend(names: Sequence[str]) -> Iterator[str]:
    yield f'<text x="16" y="20" fill="#0f172a" font-weight="600">CPU {chr(0xB5)}s a span</text>'
    x = 16.0
    for name, colour in zip(names, COLOURS, strict=False):
        yield f'<rect x="{x:.1f}" y="30" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 15:.1f}" y="39" fill="#334155">{name}</text>'
        x += 35 + len(name) * LETTER
    yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="29" y2="41" stroke="{LINE}" stroke-width="2"/>'
    yield f'<text x="{x + 6:.1f}" y="39" fill="#334155">at most, ours</text>'


def _group(title: str, costs: Sequence[float], longest: float, top: int) -> Iterator[str]:
    """Bars of one way of sending; each group has its own scale."""
    yield f'<text x="16" y="{top + BAR}" fill="#0f172a">{title}</text>'
    for number, cost in enumerate(costs):
        y = top + number * BAR
        length = max(2.0, cost / longest * ROOM)
        yield (
            f'<rect x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="{BAR - 4}" '
            f'rx="2" fill="{COLOURS[number]}"/>'
        )
        yield f'<text x="{LEFT + length + 6:.1f}" y="{y + BAR - 3}" fill="#334155">{cost:.1f}</text>'


def _bound(share: float, top: int) -> str:
    """A line across our bar, at a share of the longest one."""
    x = LEFT + share * ROOM
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 1}" y2="{top + BAR + 1}" '
        f'stroke="{LINE}" stroke-width="2"/>'
    )
