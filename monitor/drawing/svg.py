"""A machine as an SVG picture, without any other program.

Progress goes from left to right, reads are small words below the state they leave unchanged,
accepting states have a double border. The path of a session can be drawn in, or its things below
(`thing_rows`). Names are text of strangers: they are escaped, and shortened where they are long.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, NamedTuple

from monitor.automaton.dfa import Machine
from monitor.drawing.diagram import machine_edges, machine_states, visible
from monitor.drawing.labels import short, width_of
from monitor.drawing.layers import Layout, Route, Size, layout
from monitor.drawing.thing_rows import DrawnThings

__all__ = ["STATES_MAX", "DrawnStep", "svg"]

STATES_MAX: Final = 400
"""More are no picture."""

LABEL_MAX: Final = 26
READS_MAX: Final = 3
"""Lines of reads; the rest is in the tool tip."""
MARGIN: Final = 24.0
START: Final = 44.0
"""Room for the arrow into the first state."""
LINE: Final = 13.0
BOX: Final = 32.0
TITLE: Final = 34.0

_STYLE: Final = """
  .paper { fill: #ffffff; }
  text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2933; }
  .title { font-size: 15px; font-weight: 600; }
  .name { font-size: 13px; text-anchor: middle; }
  .reads { font-size: 10px; text-anchor: middle; fill: #66727f; }
  .label { font-size: 11px; text-anchor: middle; stroke: #ffffff; stroke-width: 4px;
           stroke-linejoin: round; paint-order: stroke; }
  .state { fill: #f3f6f9; stroke: #52606d; stroke-width: 1.3; }
  .accepting { fill: #eaf6ec; stroke: #2f7d3b; }
  .inner { fill: none; }
  .edge { fill: none; stroke: #52606d; stroke-width: 1.3; marker-end: url(#tip); }
  .back { stroke-dasharray: 4 3; }
  .taken { stroke: #1665c0; stroke-width: 2.6; marker-end: url(#taken-tip); }
  .visited { stroke: #1665c0; stroke-width: 2.6; }
  .number { fill: #1665c0; font-weight: 600; }
  .harm { font-size: 11px; text-anchor: middle; fill: #c62828; font-weight: 600; }
"""

_TABLE_STYLE: Final = """
  .head { font-size: 11px; fill: #66727f; }
  .cell { font-size: 12px; }
  .harmed { fill: #c62828; font-weight: 600; }
"""


class DrawnStep(NamedTuple):
    """One call of a session that is drawn in."""

    source: int
    """The state it was made in."""
    target: int
    """The state after it; the same where it was a read, or harmful."""
    label: str
    """The call, as it is shown at the state where it was harmful."""
    harmful: bool


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One machine, laid out."""

    title: str
    machine: Machine
    states: tuple[int, ...]
    labels: dict[tuple[int, int], list[str]]
    reads: dict[int, list[str]]
    """Lines below a state."""
    harms: dict[int, list[str]]
    layout: Layout
    sizes: dict[int, Size]
    taken: dict[tuple[int, int], list[int]]
    """Edge -> the numbers of the calls that took it, from 1."""
    visited: frozenset[int]

    @property
    def height(self) -> float:
        below = any(route.backward for route in self.layout.routes.values())
        return TITLE + self.layout.height + (40.0 if below else 0.0) + MARGIN

    @property
    def width(self) -> float:
        return max(START + self.layout.width, width_of(self.title, 8.4)) + 2 * MARGIN


def svg(
    machines: Iterable[tuple[str, Machine]],
    path: Sequence[DrawnStep] = (),
    things: DrawnThings | None = None,
) -> str:
    """One picture of all machines, one below the other, each with its title.

    Args:
        machines: titles and machines, as `Spec.diagrams` gives them.
        path: calls of a session, drawn into the first machine.
        things: of a session, drawn below.

    Raises:
        ValueError: a machine has too many states to draw.
    """
    drawings = [
        _drawing(title, machine, path if not index else ())
        for index, (title, machine) in enumerate(machines)
    ]
    width = max(drawing.width for drawing in drawings)
    height = sum(drawing.height for drawing in drawings) + MARGIN
    style = _STYLE
    if things is not None:
        width, height = max(width, things.width + 2 * MARGIN), height + things.height + MARGIN
        style += _TABLE_STYLE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<style>{style}</style>",
        "<defs>",
        _tip("tip", "#52606d"),
        _tip("taken-tip", "#1665c0"),
        "</defs>",
        '<rect class="paper" width="100%" height="100%"/>',
    ]
    top = MARGIN
    for drawing in drawings:
        lines += _placed(top, _draw(drawing))
        top += drawing.height
    if things is not None:
        lines += _placed(top, things.svg())
    return "\n".join([*lines, "</svg>"]) + "\n"


def _placed(top: float, lines: Iterable[str]) -> Iterator[str]:
    """Elements that begin at some height of the picture."""
    yield f'<g transform="translate({MARGIN:.0f} {top:.1f})">'
    yield from lines
    yield "</g>"


def _tip(name: str, color: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0.6 L8 4 L0 7.4 z" fill="{color}"/></marker>'
    )


# --- what there is to draw --------------------------------------------------------------------


def _drawing(title: str, machine: Machine, path: Sequence[DrawnStep]) -> _Drawing:
    states = machine_states(machine)
    if len(states) > STATES_MAX:
        raise ValueError("too many states to draw")
    labels: dict[tuple[int, int], list[str]] = {}
    reads: dict[int, list[str]] = {}
    for source, target, names in machine_edges(machine, states):
        if source == target:
            reads[source] = _wrapped(names)[:READS_MAX] + ["…"] * (
                len(_wrapped(names)) > READS_MAX
            )
        else:
            labels[source, target] = _wrapped(names)
    taken, harms = _taken(path)
    for edge, numbers in taken.items():
        if edge in labels:
            labels[edge] = [*labels[edge], " ".join(f"({number})" for number in numbers[:5])]
    sizes = {
        state: _size(machine.name(state), reads.get(state, []), harms.get(state, []))
        for state in states
    }
    widths = {edge: max(map(width_of, lines)) for edge, lines in labels.items()}
    placed = layout(states, widths, machine.initial, sizes)
    visited = frozenset(end for step in path for end in (step.source, step.target))
    return _Drawing(
        visible(title), machine, states, labels, reads, harms, placed, sizes, taken, visited
    )


def _taken(
    path: Sequence[DrawnStep],
) -> tuple[dict[tuple[int, int], list[int]], dict[int, list[str]]]:
    """Numbers of the calls by edge, and lines of harmful calls by state."""
    taken: dict[tuple[int, int], list[int]] = {}
    harms: dict[int, list[str]] = {}
    for number, step in enumerate(path, start=1):
        if step.harmful:
            harms.setdefault(step.source, []).append(f"✗ ({number}) {short(step.label)}")
        elif step.source != step.target:
            taken.setdefault((step.source, step.target), []).append(number)
    return taken, {
        state: lines[:READS_MAX]
        + [f"✗ {len(lines) - READS_MAX} more"] * (len(lines) > READS_MAX)
        for state, lines in harms.items()
    }


def _size(name: str, reads: Sequence[str], harms: Sequence[str]) -> Size:
    below = max((width_of(line, 5.8) for line in reads), default=0.0)
    harmful = max((width_of(line, 6.6) for line in harms), default=0.0)
    width = max(width_of(short(name), 7.4) + 26, below, harmful, 56.0)
    return Size(width, BOX + 2 * LINE * max(len(reads), len(harms)))


def _wrapped(names: Sequence[str]) -> list[str]:
    """Names with commas, on lines of at most `LABEL_MAX` characters."""
    lines: list[str] = []
    for index, name in enumerate(names):
        text = short(name) + ("," if index + 1 < len(names) else "")
        if lines and len(lines[-1]) + len(text) < LABEL_MAX:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines


# --- drawing ----------------------------------------------------------------------------------


def _draw(drawing: _Drawing) -> Iterator[str]:
    if drawing.title:
        yield f'<text class="title" x="0" y="14">{escape(drawing.title)}</text>'
    yield f'<g transform="translate({START:.0f} {TITLE:.0f})">'
    x, y = drawing.layout.places[drawing.machine.initial]
    left = x - _box(drawing, drawing.machine.initial) / 2
    yield f'<circle cx="{left - 34:.1f}" cy="{y:.1f}" r="4" fill="#52606d"/>'
    yield f'<path class="edge" d="M{left - 30:.1f} {y:.1f} L{left - 1:.1f} {y:.1f}"/>'
    for edge, route in drawing.layout.routes.items():
        yield _edge(drawing, edge, route)
    for state in drawing.states:
        yield from _state(drawing, state)
    for edge, route in drawing.layout.routes.items():
        yield from _label(drawing, edge, route)
    yield "</g>"


def _box(drawing: _Drawing, state: int) -> float:
    """Width of the box itself, without what is written below it."""
    return max(width_of(short(drawing.machine.name(state)), 7.4) + 26, 56.0)


def _state(drawing: _Drawing, state: int) -> Iterator[str]:
    (x, y), width = drawing.layout.places[state], _box(drawing, state)
    name = visible(drawing.machine.name(state))
    accepting = drawing.machine.accepts(state)
    kind = "state accepting" if accepting else "state"
    kind += " visited" if state in drawing.visited else ""
    yield f"<g><title>{escape(name)}</title>"
    yield _rectangle(kind, x, y, width, BOX)
    if accepting:
        yield _rectangle(f"{kind} inner", x, y, width - 7, BOX - 7)
    yield f'<text class="name" x="{x:.1f}" y="{y + 4.5:.1f}">{escape(short(name))}</text>'
    for number, line in enumerate(drawing.reads.get(state, []), start=1):
        at = y + BOX / 2 + LINE * number - 1
        text = f"↻ {line}" if number == 1 else line
        yield f'<text class="reads" x="{x:.1f}" y="{at:.1f}">{escape(text)}</text>'
    for number, line in enumerate(drawing.harms.get(state, []), start=1):
        at = y - BOX / 2 - LINE * (number - 1) - 5
        yield f'<text class="harm" x="{x:.1f}" y="{at:.1f}">{escape(line)}</text>'
    yield "</g>"


def _rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect class="{kind}" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="{height / 2:.1f}"/>'
    )


def _edge(drawing: _Drawing, edge: tuple[int, int], route: Route) -> str:
    kind = "edge"
    kind += " back" if route.backward else ""
    kind += " taken" if edge in drawing.taken else ""
    return f'<path class="{kind}" d="{_way(drawing, edge, route)}"/>'


def _way(drawing: _Drawing, edge: tuple[int, int], route: Route) -> str:
    (x0, y0), (x1, y1) = route.points[0], route.points[-1]
    if route.backward:
        low = drawing.layout.height + 34
        return (
            f"M{x0:.1f} {y0 + BOX / 2:.1f} C{x0:.1f} {low:.1f} "
            f"{x1:.1f} {low:.1f} {x1:.1f} {y1 + BOX / 2 + 1:.1f}"
        )
    points = [
        (x0 + _box(drawing, edge[0]) / 2, y0),
        *route.points[1:-1],
        (x1 - _box(drawing, edge[1]) / 2 - 1, y1),
    ]
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (ax, ay), (bx, by) in itertools.pairwise(points):
        bend = (bx - ax) / 2
        parts.append(f"C{ax + bend:.1f} {ay:.1f} {bx - bend:.1f} {by:.1f} {bx:.1f} {by:.1f}")
    return " ".join(parts)


def _label(drawing: _Drawing, edge: tuple[int, int], route: Route) -> Iterator[str]:
    lines = drawing.labels[edge]
    x, y = _label_place(drawing, edge, route)
    y -= LINE * (len(lines) - 1) / 2
    if route.points[0][1] == route.points[1][1] and not route.backward:
        y -= 10.0 if len(lines) == 1 else 3.0  # above the line, not on it
    for number, line in enumerate(lines):
        numbers = edge in drawing.taken and number == len(lines) - 1
        kind = "label number" if numbers else "label"
        at = y + LINE * number + 3.5
        yield f'<text class="{kind}" x="{x:.1f}" y="{at:.1f}">{escape(line)}</text>'


def _label_place(drawing: _Drawing, edge: tuple[int, int], route: Route) -> tuple[float, float]:
    """The middle of the edge's first stretch, or the lowest place of one that leads back."""
    (x0, y0), (x1, y1) = route.points[0], route.points[1]
    if route.backward:
        return (x0 + x1) / 2, (y0 + y1 + BOX) / 8 + 0.75 * (drawing.layout.height + 34)
    start = x0 + _box(drawing, edge[0]) / 2
    end = x1 - (_box(drawing, edge[1]) / 2 if len(route.points) == 2 else 0.0)
    return (start + end) / 2, (y0 + y1) / 2
