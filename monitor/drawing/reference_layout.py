"""Where everything of a reference's picture goes: steps are columns, ways are rows.

The most frequent way is the first row, straight; each other way leaves it downwards. Rare ways are
left out, with a note. Sizes are pixels, the origin is at the top left of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from monitor.drawing.labels import short, width_of
from monitor.reference.comparison import Comparison, Departure
from monitor.spec.learnt_reference import LearntReference

__all__ = [
    "COLUMNS_MAX",
    "NODES_DRAWN",
    "NodeBox",
    "Note",
    "ReferenceLayout",
    "Track",
    "medoid_nodes",
    "plan",
]

NODES_DRAWN: Final = 60
"""Nodes of most runs that are drawn; the medoid and the ways of drawn runs always are."""
COLUMNS_MAX: Final = 40
"""Steps that are drawn: longer ways end in a note."""
NOTES_MAX: Final = 4
"""Lines at one node."""

BOX: Final = 26.0
LINE: Final = 15.0
GAP_X: Final = 44.0
GAP_Y: Final = 20.0
CHIP: Final = 9.0
"""Room above a box for the numbers of calls."""


class LayoutCall(NamedTuple):
    """One call of a run that is drawn in."""

    tool: str
    token: int
    """As `Comparison.token` gives it."""


class Note(NamedTuple):
    """A line below a node: where a run left the tree, or what is not drawn."""

    text: str
    run: int
    """Number of the run it is of; -1 for none."""
    step: int
    """Number of the call; 0 for none."""


@dataclass(slots=True)
class Track:
    """The way of one run through the tree."""

    name: str
    nodes: list[tuple[int, int]] = field(default_factory=list)
    """(node, number of the call) in order; calls that left the tree are notes."""
    notes: list[tuple[int, Note]] = field(default_factory=list)
    """(node, note)."""
    last: int = 0
    """The node where it ended."""


@dataclass(frozen=True, slots=True)
class NodeBox:
    """A node in its place."""

    node: int
    depth: int
    row: int
    x: float
    """Of the left border."""
    y: float
    """Of the middle."""
    width: float
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class ReferenceLayout:
    """Everything in its place."""

    boxes: Mapping[int, NodeBox]
    """By node; parents before children."""
    columns: tuple[tuple[float, float], ...]
    """Left border and width of each step's column; the first is the start's."""
    tracks: tuple[Track, ...]
    medoid: frozenset[int]
    width: float
    height: float


def medoid_nodes(learnt: LearntReference) -> tuple[int, ...]:
    """The nodes of the medoid, from the root as far as the tree holds it."""
    number = {
        (node.parent, learnt.tools[node.tool]): place
        for place, node in enumerate(learnt.nodes)
        if place
    }
    found = [0]
    for tool in learnt.medoid:
        below = number.get((found[-1], tool))
        if below is None:
            break
        found.append(below)
    return tuple(found)


def plan(
    learnt: LearntReference,
    comparison: Comparison,
    runs: Sequence[tuple[str, Sequence[LayoutCall]]] = (),
) -> ReferenceLayout:
    """Places for the tree of a reference, with some runs drawn in.

    Args:
        learnt: the reference.
        comparison: made of it.
        runs: name and calls of each.
    """
    tracks = tuple(_track(comparison, number, *run) for number, run in enumerate(runs))
    medoid = medoid_nodes(learnt)
    wanted = [*medoid, *(node for track in tracks for node, _ in track.nodes)]
    kept = _kept(learnt, [*wanted, *(track.last for track in tracks)])
    children, hidden = _children(learnt, kept, frozenset(medoid))
    depths, rows = _rows(children)
    notes = _notes(tracks, hidden)
    _cut(learnt, depths, children, notes)
    columns = _columns(learnt, depths, notes)
    tops = _tops(rows, notes)
    boxes = {
        node: NodeBox(
            node,
            depths[node],
            rows[node],
            columns[depths[node]][0],
            tops[rows[node]] + CHIP + BOX / 2,
            columns[depths[node]][1],
            tuple(notes.get(node, ())),
        )
        for node in sorted(depths, key=lambda node: (depths[node], rows[node]))
    }
    left, wide = columns[-1]
    return ReferenceLayout(
        boxes, columns, tracks, frozenset(medoid), left + wide, tops[-1] - GAP_Y
    )


# --- the ways of runs -------------------------------------------------------------------------


def _track(
    comparison: Comparison, number: int, name: str, calls: Sequence[LayoutCall]
) -> Track:
    track, at = Track(name), comparison.start()
    for step, call in enumerate(calls, start=1):
        before = at.node
        departure = comparison.step(at, call.token)
        if departure in (Departure.EXTRA, Departure.WRONG_TOOL):
            unexpected = comparison.is_unexpected(call.token)
            what = f"{short(call.tool)} (unexpected write)" if unexpected else short(call.tool)
            track.notes.append((before, Note(what, number, step)))
            continue
        track.nodes.append((at.node, step))
        if comparison.is_unexpected(call.token):
            track.notes.append((at.node, Note("unexpected write", number, step)))
    track.last = at.node
    end = comparison.at_end(at)
    if end is not None:
        expected = " or ".join(short(tool) for tool in comparison.expected(at.node)[:2])
        track.notes.append((at.node, Note(f"ended; usual: {expected}", number, 0)))
    return track


# --- which nodes ------------------------------------------------------------------------------


def _kept(learnt: LearntReference, wanted: Iterable[int]) -> set[int]:
    """The nodes of most runs, and the wanted ones with all before them."""
    # A document's nodes come in that order, parents first.
    kept = set(range(min(NODES_DRAWN, len(learnt.nodes))))
    for node in wanted:
        while node >= 0 and node not in kept:
            kept.add(node)
            node = learnt.nodes[node].parent  # noqa: PLW2901 - up to what is kept already
    return kept


def _children(
    learnt: LearntReference, kept: set[int], medoid: frozenset[int]
) -> tuple[dict[int, list[int]], dict[int, tuple[int, int]]]:
    """Children of each kept node, and of those left out how many ways and runs there are."""
    children: dict[int, list[int]] = {node: [] for node in kept}
    hidden: dict[int, tuple[int, int]] = {}
    for place, node in enumerate(learnt.nodes):
        if not place or node.parent not in kept:
            continue
        if place in kept:
            children[node.parent].append(place)
        else:
            ways, runs = hidden.get(node.parent, (0, 0))
            hidden[node.parent] = ways + 1, runs + node.runs
    for found in children.values():
        found.sort(key=lambda each: (each not in medoid, -learnt.nodes[each].runs, each))
    return children, hidden


def _rows(children: Mapping[int, Sequence[int]]) -> tuple[dict[int, int], dict[int, int]]:
    """Depth and row of each node: the first child goes on in its parent's row."""
    depths, rows = {0: 0}, {0: 0}
    last = 0
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if node not in rows:
            last += 1
            rows[node] = last
        below = children[node] if depths[node] < COLUMNS_MAX else ()
        for each in below:
            depths[each] = depths[node] + 1
        if below:
            rows[below[0]] = rows[node]
        # The way straight on is finished before the next one begins below it.
        waiting += reversed(below)
    return depths, rows


def _notes(
    tracks: Sequence[Track], hidden: Mapping[int, tuple[int, int]]
) -> dict[int, list[Note]]:
    notes: dict[int, list[Note]] = {}
    for track in tracks:
        for node, note in track.notes:
            notes.setdefault(node, []).append(note)
    for found in notes.values():
        if len(found) > NOTES_MAX:
            more = len(found) - NOTES_MAX + 1
            found[NOTES_MAX - 1 :] = [Note(f"{more} more departures", found[-1].run, 0)]
    for node, (ways, runs) in hidden.items():
        text = f"+ {ways} rare {'way' if ways == 1 else 'ways'} ({runs})"
        notes.setdefault(node, []).append(Note(text, -1, 0))
    return notes


def _cut(
    learnt: LearntReference,
    depths: Mapping[int, int],
    children: Mapping[int, Sequence[int]],
    notes: dict[int, list[Note]],
) -> None:
    """Says at the last column that ways go on."""
    for node, depth in depths.items():
        if depth == COLUMNS_MAX and children[node]:
            runs = sum(learnt.nodes[each].runs for each in children[node])
            notes.setdefault(node, []).append(Note(f"+ more calls ({runs})", -1, 0))


# --- where ------------------------------------------------------------------------------------


def _columns(
    learnt: LearntReference, depths: Mapping[int, int], notes: Mapping[int, Sequence[Note]]
) -> tuple[tuple[float, float], ...]:
    widths = [0.0] * (max(depths.values()) + 1)
    for node, depth in depths.items():
        own = box_width(learnt, node)
        below = max((width_of(note.text, 6.3) + 34 for note in notes.get(node, ())), default=0)
        widths[depth] = max(widths[depth], own, below)
    columns, left = [], 0.0
    for width in widths:
        columns.append((left, width))
        left += width + GAP_X
    return tuple(columns)


def box_width(learnt: LearntReference, node: int) -> float:
    """Width that a node's name and count take."""
    runs = width_of(str(learnt.nodes[node].runs), 7.0)
    if not node:
        return 28.0 + runs
    return width_of(short(learnt.tools[learnt.nodes[node].tool]), 6.9) + runs + 40.0


def _tops(rows: Mapping[int, int], notes: Mapping[int, Sequence[Note]]) -> list[float]:
    """Top of each row, and the end of the last one."""
    lines = [0] * (max(rows.values()) + 1)
    for node, row in rows.items():
        lines[row] = max(lines[row], len(notes.get(node, ())))
    tops = [0.0]
    for count in lines:
        tops.append(tops[-1] + CHIP + BOX + LINE * count + GAP_Y)
    return tops
