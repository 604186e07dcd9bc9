"""The best merges of chains of overlapping calls, by dynamic programming.

Idea: a node is how far each chain has come, and the position there. What may follow depends on the
node alone, not on the merge that led to it. So each node keeps only the merges with the best number
of harms. Layer k holds the nodes after k calls. Of its best merges, a node keeps the one nearest to
the start order (`path`), and for all of them the last call and the node before it (`behind`).
order.py follows these links to combine several parts.

Bounds: a group has a budget of `MERGE_STEPS_MAX` steps. Up to `FEW` calls, every merge is tried whatever
the budget. For more calls, a layer keeps fewer of its nodes, the best ones, as the budget runs out;
once it is overdrawn by as much again, `_finish` goes on in start order. The node of the start order is never dropped.

Invariant: the result is a possible order and no worse than the start order. While `Merges.whole` is
True, no order is better.

Example: chains A (2 calls) and B (1 call) have the nodes (0,0), (1,0), (0,1), (2,0), (1,1), (2,1):
6 nodes for 3 merges. With 2 chains of 10 calls, 121 nodes stand for 184,756 merges.

Source: Held and Karp 1962, over chains instead of single calls; the bound is a beam search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.automaton.position import Position, StepEffect, Stepper
from monitor.session.overlap.chains import Chain, advanced, is_ready
from monitor.session.overlap.question_budget import QuestionBudget

__all__ = [
    "ENDS_MAX",
    "FEW",
    "MERGE_STEPS_MAX",
    "SEARCH_STEPS_MAX",
    "MergeNode",
    "Merges",
    "best_of",
    "merge",
    "ways_to",
]

ENDS_MAX: Final = 32
"""Limit of the ends that are listed: those with the best number of harms."""

FEW: Final = 6
"""Up to this many calls every order is tried: at most 720 orders."""

MERGE_STEPS_MAX: Final = 2_048
"""Budget of steps for a group of more than `FEW` calls. It may be overdrawn by as much: some milliseconds.
Eight calls of a task that all differ need half of it."""

SEARCH_STEPS_MAX: Final = 8_192
"""Budget of steps for a group of several parts, or one that is reached in several ways, for all of them: up to four have `MERGE_STEPS_MAX`
each. A late call has the groups behind it judged again, each in up to `ENDS_MAX` ways."""

_MANY: Final = 64
"""Number of calls above which the budget shrinks, since each arriving call has its group judged
again."""

_LAYER_STEPS: Final = 8
"""The cost of choosing the best nodes of a layer, in steps."""


class MergeNode:
    """How far the chains have come, where that leads, and by which merges."""

    __slots__ = ("ahead", "behind", "done", "harms", "path", "position")

    def __init__(
        self, done: tuple[int, ...], position: Position, harms: int, path: tuple[int, ...]
    ) -> None:
        self.done = done
        """Number of taken calls by chain."""
        self.position = position
        self.harms = harms
        self.path = path
        """The calls taken, as places, by the best merge that is nearest to the start order."""
        self.behind: list[tuple[int, MergeNode]] = []
        """Last call of each best merge and the node before it, during the search."""
        self.ahead: list[tuple[int, MergeNode]] = []
        """Next call of each best merge and the node after it, in the result of `ways_to`."""


_Layer = dict[tuple[tuple[int, ...], Position], MergeNode]


class Merges(NamedTuple):
    """The merges that were found."""

    ends: list[MergeNode]
    """The nodes after all calls, the best first, one for each position."""
    whole: bool
    """False if some merges were not tried."""


def best_of(merges: Merges) -> list[MergeNode]:
    """The ends with the best harms."""
    wanted = merges.ends[0].harms
    return [end for end in merges.ends if end.harms == wanted]


def merge(
    stepper: Stepper,
    position: Position,
    chains: Sequence[Chain],
    *,
    strict: bool,
    steps: int = MERGE_STEPS_MAX,
    budget: QuestionBudget | None = None,
) -> Merges:
    """Finds the merges with the fewest harms, or with the most for a strict spec.

    Of a `budget`, no more is taken than is left, but for what may be overdrawn; likewise of `steps`.
    """
    by_start = sorted(
        (place, number) for number, chain in enumerate(chains) for place in chain.places
    )
    count, width = len(by_start), 2 * len(chains)
    left = most = min(steps, MERGE_STEPS_MAX * _MANY // max(count, _MANY))
    if budget is not None:
        left = most = min(most, max(0, budget.group_steps))
    plain = MergeNode((0,) * len(chains), position, 0, ())
    layer: _Layer = {(plain.done, position): plain}
    whole = True
    for _, number in by_start:
        if left < -most:
            # The node of the start order is in this layer, so the start order is tried, too.
            return _finish(stepper, layer, chains, strict=strict)
        before, layer, begun = layer, {}, left
        for node in before.values():
            left -= _step(stepper, node, chains, layer, strict=strict)
        if budget is not None:
            budget.group_steps -= begun - left
        if count > FEW:
            left -= _LAYER_STEPS
            end, _ = stepper.step(plain.position, chains[number].token)
            plain = layer[advanced(plain.done, number), end]
            room = max(1, left // width, most // (count * width))
            if len(layer) > room:
                layer, whole = _best(layer, room, plain, strict=strict), False
    return Merges(sorted(layer.values(), key=_harms_of, reverse=strict), whole)


def _harms_of(node: MergeNode) -> int:
    return node.harms


def ways_to(ends: Sequence[MergeNode]) -> MergeNode:
    """The best merges that lead to some ends: the first node of a copy that is linked forwards."""
    layer = list(ends)
    twins = {id(end): _twin(end) for end in ends}
    while True:
        earlier: list[MergeNode] = []
        for node in layer:
            for place, before in node.behind:
                twin = twins.get(id(before))
                if twin is None:
                    twin = twins[id(before)] = _twin(before)
                    earlier.append(before)
                twin.ahead.append((place, twins[id(node)]))
        if not earlier:
            return twins[id(layer[0])]
        layer = earlier


def _twin(node: MergeNode) -> MergeNode:
    return MergeNode(node.done, node.position, node.harms, node.path)


def _finish(
    stepper: Stepper,
    layer: _Layer,
    chains: Sequence[Chain],
    *,
    strict: bool,
) -> Merges:
    """Goes on from each node of the last layer in start order, and keeps the best result alone."""
    best: tuple[int, Position, MergeNode, list[int]] | None = None
    for node in layer.values():
        todo = sorted(
            (place, chain.token)
            for chain, done in zip(chains, node.done, strict=True)
            for place in chain.places[done:]
        )
        harms, end = node.harms, node.position
        for _, token in todo:
            end, effect = stepper.step(end, token)
            harms += effect is StepEffect.HARMFUL
        if best is None or (harms > best[0] if strict else harms < best[0]):
            best = (harms, end, node, [place for place, _ in todo])
    assert best is not None
    harms, end, node, rest = best
    way: list[int] = []
    behind = node
    while behind.behind:
        place, behind = behind.behind[0]
        way.append(place)
    path = (*reversed(way), *rest)
    last = MergeNode((), behind.position, 0, ())
    for count, place in enumerate(path, 1):
        node = MergeNode((), end, harms, path[:count])
        node.behind.append((place, last))
        last = node
    return Merges([last], False)


def _step(
    stepper: Stepper, node: MergeNode, chains: Sequence[Chain], layer: _Layer, *, strict: bool
) -> int:
    """Takes the next call of each chain that may go on. Returns the number of these chains."""
    done, position, path, steps = node.done, node.position, node.path, 0
    for number, (token, places, needs) in enumerate(chains):
        taken = done[number]
        if taken == len(places) or (needs[taken] and not is_ready(needs[taken], done)):
            continue
        steps += 1
        end, effect = stepper.step(position, token)
        harms = node.harms + 1 if effect is StepEffect.HARMFUL else node.harms
        after = advanced(done, number)
        place = places[taken]
        known = layer.get((after, end))
        if known is None:
            known = layer[after, end] = MergeNode(after, end, harms, (*path, place))
        elif known.harms != harms:
            if (harms > known.harms) != strict:
                continue
            known.harms, known.behind, known.path = harms, [], (*path, place)
        else:
            known.path = min(known.path, (*path, place))
        known.behind.append((place, node))
    return steps


def _best(layer: _Layer, room: int, plain: MergeNode, *, strict: bool) -> _Layer:
    """The nodes with the best number of harms, and the node of the start order."""
    kept = sorted(layer.items(), key=lambda each: each[1].harms, reverse=strict)[:room]
    return {**dict(kept), (plain.done, plain.position): plain}
