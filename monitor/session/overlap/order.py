"""Overlapping calls: which orders they may have had, and which order is taken.

Idea: the times of overlapping siblings do not say in which order they took effect. Every order that
keeps "ended before it started" may be the true one. A task takes the order with the fewest harms, a
strict policy the order with the most. Of equals, the order nearest to the start order is taken.
`Order.every` lists all ends, which `monitor.session.judge.run` goes on from.

Most orders need not be tried:

- A call that no constraint sees may stand anywhere (`free`). So may the calls of a part that are all
  alike.
- Calls are split into *parts* so that no constraint sees calls of two parts. Each part is ordered by
  itself. Orders of parts can always be merged. Proof: in part 1, `a` ended before `b` started; in
  part 2, `c` ended before `d` started. Then `a` ended before `d` started, or `c` ended before `b`
  started. So no cycle can arise (Fishburn 1970, interval orders).
- Within a part, alike calls form chains (`chains.py`), and orders are merges of chains
  (`chain_merges.py`).

Invariant: while `Order.whole` is True, the result equals that of trying every order. Otherwise the
order taken is a possible one and no worse than the start order. A strict policy then searches each
constraint alone (`broken`), so a harm that a single constraint proves is found.

Example: `open`, `read` and `close` overlap, and the task allows them in this order only. They
arrive as `close`, `open`, `read`. One of the six orders has no harm, so no call is harmful. If `open`
ended before `read` and `close` started, only two of the six orders are possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, NamedTuple

from monitor.automaton.position import Position, StepEffect, Stepper
from monitor.session.overlap.chain_merges import (
    ENDS_MAX,
    MERGE_STEPS_MAX,
    SEARCH_STEPS_MAX,
    MergeNode,
    Merges,
    best_of,
    merge,
    ways_to,
)
from monitor.session.overlap.chains import Spans, chained
from monitor.session.overlap.question_budget import QuestionBudget
from monitor.spec.constraints import SideBySide

__all__ = ["CONSTRAINTS_MAX", "GroupEnd", "Order", "broken", "order", "parts"]

CONSTRAINTS_MAX: Final = 32
"""Limit of the constraints that are searched one by one."""

JOINED_MAX: Final = 256
"""Limit of the combined ends of a group's parts. Beyond it, the group may lead to any state."""


class GroupEnd(NamedTuple):
    """An end of a group, and the best order that leads there; of equals the nearest to the start order."""

    position: Position
    harms: int
    places: tuple[int, ...]


class Order(NamedTuple):
    """The order taken, as places in the group, and where the group may end."""

    places: tuple[int, ...]
    end: Position
    whole: bool
    """False if there were too many orders to try all of them."""
    every: tuple[GroupEnd, ...] = ()
    """All ends of the group, by any order. If there are too many to list: those with the best
    number of harms."""
    listed: bool = True
    """False if there may be others."""


def order(
    stepper: Stepper,
    position: Position,
    tokens: Sequence[int],
    spans: Spans,
    *,
    strict: bool,
    steps: int = SEARCH_STEPS_MAX,
    budget: QuestionBudget | None = None,
) -> Order:
    """The order in which a group is judged.

    Args:
        stepper: of the spec.
        position: the position before the group.
        tokens: of the calls, in start order.
        spans: of the calls (`spans_of`).
        strict: True looks for the most harms instead of the fewest.
        steps: what the search may take, over all parts.
        budget: is charged for the work. Once it is used up, the start order is taken.

    Returns:
        The best order, of equals the one nearest to the start order. `end` is the end of this
        order if `strict`, else the union of the ends of all best orders.
    """
    if not tokens:
        return Order((), position, True, (GroupEnd(position, 0, ()),))
    if budget is not None and budget.group_steps <= 0:
        return _as_started(stepper, position, tokens)
    found = _ordered(
        stepper, position, tokens, spans, strict=strict, steps=steps, budget=budget
    )
    if budget is not None:
        budget.group_steps -= len(tokens) * len(found.every)
    return found


def _as_started(stepper: Stepper, position: Position, tokens: Sequence[int]) -> Order:
    """The start order, without a search for others."""
    places = tuple(range(len(tokens)))
    harms, end = _walk(stepper, position, tokens, places)
    return Order(places, end, False, (GroupEnd(end, harms, places),), False)


def _ordered(
    stepper: Stepper,
    position: Position,
    tokens: Sequence[int],
    spans: Spans,
    *,
    strict: bool,
    steps: int,
    budget: QuestionBudget | None,
) -> Order:
    found = _searched(
        stepper, position, tokens, spans, strict=strict, steps=steps, budget=budget
    )
    if found.whole or not strict:
        return found
    # A constraint that refuses no call of the group cannot cause a harm in it: fewer orders are left to try.
    kinds = [stepper.kinds[token] for token in tokens]
    heeded = _refusing(stepper, position, kinds)
    fewer = _searched(
        stepper,
        position,
        tokens,
        spans,
        strict=strict,
        heeded=heeded,
        steps=steps,
        budget=budget,
    )._replace(listed=False)
    if _walk(stepper, position, tokens, fewer.places).harms:
        return fewer
    return broken(stepper, position, tokens, spans, steps, budget) or fewer


def broken(
    stepper: Stepper,
    position: Position,
    tokens: Sequence[int],
    spans: Spans,
    steps: int = SEARCH_STEPS_MAX,
    budget: QuestionBudget | None = None,
) -> Order | None:
    """An order with a harm, if the search was cut and has found none; None if there is none here.

    A constraint refuses the first harmful call of an order whether or not there are other
    constraints. So each constraint is searched alone. It sees few kinds of calls, so few orders.
    """
    machine = stepper.machine
    if not isinstance(machine, SideBySide) or not isinstance(position, int):
        return None
    refusing, tried = _refusing(stepper, position, tokens), 0
    for constraint, digit in enumerate(machine.digits(position)):
        if not refusing >> constraint & 1 or tried == CONSTRAINTS_MAX:
            continue
        tried += 1
        lone = stepper.under(machine.alone(constraint))
        searched = _searched(
            lone, digit, tokens, spans, strict=True, steps=steps, budget=budget
        )
        places = searched.places
        walked = _walk(stepper, position, tokens, places)
        if walked.harms:
            reached = (GroupEnd(walked.end, walked.harms, places),)
            return Order(places, walked.end, False, reached, False)
    return None


def _refusing(stepper: Stepper, position: Position, tokens: Sequence[int]) -> int:
    """Bit mask of the constraints that may refuse one of the calls; -1 (all) if that is uncertain."""
    machine = stepper.machine
    if not isinstance(machine, SideBySide) or not isinstance(position, int):
        return -1
    if any(stepper.heeds[token] < 0 for token in tokens):
        return -1
    symbols = {symbol for token in set(tokens) for symbol in stepper.readings(token)}
    return machine.refusing(position, symbols, len(tokens))


class _Walk(NamedTuple):
    harms: int
    end: Position


def _walk(
    stepper: Stepper, position: Position, tokens: Sequence[int], places: Iterable[int]
) -> _Walk:
    """The number of harmful calls of an order, and its end."""
    harms = 0
    for place in places:
        position, effect = stepper.step(position, tokens[place])
        harms += effect is StepEffect.HARMFUL
    return _Walk(harms, position)


def _searched(
    stepper: Stepper,
    position: Position,
    tokens: Sequence[int],
    spans: Spans,
    *,
    strict: bool,
    heeded: int = -1,
    steps: int = SEARCH_STEPS_MAX,
    budget: QuestionBudget | None = None,
) -> Order:
    kinds = [stepper.kinds[token] for token in tokens]
    free: list[int] = []
    ends: list[list[Position]] = []
    found: list[Merges] = []
    split = parts(stepper, position, kinds, heeded, free)
    mixed = sum(not _alike(places, kinds) for places in split)
    steps = min(MERGE_STEPS_MAX, steps // max(mixed, 1))
    for places in split:
        if _alike(places, kinds):
            free += places
            if not strict:
                ends.append([_walk(stepper, position, tokens, places).end])
        else:
            chains = chained(places, kinds, spans)
            found.append(
                merge(stepper, position, chains, strict=strict, steps=steps, budget=budget)
            )
    if len(found) == 1 and not free:
        return _only(stepper, found[0], strict=strict)
    taken = _taken(spans, sorted(free), [ways_to(best_of(each)) for each in found])
    if strict:
        end = _walk(stepper, position, tokens, taken).end
    else:
        best = [[node.position for node in best_of(each)] for each in found]
        end = _joined(stepper, position, [*ends, *best])
    every = _reached(stepper, position, tokens, spans, sorted(free), found, strict=strict)
    whole, combined = all(each.whole for each in found), prod(len(each.ends) for each in found)
    return Order(taken, end, whole, every, whole and combined <= ENDS_MAX)


def _only(stepper: Stepper, merges: Merges, *, strict: bool) -> Order:
    """The result if all calls are in one part: the search has found their places already."""
    best = best_of(merges)
    taken = min(best, key=_path_of)
    end = taken.position if strict else stepper.union(node.position for node in best)
    every = [GroupEnd(node.position, node.harms, node.path) for node in merges.ends[:ENDS_MAX]]
    listed = merges.whole and len(merges.ends) <= ENDS_MAX
    return Order(taken.path, end, merges.whole, tuple(every), listed)


def _path_of(node: MergeNode) -> tuple[int, ...]:
    return node.path


def _reached(
    stepper: Stepper,
    position: Position,
    tokens: Sequence[int],
    spans: Spans,
    free: Sequence[int],
    found: Sequence[Merges],
    *,
    strict: bool,
) -> tuple[GroupEnd, ...]:
    """The ends of all parts combined, each with its best order."""
    sign = -1 if strict else 1
    together: list[tuple[int, list[MergeNode]]] = [(0, [])]
    for part in found:
        begun = [(end.harms, ways_to([end])) for end in part.ends[:ENDS_MAX]]
        more = [
            (harms + sign * own, [*nodes, first])
            for harms, nodes in together
            for own, first in begun
        ]
        more.sort(key=_first_of)
        together = more[:ENDS_MAX]
    best: dict[Position, tuple[int, tuple[int, ...]]] = {}
    for _, nodes in together:
        places = _taken(spans, free, list(nodes))
        harms, end = _walk(stepper, position, tokens, places)
        known = best.get(end)
        if known is None or (sign * harms, places) < (sign * known[0], known[1]):
            best[end] = harms, places
    return tuple(GroupEnd(end, harms, places) for end, (harms, places) in best.items())


def _first_of(each: tuple[int, list[MergeNode]]) -> int:
    return each[0]


def parts(
    stepper: Stepper,
    position: Position,
    kinds: Sequence[int],
    heeded: int,
    free: list[int],
) -> list[list[int]]:
    """Splits calls into parts so that no heeded constraint sees calls of two parts.

    Calls that no heeded constraint sees are added to `free`. If the position is uncertain, every
    call may depend on every other.
    """
    single = isinstance(position, int)
    found: list[tuple[int, list[int]]] = []
    for place, kind in enumerate(kinds):
        heeds = stepper.heeds[kind] & heeded
        if not heeds:
            free.append(place)
            continue
        if not single:
            heeds = -1
        places = [place]
        apart: list[tuple[int, list[int]]] = []
        for other in found:
            if other[0] & heeds:
                heeds |= other[0]
                places += other[1]
            else:
                apart.append(other)
        found = [*apart, (heeds, places)]
    return [sorted(places) for _, places in found]


def _alike(places: Sequence[int], kinds: Sequence[int]) -> bool:
    return all(kinds[place] == kinds[places[0]] for place in places)


def _taken(spans: Spans, free: Sequence[int], nodes: list[MergeNode]) -> tuple[int, ...]:
    """Merges free calls and parts into the order nearest to the start order.

    Args:
        spans: of all calls.
        free: places of calls that may stand anywhere, in start order.
        nodes: the first node of each part's merges (`ways_to`).
    """
    count = len(spans.rank)
    places: list[int] = []
    taken = [False] * count
    # `over`: how many of the first calls of `by_end` are taken. `freed`: how many of `free`.
    over = freed = 0
    while len(places) < count:
        best, at = count, -1
        if freed < len(free) and spans.ended[free[freed]] <= over:
            best = free[freed]
        for number, node in enumerate(nodes):
            for place, _ in node.ahead:
                if place < best and spans.ended[place] <= over:
                    best, at = place, number
        if at < 0:
            freed += 1
        else:
            nodes[at] = next(node for place, node in nodes[at].ahead if place == best)
        places.append(best)
        taken[best] = True
        while over < count and taken[spans.by_end[over]]:
            over += 1
    return tuple(places)


def _joined(
    stepper: Stepper, position: Position, ends: Sequence[Sequence[Position]]
) -> Position:
    """The union of the positions behind parts that do not influence each other."""
    if len(ends) == 1:
        return stepper.union(ends[0])
    # There are several parts only at a certain state. Each part changes its own share of the number.
    found = [position]
    for each in ends:
        found = [_moved(before, position, end) for before in found for end in each]
        if len(found) > JOINED_MAX:
            return stepper.anywhere()
    return stepper.union(found)


def _moved(before: Position, start: Position, end: Position) -> Position:
    assert isinstance(before, int)
    assert isinstance(start, int)
    assert isinstance(end, int)
    return before + end - start
