"""Calls that overlap: which orders they may have had, and which of them is taken.

Siblings whose times overlap have no order of their own. Any order that keeps "ended before it
started" may have been the true one. A task takes the order with the fewest harms and goes on from
every state such an order can end in; a strict policy takes the order with the most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.automaton.position import Outcome, Position, Stepper, union

__all__ = ["SIBLINGS_MAX", "Order", "order"]

SIBLINGS_MAX: Final = 6
"""Of more overlapping calls than this the start order is taken: 720 orders are enough."""


class Order(NamedTuple):
    """The order taken, as places in the group, and where it may lead."""

    places: tuple[int, ...]
    end: Position


class _Path(NamedTuple):
    harms: int
    places: tuple[int, ...]


def order(
    stepper: Stepper,
    position: Position,
    tokens: Sequence[int],
    times: Sequence[tuple[int, int]],
    *,
    strict: bool,
) -> Order:
    """The order a group is judged in.

    Args:
        stepper: of the spec.
        position: before the group.
        tokens: of the calls, in start order.
        times: (start, end) of each call.
        strict: the most harms instead of the fewest.

    Returns:
        The best order, of equals the one nearest to the start order; and its end. For the fewest
        harms the end is the union over all best orders.
    """
    found = _paths(stepper, position, tokens, _after(times), strict=strict)
    wanted = (max if strict else min)(path.harms for path in found.values())
    best = {end: path for end, path in found.items() if path.harms == wanted}
    places = min(path.places for path in best.values())
    if strict:
        return Order(places, next(end for end, path in best.items() if path.places == places))
    return Order(places, union(best))


def _after(times: Sequence[tuple[int, int]]) -> list[int]:
    """For each call the bit mask of those that ended before it started.

    Only calls before it in start order can have; of two calls at one instant the first has.
    """
    return [
        sum(1 << place for place, (_, end) in enumerate(times[:own]) if end <= start)
        for own, (start, _) in enumerate(times)
    ]


def _paths(
    stepper: Stepper,
    position: Position,
    tokens: Sequence[int],
    after: Sequence[int],
    *,
    strict: bool,
) -> dict[Position, _Path]:
    """A program over subsets: the best path to each end position."""
    layer: dict[tuple[int, Position], _Path] = {(0, position): _Path(0, ())}
    for _ in tokens:
        following: dict[tuple[int, Position], _Path] = {}
        for (done, before), path in layer.items():
            for place, token in enumerate(tokens):
                if done >> place & 1 or after[place] & ~done:
                    continue
                end, outcome = stepper.step(before, token)
                harms = path.harms + (outcome is Outcome.HARMFUL)
                step = _Path(harms, (*path.places, place))
                key = (done | 1 << place, end)
                known = following.get(key)
                if known is None or _better(step, known, strict=strict):
                    following[key] = step
        layer = following
    return {end: path for (_, end), path in layer.items()}


def _better(one: _Path, other: _Path, *, strict: bool) -> bool:
    if one.harms != other.harms:
        return (one.harms > other.harms) == strict
    return one.places < other.places
