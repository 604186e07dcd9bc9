"""The best of the orders that chains of overlapping calls can be merged in.

A program over how far each chain has come. Where that is too much, the best of what was found so
far is gone on with, at last in the order of the starts: what is taken then is an order that may
have been and no worse than that of the starts, but there may be a better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.automaton.position import Outcome, Position, Stepper
from monitor.session.overlap.chains import Chain

__all__ = ["ENDS_MAX", "FEW", "STEPS_MAX", "End", "Merges", "Node", "merge"]

ENDS_MAX: Final = 32
"""So many ends are told, at most: those with the best harms."""

FEW: Final = 6
"""So few calls are tried in each order, whatever they are: that is 720."""

STEPS_MAX: Final = 2_048
"""Of more calls, so many steps are taken among all that seems good, and as many behind the best of
it: some milliseconds. A task's eight calls that all differ need half of them."""

_MANY: Final = 64
"""Of more calls than this the fewer steps are taken: each that arrives has its group judged anew."""

_LAYER_STEPS: Final = 8
"""What it takes to choose the best of a layer, in steps."""


class Node:
    """So far the chains have come, and where that has led at best."""

    __slots__ = ("ahead", "behind", "done", "harms", "position")

    def __init__(self, done: tuple[int, ...], position: Position, harms: int) -> None:
        self.done = done
        self.position = position
        self.harms = harms
        self.behind: list[tuple[int, Node]] = []
        """While it is looked for: the call that has led here, and from where."""
        self.ahead: list[tuple[int, Node]] = []
        """The calls that the best orders go on with, and where they lead."""


_Layer = dict[tuple[tuple[int, ...], Position], Node]


class End(NamedTuple):
    """Where merges may end, and the best of those that end there."""

    position: Position
    harms: int
    first: Node
    """Where they begin, none but them."""


class Merges(NamedTuple):
    """The merges that were found."""

    first: Node
    """Where the best begin."""
    ends: list[Position]
    """Where the best end."""
    whole: bool
    """False where others were left out."""
    every: list[End]
    """Where any end, the best first, at most ENDS_MAX."""


def merge(
    stepper: Stepper, position: Position, chains: Sequence[Chain], *, strict: bool
) -> Merges:
    """The merges with the fewest harms, or for a strict spec with the most."""
    by_start = sorted(
        (place, number) for number, chain in enumerate(chains) for place in chain.places
    )
    count, width = len(by_start), 2 * len(chains)
    left = most = STEPS_MAX * _MANY // max(count, _MANY)
    first = plain = Node((0,) * len(chains), position, 0)
    layers: list[_Layer] = [{(first.done, position): first}]
    whole = True
    for _, number in by_start:
        if left < -most:
            # The plain one is among the last layer's, so what it leads to is tried, too.
            return _finish(stepper, layers[-1], chains, strict=strict)
        layer: _Layer = {}
        for node in layers[-1].values():
            left -= _step(stepper, node, chains, layer, strict=strict)
        if count > FEW:
            left -= _LAYER_STEPS
            end, _ = stepper.step(plain.position, chains[number].token)
            plain = layer[_moved(plain.done, number), end]
            room = max(1, left // width, most // (count * width))
            if len(layer) > room:
                layer, whole = _best(layer, room, plain, strict=strict), False
        layers.append(layer)
    last = sorted(layers[-1].values(), key=_harms_of, reverse=strict)
    every = [End(node.position, node.harms, _alone(node)) for node in last[:ENDS_MAX]]
    return Merges(first, _mark(layers, strict=strict), whole, every)


def _harms_of(node: Node) -> int:
    return node.harms


def _alone(end: Node) -> Node:
    """A copy of the best ways to one end, from where they begin."""
    twins = {id(end): Node(end.done, end.position, end.harms)}
    layer = [end]
    while True:
        earlier: list[Node] = []
        for node in layer:
            for place, before in node.behind:
                twin = twins.get(id(before))
                if twin is None:
                    twin = twins[id(before)] = Node(before.done, before.position, before.harms)
                    earlier.append(before)
                twin.ahead.append((place, twins[id(node)]))
        if not earlier:
            return twins[id(layer[0])]
        layer = earlier


def _finish(
    stepper: Stepper,
    layer: _Layer,
    chains: Sequence[Chain],
    *,
    strict: bool,
) -> Merges:
    """Goes on from the last layer in the order of the starts, and keeps the best way alone."""
    best: tuple[int, Position, Node, list[int]] | None = None
    for node in layer.values():
        todo = sorted(
            (place, chain.token)
            for chain, done in zip(chains, node.done, strict=True)
            for place in chain.places[done:]
        )
        harms, end = node.harms, node.position
        for _, token in todo:
            end, outcome = stepper.step(end, token)
            harms += outcome is Outcome.HARMFUL
        if best is None or (harms > best[0] if strict else harms < best[0]):
            best = (harms, end, node, [place for place, _ in todo])
    assert best is not None
    harms, end, node, rest = best
    way: list[int] = []
    behind = node
    while behind.behind:
        place, behind = behind.behind[0]
        way.append(place)
    start = Node((), behind.position, 0)
    last = start
    for place in (*reversed(way), *rest):
        node = Node((), end, 0)
        last.ahead.append((place, node))
        last = node
    return Merges(start, [end], False, [End(end, harms, start)])


def _moved(done: tuple[int, ...], number: int) -> tuple[int, ...]:
    return (*done[:number], done[number] + 1, *done[number + 1 :])


def _step(
    stepper: Stepper, node: Node, chains: Sequence[Chain], layer: _Layer, *, strict: bool
) -> int:
    """Takes the next call of each chain that may come next: how many that are."""
    done, position, steps = node.done, node.position, 0
    for number, (token, places, needs) in enumerate(chains):
        taken = done[number]
        if taken == len(places) or (needs[taken] and not _ready(needs[taken], done)):
            continue
        steps += 1
        end, outcome = stepper.step(position, token)
        harms = node.harms + 1 if outcome is Outcome.HARMFUL else node.harms
        after = _moved(done, number)
        known = layer.get((after, end))
        if known is None:
            known = layer[after, end] = Node(after, end, harms)
        elif known.harms != harms:
            if (harms > known.harms) != strict:
                continue
            known.harms, known.behind = harms, []
        known.behind.append((places[taken], node))
    return steps


def _ready(needs: tuple[tuple[int, int], ...], done: tuple[int, ...]) -> bool:
    for number, least in needs:  # noqa: SIM110 - `all` makes a generator
        if done[number] < least:
            return False
    return True


def _best(layer: _Layer, room: int, plain: Node, *, strict: bool) -> _Layer:
    """Those with the best harms, and that of the order of the starts."""
    kept = sorted(layer.items(), key=lambda each: each[1].harms, reverse=strict)[:room]
    return {**dict(kept), (plain.done, plain.position): plain}


def _mark(layers: Sequence[_Layer], *, strict: bool) -> list[Position]:
    """Tells the nodes of the best ways what lies ahead; where these ways end.

    What lies behind is forgotten, so that no node refers to itself by way of others.
    """
    last = layers[-1].values()
    wanted = (max if strict else min)(node.harms for node in last)
    best = [node for node in last if node.harms == wanted]
    ends = [node.position for node in best]
    while best:
        earlier: list[Node] = []
        for node in best:
            behind, node.behind = node.behind, []
            for place, before in behind:
                if not before.ahead:
                    earlier.append(before)
                before.ahead.append((place, node))
        best = earlier
    return ends
