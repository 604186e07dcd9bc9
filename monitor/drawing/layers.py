"""A layered layout: states in columns from left to right, so that progress reads like a line.

The steps are Sugiyama's (1981): break cycles, give each state the longest way from the start as
its layer, route long edges through the layers between, then order each layer by the middle of its
neighbours. Sizes come in, places go out; nothing is drawn here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Layout", "Route", "Size", "layout"]

SWEEPS: Final = 8
"""Times the layers are ordered, forth and back: more do not help small graphs."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height of a state's box with all that is written at it."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Route:
    """The way of an edge: the middle of its source, of every layer it crosses, of its target."""

    points: tuple[tuple[float, float], ...]
    backward: bool
    """True if it leads to the same layer or an earlier one: it is then drawn below everything."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything goes. The origin is at the top left."""

    places: Mapping[int, tuple[float, float]]
    """Middle of each state's box."""
    routes: Mapping[Pair, Route]
    width: float
    height: float


def layout(
    states: Sequence[int],
    edges: Mapping[Pair, float],
    initial: int,
    sizes: Mapping[int, Size],
    gap: tuple[float, float] = (46.0, 26.0),
) -> Layout:
    """Places for `states`, all reachable from `initial`.

    Args:
        states: the states.
        edges: width of the label of each edge between two different states.
        initial: where the layers begin.
        sizes: of the states' boxes.
        gap: least distance of two boxes, across and down.
    """
    backward = _backward(edges, initial)
    forward = [edge for edge in edges if edge not in backward]
    layer = _layers(states, forward, initial)
    grid, chains = _with_waypoints(states, forward, layer)
    for sweep in range(SWEEPS):
        _order(grid, chains, forth=sweep % 2 == 0)
    x = _columns(grid, sizes, edges, layer, gap[0])
    y, height = _rows(grid, sizes, gap[1])
    places = {state: (x[layer[state]], y[state]) for state in states}
    routes = {edge: Route((places[edge[0]], places[edge[1]]), True) for edge in backward}
    for edge, chain in chains.items():
        between = range(layer[edge[0]], layer[edge[1]] + 1)
        points = zip((x[each] for each in between), (y[node] for node in chain), strict=True)
        routes[edge] = Route(tuple(points), False)
    width = max(px + sizes[state].width / 2 for state, (px, _) in places.items())
    return Layout(places, routes, width, height)


def _backward(edges: Iterable[Pair], initial: int) -> set[Pair]:
    """Edges that close a cycle, found depth first from the start, without recursion."""
    following: dict[int, list[int]] = {}
    for source, target in edges:
        following.setdefault(source, []).append(target)
    found: set[Pair] = set()
    done: set[int] = set()
    open_ones = {initial}
    stack = [(initial, iter(following.get(initial, ())))]
    while stack:
        state, rest = stack[-1]
        below = next(rest, None)
        if below is None:
            stack.pop()
            open_ones.discard(state)
            done.add(state)
        elif below in open_ones:
            found.add((state, below))
        elif below not in done:
            open_ones.add(below)
            stack.append((below, iter(following.get(below, ()))))
    return found


def _layers(states: Sequence[int], edges: Sequence[Pair], initial: int) -> dict[int, int]:
    """The longest way from the start to each state."""
    waiting = dict.fromkeys(states, 0)
    following: dict[int, list[int]] = {}
    for source, target in edges:
        following.setdefault(source, []).append(target)
        waiting[target] += 1
    layer = dict.fromkeys(states, 0)
    ready = [initial, *(s for s in states if not waiting[s] and s != initial)]
    for state in ready:  # grows while it is read
        for target in following.get(state, ()):
            layer[target] = max(layer[target], layer[state] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return layer


Grid = list[list[int]]
"""Nodes by layer, from the top; a waypoint of a long edge is a negative number."""


def _with_waypoints(
    states: Sequence[int], edges: Sequence[Pair], layer: Mapping[int, int]
) -> tuple[Grid, dict[Pair, list[int]]]:
    """The grid, and the nodes that each edge passes, both ends included."""
    grid: Grid = [[] for _ in range(max(layer.values()) + 1)]
    for state in states:
        grid[layer[state]].append(state)
    chains: dict[Pair, list[int]] = {}
    last = 0
    for source, target in edges:
        chain = [source]
        for between in range(layer[source] + 1, layer[target]):
            last -= 1
            grid[between].append(last)
            chain.append(last)
        chains[source, target] = [*chain, target]
    return grid, chains


def _order(grid: Grid, chains: Mapping[Pair, list[int]], *, forth: bool) -> None:
    """Sorts each layer by the mean place of the neighbours in the layer before (or after)."""
    beside: dict[int, list[int]] = {}
    for chain in chains.values():
        for one, other in itertools.pairwise(chain):
            beside.setdefault(other if forth else one, []).append(one if forth else other)
    place = _shares(grid)
    for nodes in grid if forth else reversed(grid):
        wanted = {
            node: sum(place[each] for each in near) / len(near)
            for node in nodes
            if (near := beside.get(node))
        }
        nodes.sort(key=lambda node: wanted.get(node, place[node]))
        place |= _shares([nodes])


def _shares(grid: Grid) -> dict[int, float]:
    """Each node's place in its layer, 0 at the top to 1 at the bottom."""
    return {
        node: (index + 0.5) / len(nodes) for nodes in grid for index, node in enumerate(nodes)
    }


def _columns(
    grid: Grid,
    sizes: Mapping[int, Size],
    edges: Mapping[Pair, float],
    layer: Mapping[int, int],
    gap: float,
) -> list[float]:
    """The middle of each layer: wide enough for its boxes and the labels that leave it."""
    boxes = [
        max((sizes[node].width for node in nodes if node >= 0), default=0.0) for nodes in grid
    ]
    labels = [0.0] * len(grid)
    for (source, _), width in edges.items():
        labels[layer[source]] = max(labels[layer[source]], width)
    x, left = [], 0.0
    for box, label in zip(boxes, labels, strict=True):
        x.append(left + box / 2)
        left += box + label + gap
    return x


def _rows(grid: Grid, sizes: Mapping[int, Size], gap: float) -> tuple[dict[int, float], float]:
    """The middle of each node, layers centred on each other; and the whole height."""
    waypoint = Size(0.0, 12.0)
    heights = [
        sum(sizes.get(node, waypoint).height + gap for node in nodes) - gap for nodes in grid
    ]
    whole = max(heights)
    y: dict[int, float] = {}
    for nodes, height in zip(grid, heights, strict=True):
        top = (whole - height) / 2
        for node in nodes:
            own = sizes.get(node, waypoint).height
            y[node] = top + own / 2
            top += own + gap
    return y, whole
