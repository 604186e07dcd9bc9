"""A reference as an SVG picture: the prefix tree with counts, the medoid, runs drawn in.

Columns are steps, bands are as wide as many runs went there, tools that write have a colour of
their own. The way of a drawn run is numbered; where it leaves the tree stands what it called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from monitor.drawing.diagram import visible
from monitor.drawing.labels import short, width_of
from monitor.drawing.reference_layout import (
    BOX,
    GAP_X,
    LINE,
    LayoutCall,
    NodeBox,
    Note,
    ReferenceLayout,
    plan,
)
from monitor.reference.comparison import Comparison
from monitor.spec.learnt_reference import LearntReference

__all__ = ["RUNS_MAX", "svg"]

MARGIN: Final = 24.0
HEAD: Final = 92.0
"""Room for the title, what the reference is, and the numbers of the steps."""
FOOT: Final = 42.0
BAND_MAX: Final = 14.0

COLOURS: Final = ("#1665c0", "#8e24aa", "#00796b", "#b8530a", "#5d4037", "#3949ab")
"""Of the runs that are drawn in."""

RUNS_MAX: Final = len(COLOURS)
"""More runs in one picture could not be distinguished."""

_STYLE: Final = """
  .paper { fill: #ffffff; }
  text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2933; }
  .title { font-size: 15px; font-weight: 600; }
  .about { font-size: 11px; fill: #66727f; }
  .column { font-size: 10px; fill: #8a96a3; text-anchor: middle; }
  .early { fill: #f6f8fb; }
  .tool { font-size: 12px; }
  .count { font-size: 11px; fill: #66727f; text-anchor: end; }
  .note { font-size: 10.5px; fill: #66727f; }
  .away { font-size: 10.5px; font-weight: 600; fill: #c62828; }
  .node { fill: #f3f6f9; stroke: #52606d; stroke-width: 1.1; }
  .write { fill: #fff3dc; stroke: #b7791f; }
  .medoid { stroke: #2f7d3b; stroke-width: 2.6; }
  .band { fill: none; stroke: #dbe2ea; stroke-linecap: round; }
  .of-medoid { stroke: #b5dcbb; }
  .way { fill: none; stroke-width: 2; }
  .end { fill: #52606d; }
  .number { font-size: 9px; font-weight: 600; text-anchor: middle; fill: #ffffff; }
"""


def svg(
    learnt: LearntReference,
    title: str,
    runs: Sequence[tuple[str, Sequence[LayoutCall]]] = (),
    about: str = "",
) -> str:
    """The picture.

    Args:
        learnt: the reference.
        title: its name.
        runs: name and calls of runs to draw in, at most `RUNS_MAX`.
        about: a line below the title.

    Raises:
        ValueError: there are too many runs.
    """
    if len(runs) > RUNS_MAX:
        raise ValueError(f"{len(runs)} runs are too many for one picture: at most {RUNS_MAX}")
    comparison = Comparison(learnt)
    drawing = _Drawing(learnt, plan(learnt, comparison, runs))
    width = max(drawing.plan.width, width_of(about, 5.9), drawing.legend_width) + 2 * MARGIN
    height = HEAD + drawing.plan.height + FOOT + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
            f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<style>{_STYLE}</style>",
            '<rect class="paper" width="100%" height="100%"/>',
            f'<g transform="translate({MARGIN:.0f} {MARGIN:.0f})">',
            f'<text class="title" x="0" y="12">{escape(visible(title))}</text>',
            f'<text class="about" x="0" y="31">{escape(visible(about))}</text>',
            *drawing.lines(),
            "</g></svg>",
            "",
        ]
    )


class _Drawing:
    """A plan turned into elements, from the back to the front."""

    def __init__(self, learnt: LearntReference, placed: ReferenceLayout) -> None:
        self.learnt = learnt
        self.plan = placed

    def lines(self) -> Iterator[str]:
        yield f'<g transform="translate(0 {HEAD - MARGIN:.0f})">'
        yield from self._columns()
        for node_box in self.plan.boxes.values():
            yield from self._band(node_box)
        for number in range(len(self.plan.tracks)):
            yield from self._way(number)
        for node_box in self.plan.boxes.values():
            yield from self._node(node_box)
        yield from self._chips()
        yield "</g>"
        yield from self._legend(HEAD - MARGIN + self.plan.height + FOOT - 8)

    # --- behind the nodes ---------------------------------------------------------------------

    def _columns(self) -> Iterator[str]:
        columns = self.plan.columns[1:]
        if columns:
            left, (right, wide) = columns[0][0], columns[:2][-1]
            yield (
                f'<rect class="early" x="{left - 14:.1f}" y="-22" rx="6" '
                f'width="{right + wide - left + 28:.1f}" height="{self.plan.height + 34:.1f}"/>'
            )
        for step, (left, wide) in enumerate(columns, start=1):
            text = f"step {step}" if step == 1 else str(step)
            yield f'<text class="column" x="{left + wide / 2:.1f}" y="-9">{text}</text>'

    def _band(self, node_box: NodeBox) -> Iterator[str]:
        node = self.learnt.nodes[node_box.node]
        if node.parent < 0:
            return
        share = node.runs / max(1, self.learnt.nodes[0].runs)
        both = {node_box.node, node.parent} <= self.plan.medoid
        kind = "band of-medoid" if both else "band"
        yield (
            f'<path class="{kind}" stroke-width="{1.6 + BAND_MAX * share:.1f}" '
            f'd="{self._curve(node_box, 0)}"/>'
        )

    def _curve(self, node_box: NodeBox, shift: float) -> str:
        """From the parent's box to this one; a way down bends close to the parent."""
        above = self.plan.boxes[self.learnt.nodes[node_box.node].parent]
        x0, y0 = above.x + above.width, above.y + shift
        x1, y1 = node_box.x, node_box.y + shift
        bend = GAP_X / 2
        return (
            f"M{x0 - 2:.1f} {y0:.1f} C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f} "
            f"{x1 + 2:.1f} {y1:.1f}"
        )

    def _way(self, number: int) -> Iterator[str]:
        track, shift = self.plan.tracks[number], self._shift(number)
        called = {node for node, _ in track.nodes}
        for node in self._passed(number):
            node_box = self.plan.boxes.get(node)
            if node_box is None or self.learnt.nodes[node].parent < 0:
                continue
            dashed = "" if node in called else ' stroke-dasharray="2 4"'
            yield (
                f'<path class="way" stroke="{COLOURS[number]}"{dashed} '
                f'd="{self._curve(node_box, shift)}"/>'
            )

    def _passed(self, number: int) -> list[int]:
        """Every node on the way, also those that were skipped."""
        found = dict.fromkeys(node for node, _ in self.plan.tracks[number].nodes)
        for node in list(found):
            up = self.learnt.nodes[node].parent
            while up >= 0 and up not in found:
                found[up] = None
                up = self.learnt.nodes[up].parent
        return sorted(found)

    def _shift(self, number: int) -> float:
        return 4.0 * (number - (len(self.plan.tracks) - 1) / 2)

    # --- nodes --------------------------------------------------------------------------------

    def _node(self, node_box: NodeBox) -> Iterator[str]:
        node = self.learnt.nodes[node_box.node]
        left, top = node_box.x, node_box.y - BOX / 2
        tool = self.learnt.tools[node.tool] if node_box.node else ""
        kind = "node"
        kind += " write" if tool in self.learnt.writes else ""
        kind += " medoid" if node_box.node in self.plan.medoid else ""
        yield f"<g><title>{escape(self._tooltip(node_box.node, tool))}</title>"
        yield (
            f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{node_box.width:.1f}" '
            f'height="{BOX:.1f}" rx="{6 if node_box.node else BOX / 2:.0f}"/>'
        )
        if tool:
            yield f'<text class="tool" x="{left + 12:.1f}" y="{node_box.y + 4:.1f}">{escape(short(tool))}</text>'
        right = left + node_box.width
        yield f'<text class="count" x="{right - 12:.1f}" y="{node_box.y + 4:.1f}">{node.runs}</text>'
        if node.ends:
            yield from self._end(right, node_box.y, node.ends, alone=node.ends == node.runs)
        for line, note in enumerate(node_box.notes, start=1):
            yield from self._note(note, left + 4, node_box.y + BOX / 2 + LINE * line - 2)
        yield "</g>"

    def _tooltip(self, node: int, tool: str) -> str:
        found = self.learnt.nodes[node]
        writes = ", writes" if tool in self.learnt.writes else ""
        return (
            f"{visible(tool) or 'start'}: {found.runs} of {self.learnt.nodes[0].runs} runs, "
            f"{found.ends} end here{writes}"
        )

    def _end(self, x: float, y: float, count: int, *, alone: bool) -> Iterator[str]:
        """A mark where runs end; how many, where others go on."""
        yield f'<circle class="end" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
        if not alone:
            at = y - BOX / 2 - 4
            yield f'<text class="note" x="{x - 4:.1f}" y="{at:.1f}" text-anchor="end">{count} end</text>'

    def _note(self, note: Note, x: float, y: float) -> Iterator[str]:
        if note.run < 0:
            yield f'<text class="note" x="{x:.1f}" y="{y:.1f}">{escape(note.text)}</text>'
            return
        sign = "✗ " if note.step else "■ "
        if note.step:
            yield from self._chip(x + 6, y - 4, note.run, note.step)
            x += 17
        yield f'<text class="away" x="{x:.1f}" y="{y:.1f}">{sign}{escape(note.text)}</text>'

    def _chips(self) -> Iterator[str]:
        """The numbers of the calls, above the boxes they made."""
        at: dict[int, int] = {}
        for number, track in enumerate(self.plan.tracks):
            for node, step in track.nodes:
                node_box = self.plan.boxes.get(node)
                if node_box is not None:
                    place = at[node] = at.get(node, 0) + 1
                    x = node_box.x + 16 * place - 6
                    yield from self._chip(x, node_box.y - BOX / 2 - 1, number, step)

    def _chip(self, x: float, y: float, run: int, step: int) -> Iterator[str]:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="{COLOURS[run]}"/>'
        yield f'<text class="number" x="{x:.1f}" y="{y + 3.2:.1f}">{step}</text>'

    # --- the legend ---------------------------------------------------------------------------

    @property
    def _entries(self) -> list[tuple[str, str, str]]:
        """(class, colour, text)."""
        found = [
            ("node medoid", "", "medoid"),
            ("node write", "", "writes"),
            ("end", "", "runs end"),
        ]
        found += [
            ("way", COLOURS[number], short(track.name))
            for number, track in enumerate(self.plan.tracks)
        ]
        if self.plan.tracks:
            found.append(
                ("", "", "numbers: its calls; dotted: calls it skipped; ✗ not seen there")
            )
        return found

    @property
    def legend_width(self) -> float:
        return sum(width_of(text, 6.2) + 44 for _, _, text in self._entries)

    def _legend(self, y: float) -> Iterator[str]:
        x = 2.0
        for kind, colour, text in self._entries:
            if kind == "end":
                yield f'<circle class="end" cx="{x + 11:.1f}" cy="{y - 4:.1f}" r="4.5"/>'
            elif kind == "way":
                yield f'<path class="way" stroke="{colour}" d="M{x:.1f} {y - 4:.1f} h20"/>'
            elif kind:
                yield f'<rect class="{kind}" x="{x:.1f}" y="{y - 11:.1f}" width="20" height="13" rx="4"/>'
            at = x + 26 if kind else x
            yield f'<text class="about" x="{at:.1f}" y="{y:.1f}">{escape(text)}</text>'
            x += width_of(text, 6.2) + 44
