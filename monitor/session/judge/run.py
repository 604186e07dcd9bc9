"""The state of a judgement after a prefix of the calls: position, tally, and ways through overlaps.

Idea: for calls in sequence, an `AutomatonRun` is one position and one tally, and `step` costs O(1). The orders
of overlapping calls may end in different states, and only later calls show which order is best for
the whole session. So a run keeps one *way* (an `AutomatonRun` of its own) for each end state, at most
`ENDS_MAX`.

Invariants:

- Each way is the best by which its position may have been reached: with the fewest harms, or with
  the most where the spec is strict. Of two ways at one position only the better one can win, so
  `_choose` drops the other.
- A call is harmful if the least number of harms over all ways rises (strict: the greatest). So a
  verdict does not depend on later calls.
- The tally is that of the best way, the first of equals. So the scored path is always one of the
  best, and of these the one nearest to the start order.

Example: in state s, `a` leads to t and `b` leads to u; t and u refuse the other call. If `a` and
`b` overlap, each order has one harm. The run keeps two ways: at t and at u, one harm each. If the
next call is `c`, which only u allows, the least number of harms stays 1: the call is not harmful,
and the way at u is taken from now on. Its lineage says which order of the group that was.

Source: dynamic programming over end states, as in the Viterbi algorithm;
docs/decisions/0006-search-over-orders.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mypy_extensions import mypyc_attr

from monitor.automaton.position import Position, StepEffect, Stepper
from monitor.reference.comparison import ComparisonState
from monitor.scores.running_scores import HarmTally
from monitor.session.judge.episodes import EpisodesTally
from monitor.session.judge.judge import (
    CONTROL,
    CONTROL_TOKEN,
    FAILED,
    HARMFUL,
    PROGRESS,
    SELF_LOOP,
    Judge,
    code_of,
)
from monitor.session.overlap.chain_merges import ENDS_MAX, SEARCH_STEPS_MAX
from monitor.session.overlap.order import Order
from monitor.session.overlap.question_budget import QuestionBudget

__all__ = ["AutomatonRun", "GroupPlan", "Lineage"]


@mypyc_attr(acyclic=True)
class AutomatonRun:
    """Position, tally and progressed symbols after some prefix of the calls.

    After overlapping calls that may have led to several positions, `ways` has a run for each of them.
    The first ways stand for the orders nearest to the start order.
    """

    __slots__ = (
        "exact",
        "lineage",
        "position",
        "progressed",
        "tally",
        "tracing",
        "watched",
        "ways",
        "whole",
    )

    def __init__(
        self,
        position: Position,
        tally: HarmTally,
        progressed: int = 0,
        *,
        exact: bool = True,
        watched: ComparisonState | None = None,
    ) -> None:
        self.position = position
        """The states that the session may be in, by its best ways."""
        self.tally = tally
        """The tally of the way taken, which is the best one."""
        self.progressed = progressed
        self.exact = exact
        self.whole = True
        """False if ends of overlapping calls were left out, because there were too many."""
        self.tracing = False
        """True if ways keep their lineages. Then a single way is kept in `ways`, too."""
        self.watched = watched
        """The session's state in the comparison with a reference."""
        self.ways: list[AutomatonRun] | None = None
        """A run for each end state of overlapping calls; None while there is only one."""
        self.lineage: Lineage | None = None

    @property
    def things_count(self) -> int:
        """Things that it is of; 0 without `each`."""
        return 0

    def copy(self) -> AutomatonRun:
        watched = self.watched.copy() if self.watched is not None else None
        twin = AutomatonRun(
            self.position, self.tally, self.progressed, exact=self.exact, watched=watched
        )
        twin.whole = self.whole
        ways = self.ways
        if ways is None:
            twin.tally = self.tally.copy()
            return twin
        twin.ways = [way.copy() for way in ways]
        for way, other in zip(ways, twin.ways, strict=True):
            if way.tally is self.tally:
                twin.tally = other.tally
        return twin

    def step(self, judge: Judge, token: int) -> int:
        """Takes one call and returns its code (`monitor.session.judge.judge.CODES`)."""
        if token == CONTROL_TOKEN:
            return CONTROL
        if self.watched is not None and judge.comparison is not None:
            judge.comparison.step(self.watched, token)
            self.tally.self_loop()
            return SELF_LOOP
        if self.ways is not None:
            return self._step_ways(judge, token, self.ways)
        if judge.once is not None and judge.opens(self.position, token):
            self._start_episode(judge.once.initial)
        before = self.position
        self.position, effect = judge.stepper.step(before, token)
        if token >= judge.plain and not judge.spec.alphabet.tokens[token].exact:
            self.exact = False
        if effect is StepEffect.PROGRESS:
            self.tally.progress()
            if token < judge.plain:
                self.progressed |= 1 << token
            return PROGRESS
        if effect is StepEffect.SELF_LOOP:
            self.tally.self_loop()
            return SELF_LOOP if judge.spec.alphabet.tokens[token].effect else FAILED
        self.tally.harmful()
        return code_of(judge.reason(before, token, self.progressed))

    def peek(self, judge: Judge, token: int) -> int:
        """The code that `step` would return. Changes nothing."""
        if token == CONTROL_TOKEN:
            return CONTROL
        if self.ways is not None:
            return self.copy().step(judge, token)
        position, progressed = self.position, self.progressed
        if judge.once is not None and judge.opens(position, token):
            progressed = 0
            if isinstance(position, int):
                position = judge.once.initial
        _, effect = judge.stepper.step(position, token)
        if effect is StepEffect.PROGRESS:
            return PROGRESS
        if effect is StepEffect.SELF_LOOP:
            return SELF_LOOP if judge.spec.alphabet.tokens[token].effect else FAILED
        return code_of(judge.reason(position, token, progressed))

    def _start_episode(self, initial: int) -> None:
        assert isinstance(self.tally, EpisodesTally)
        self.tally.start_episode()
        self.progressed = 0
        if isinstance(self.position, int):
            # An uncertain position is stepped by the machine of many episodes (`looped`).
            self.position = initial

    # --- several ways ---------------------------------------------------------------------------

    def judged_at(self, judge: Judge, token: int) -> Position:
        """The position by which the next call is judged."""
        ways = self.ways
        if ways is None or not judge.strict or token == CONTROL_TOKEN:
            return self.position
        worst = self.tally.harmful_steps
        for way in ways:
            if way.tally.harmful_steps == worst and way.is_harmed(judge, token):
                return way.position
        return self.position

    def is_harmed(self, judge: Judge, token: int) -> bool:
        """True if the next call would be harmful."""
        ways = self.ways
        if ways is None:
            _, effect = judge.stepper.step(self.position, token)
            return effect is StepEffect.HARMFUL
        best = self.tally.harmful_steps
        harmed = [
            way.is_harmed(judge, token) for way in ways if way.tally.harmful_steps == best
        ]
        return any(harmed) if judge.strict else all(harmed)

    def scatter(self, position: Position) -> None:
        """Sets the position, since calls may be missing here: the way taken goes on from it alone."""
        self.position = position
        self._keep_one(position)

    def reach(self, stepper: Stepper, symbols: tuple[int, ...]) -> None:
        """Moves on to every state that missing calls of some symbols may have led to, by every way."""
        self.exact = False
        ways = self.ways
        if ways is None:
            self.position = stepper.reach(self.position, symbols)
            return
        best = self.tally.harmful_steps
        reached = [stepper.reach(way.position, symbols) for way in ways]
        # In a strict spec the way taken has the most harms: what the others lead to costs no more.
        behind = [max(0, way.tally.harmful_steps - best) for way in ways]
        self.scatter(stepper.union(reached, behind))

    def _step_ways(self, judge: Judge, token: int, ways: list[AutomatonRun]) -> int:
        best, progressed = self.tally.harmful_steps, self.progressed
        before = self.judged_at(judge, token)
        codes: list[int] = []
        kept = -1
        for way in ways:
            was_best = way.tally.harmful_steps == best
            code = way.step(judge, token)
            codes.append(code)
            if was_best and code < HARMFUL and kept < 0:
                kept = code
        self._choose(judge, ways)
        if self.tally.harmful_steps != best:
            return code_of(judge.reason(before, token, progressed))
        # Not harmful: some best way was not harmed, or, if strict, none was.
        return kept

    def _choose(self, judge: Judge, ways: list[AutomatonRun]) -> None:
        """Keeps the best way to each position, and takes the best of all."""
        sign = -1 if judge.strict else 1
        best: dict[Position, AutomatonRun] = {}
        for way in ways:
            known = best.get(way.position)
            if (
                known is None
                or sign * way.tally.harmful_steps < sign * known.tally.harmful_steps
            ):
                best[way.position] = way
        if len(best) < len(ways):
            ways = [way for way in ways if best[way.position] is way]
        taken = _taken(ways, sign)
        least = taken.tally.harmful_steps
        self.ways, self.tally, self.progressed = ways, taken.tally, taken.progressed
        self.exact = self.exact and taken.exact
        if judge.strict:
            self.position = taken.position
        else:
            self.position = judge.stepper.union(
                way.position for way in ways if way.tally.harmful_steps == least
            )
            if any(not isinstance(way.position, int) for way in ways):
                # Calls with several readings, in several orders: one uncertain position holds both.
                self.position = judge.stepper.union(
                    [way.position for way in ways],
                    [way.tally.harmful_steps - least for way in ways],
                )
                self._keep_one(self.position)
        if len(ways) == 1 and not self.tracing:
            self.ways = None

    def _keep_one(self, position: Position) -> None:
        """Drops all ways but the one taken, whose position becomes `position`."""
        ways = self.ways
        if ways is None:
            return
        taken = next(way for way in ways if way.tally is self.tally)
        taken.position = position
        self.ways = [taken] if self.tracing else None

    # --- overlapping calls ----------------------------------------------------------------------

    def plan(
        self,
        judge: Judge,
        first: int,
        tokens: tuple[int, ...],
        times: tuple[tuple[int, int], ...],
        budget: QuestionBudget | None = None,
    ) -> GroupPlan:
        """Finds the orders by which overlapping calls are judged.

        Args:
            judge: of the spec.
            first: place of the group's first step.
            tokens: of the calls, in start order.
            times: (start, end) of each.
            budget: what the search may take. Once it is used up, only the way taken goes on.
        """
        is_cut = budget is not None and budget.group_steps <= 0
        before = [self.taken] if is_cut else self.ways or [self]
        steps = SEARCH_STEPS_MAX // len(before)
        orders = [
            judge.order(way.position, tokens, times, steps=steps, budget=budget)
            for way in before
        ]
        whole = not is_cut and all(order.whole for order in orders)
        listed = not is_cut and all(order.listed for order in orders)
        if self.ways is None and len(orders[0].every) == 1:
            return GroupPlan(orders[0].places, orders[0].end, [], whole, listed)
        reached = _reached(before, orders, -1 if judge.strict else 1)
        if not judge.strict and not _are_apart(judge.stepper, orders, reached):
            end = _united(judge.stepper, orders, reached)
            if self.ways is None:
                return GroupPlan(reached[0].places, end, [], whole, listed)
            way = _gone(judge, before, reached[0], first, tokens)
            way.position = end
            return GroupPlan(reached[0].places, end, [way], whole, listed)
        best: dict[Position, _Reached] = {}
        for each in reached:
            best.setdefault(each.position, each)
        chosen = sorted(list(best.values())[:ENDS_MAX], key=_nearness)
        ways = [_gone(judge, before, each, first, tokens) for each in chosen]
        if budget is not None:
            budget.group_steps -= len(ways) * len(tokens)
        listed = listed and len(best) <= ENDS_MAX
        return GroupPlan(reached[0].places, reached[0].position, ways, whole, listed)

    def resume(self, judge: Judge, plan: GroupPlan) -> None:
        """Takes over the result of a plan, after its calls were stepped in the order taken."""
        self.whole = self.whole and plan.listed
        if plan.ways:
            self._choose(judge, plan.ways)
        else:
            self.position = plan.end

    def trace(self) -> list[AutomatonRun]:
        """Keeps lineages from now on; returns the present ways."""
        self.tracing = True
        if self.ways is None:
            way = self.copy()
            way.tracing = False
            self.ways, self.tally = [way], way.tally
        return self.ways

    @property
    def taken(self) -> AutomatonRun:
        """The way taken; the run itself if it has no ways."""
        for way in self.ways or ():
            if way.tally is self.tally:
                return way
        return self


class Lineage(NamedTuple):
    """By which order of a group a run came about, and from which run before the group."""

    before: AutomatonRun
    first: int
    """Place of the group's first step."""
    places: tuple[int, ...]


class GroupPlan(NamedTuple):
    """How a group is judged: the order taken, and the ways to go on after it."""

    places: tuple[int, ...]
    end: Position
    """The position after the group, if there are no `ways`."""
    ways: list[AutomatonRun]
    """Empty if there is only one, which the run itself takes."""
    whole: bool
    listed: bool
    """False if the group may also end where none of these ways is."""


class _Reached(NamedTuple):
    """An end of a group, from one of the ways before it."""

    cost: int
    """The number of harms so far, negated if the spec is strict: less is better."""
    number: int
    """The number of the way before the group."""
    places: tuple[int, ...]
    position: Position


def _reached(
    before: Sequence[AutomatonRun], orders: Sequence[Order], sign: int
) -> list[_Reached]:
    """All ends, the best first; of equals the one nearest to the start order first."""
    found = [
        _Reached(
            sign * (way.tally.harmful_steps + each.harms), number, each.places, each.position
        )
        for number, (way, order) in enumerate(zip(before, orders, strict=True))
        for each in order.every
    ]
    return sorted(found, key=_goodness)


def _goodness(each: _Reached) -> tuple[int, int, tuple[int, ...]]:
    return each.cost, each.number, each.places


def _nearness(each: _Reached) -> tuple[int, tuple[int, ...]]:
    return each.number, each.places


def _are_apart(stepper: Stepper, orders: Sequence[Order], reached: Sequence[_Reached]) -> bool:
    """True if each of the best ends is one certain state, and they are few enough to go on from."""
    if any(not isinstance(each.position, int) for each in reached):
        return False
    best = [each for each in reached if each.cost == reached[0].cost]
    if len({each.position for each in best}) > ENDS_MAX:
        return False
    for number in {each.number for each in best}:
        ends = stepper.union(each.position for each in best if each.number == number)
        if ends != orders[number].end:
            return False
    return True


def _united(stepper: Stepper, orders: Sequence[Order], reached: Sequence[_Reached]) -> Position:
    """One position that holds all ends, each with its harms above the least."""
    least = reached[0].cost
    best = [orders[each.number].end for each in reached if each.cost == least]
    found = [*best, *(each.position for each in reached)]
    behind = [0] * len(best) + [each.cost - least for each in reached]
    return stepper.union(found, behind)


def _gone(
    judge: Judge,
    before: Sequence[AutomatonRun],
    end: _Reached,
    first: int,
    tokens: Sequence[int],
) -> AutomatonRun:
    """A copy of the way before a group, stepped through the best order to one end."""
    origin = before[end.number]
    way = origin.copy()
    way.lineage = Lineage(origin, first, end.places)
    for place in end.places:
        way.step(judge, tokens[place])
    return way


def _taken(ways: Sequence[AutomatonRun], sign: int) -> AutomatonRun:
    """The best way, the first of equals."""
    taken = ways[0]
    for way in ways:
        if sign * way.tally.harmful_steps < sign * taken.tally.harmful_steps:
            taken = way
    return taken
