"""Calls that are asked about, among the calls of their session that may take effect before or after them.

Idea: `M` is the least number of harmful calls, over all orders and all possible worlds, of the calls that go ahead.
A call is denied if `M` rises with it (`rises`). A call that is harmful in every order and world always raises it, since
a harmful call changes nothing. Beside that it matters whether the call is right in some order and world, and wrong in
some (`possibilities`).

Parts: calls that no constraint connects do not influence each other, so each part is searched by itself
(`CallChoices`). If the budget of steps does not suffice for a part, cheaper rules decide what they can (`_Cheaper`).

Example: a limit of one payment, `pay` in flight, and `pay` twice in one question. M is 0, with either of them it is 1:
both are denied. With nothing in flight the first one goes ahead, and the second one is denied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from monitor.automaton.position import Position, StepEffect
from monitor.decision import Missing
from monitor.session.judge.judge import Judge
from monitor.session.overlap.call_choices import CallChoices
from monitor.session.overlap.chains import spans_of
from monitor.session.overlap.order import order, parts
from monitor.session.overlap.question_budget import QuestionBudget
from monitor.spec.constraints import SideBySide

__all__ = ["CallPossibilities", "ConcurrentCalls", "possibilities_at"]


class CallPossibilities(NamedTuple):
    """What a call may be."""

    right: bool
    """True if the call is harmless in some possible world and order."""
    wrong: bool
    """True if the call is harmful in some possible world and order."""
    rises: bool
    """The least number of harms rises with it."""
    missing: tuple[Missing, ...] = ()
    """What is not known and would decide; () if it rises, or is not both right and wrong."""
    waits: bool = False
    """True if the least number of harms rises, but may not do so once calls beside it turn out not
    to be made."""
    refused: Position | None = None
    """A position that refuses it, if it rises: one that is reached with the fewest harms. None if it makes others
    harmful, and is never harmful itself."""


BUDGET_MISSES: tuple[Missing, ...] = ("budget",)


def possibilities_at(
    judge: Judge, token: int, positions: Iterable[Position]
) -> CallPossibilities:
    """What a call may be that finds its session at one of these positions."""
    stepper, missing = judge.stepper, set[Missing]()
    found = {position: stepper.chances(position, token) for position in positions}
    for position, (right, wrong) in found.items():
        if right and wrong:
            if not judge.is_certain(token):
                missing.add(judge.doubt(token))
            if not isinstance(position, int):
                missing.add("earlier_calls")
    if len(set(found.values())) > 1:
        missing.add("order")
    is_right = any(each.right for each in found.values())
    is_wrong = any(each.wrong for each in found.values())
    both = is_right and is_wrong
    return CallPossibilities(
        is_right, is_wrong, not is_right, tuple(sorted(missing)) if both else ()
    )


class ConcurrentCalls:
    """Calls that are asked about, and those beside them.

    Args:
        judge: of the spec.
        starts: where the session may be before all of them, each with its harms so far.
        tokens: of the calls, in start order; none of them a control call's.
        times: (start, end) of each; calls in flight end behind all others.
        asked: the places of those that are asked about.
        flying: the places of those in flight.
        budget: what the searches may take.
        certain: as `times`, with the orders alone that are possible for certain; None for those of `times`.
    """

    def __init__(
        self,
        judge: Judge,
        starts: Mapping[Position, int],
        tokens: Sequence[int],
        times: Sequence[tuple[int, int]],
        asked: Collection[int],
        flying: Collection[int],
        budget: QuestionBudget,
        certain: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self._judge = judge
        self._starts = starts
        self._tokens = tokens
        self._asked = asked
        self._flying = flying
        self._parts: dict[int, CallChoices] = {}
        """Choices by the places of the calls in question; a call that is the same in every state
        has none."""
        self._alike: dict[object, CallPossibilities] = {}
        """What calls may be, by what they have in common; once all are decided."""
        self._cheaper: dict[int, _Cheaper] = {}
        """The same, where the budget did not suffice."""
        self.untried: frozenset[Missing] = frozenset()
        """What is missing of the calls before, if there are too many orders of theirs; then `starts` is
        every state that they can lead to."""
        first, spans = next(iter(starts)), spans_of(times)
        certain = times if certain is None else certain
        fewer = spans if certain == times else spans_of(certain)
        kinds, free = [judge.stepper.kinds[token] for token in tokens], list[int]()
        # Several starts are as uncertain as several states: harms of parts do not add up.
        start = first if len(starts) == 1 else ()
        for places in parts(judge.stepper, start, kinds, -1, free):
            mine = [place for place in places if place in asked]
            if not mine:
                continue
            part = CallChoices(
                judge.stepper, starts, tokens, spans, places, asked, budget, fewer
            )
            if part.whole:
                self._parts.update(dict.fromkeys(mine, part))
            else:
                cheaper = _Cheaper(judge, starts, tokens, times, places, asked, budget, certain)
                self._cheaper.update(dict.fromkeys(mine, cheaper))

    def rises(self, place: int) -> bool | None:
        """True if the least number of harms rises with a call; None if it is not known."""
        part = self._parts.get(place)
        if part is not None:
            return part.rises(place)
        cheaper = self._cheaper.get(place)
        return not self._alone(place).right if cheaper is None else cheaper.rises(place)

    def fits(self, places: Iterable[int]) -> bool:
        """True if the least number of harms does not rise with all of these calls; False if it is not known."""
        together: dict[CallChoices, list[int]] = {}
        for place in places:
            part = self._parts.get(place)
            if part is not None:
                together.setdefault(part, []).append(place)
            elif place in self._cheaper or not self._alone(place).right:
                return False
        return all(part.fits(each) for part, each in together.items())

    def least(self) -> int:
        """The least number of harms of the calls that go ahead and of any that may; of parts that are known."""
        return sum(part.least() for part in set(self._parts.values()))

    def reset(self) -> None:
        """No call is decided."""
        for each in self._searched():
            each.reset()

    def make(self, place: int) -> None:
        """The call goes ahead."""
        for each in self._searched(place):
            each.make(place)

    def drop(self, place: int) -> None:
        """The call does not go ahead."""
        for each in self._searched(place):
            each.drop(place)

    def restore(self, place: int) -> None:
        """A call that was dropped may go ahead."""
        for each in self._searched(place):
            each.restore(place)

    def _searched(self, place: int | None = None) -> Iterable[CallChoices]:
        """What was searched for a call, or for all."""
        if place is None:
            alone = [each for cheaper in set(self._cheaper.values()) for each in cheaper.all]
            return {*self._parts.values(), *alone}
        part = self._parts.get(place)
        if part is not None:
            return (part,)
        cheaper = self._cheaper.get(place)
        return [each for each in cheaper.all if place in each] if cheaper is not None else ()

    def possibilities(self, place: int, *, rises: bool | None) -> CallPossibilities:
        """What the call may be, once all are decided; `rises` is what was found of it before."""
        found = self._possibilities(place, rises=rises)
        if not found.missing or not self.untried:
            return found
        causes = self.untried | ({*found.missing} - {"earlier_calls", "order"})
        return found._replace(missing=tuple(sorted(causes)))

    def _possibilities(self, place: int, *, rises: bool | None) -> CallPossibilities:
        part, cheaper = self._parts.get(place), self._cheaper.get(place)
        if cheaper is not None:
            return cheaper.possibilities(place, rises=rises)
        if part is None:
            return self._alone(place)
        like = part.likeness(place)
        key = (id(part), like, rises)
        known = self._alike.get(key) if like is not None else None
        if known is None:
            known = self._alike[key] = self._searched_possibilities(part, place, rises=rises)
        return known

    def _searched_possibilities(
        self, part: CallChoices, place: int, *, rises: bool | None
    ) -> CallPossibilities:
        token, found = self._tokens[place], part.before(place)
        possibilities = possibilities_at(
            self._judge, token, [position for position, _ in found]
        )
        if rises:
            return self._refused(possibilities, place, found)
        if "order" in possibilities.missing:
            causes: set[Missing] = {*possibilities.missing}
            if self._is_beside_flying(place):
                causes.add("calls_in_flight")
                if len(self._asked) == 1:
                    causes.discard("order")
            possibilities = possibilities._replace(missing=tuple(sorted(causes)))
        return possibilities._replace(rises=False)

    def _alone(self, place: int) -> CallPossibilities:
        """What a call is that is the same in every state."""
        found = possibilities_at(self._judge, self._tokens[place], self._starts)
        return found._replace(refused=next(iter(self._starts))) if found.rises else found

    def _is_beside_flying(self, place: int) -> bool:
        return any(each != place for each in self._flying)

    def _refused(
        self,
        possibilities: CallPossibilities,
        place: int,
        found: Sequence[tuple[Position, int]],
    ) -> CallPossibilities:
        stepper, token = self._judge.stepper, self._tokens[place]
        fewest = min(harms for _, harms in found)
        waits, refused, least = False, None, -1
        for position, harms in found:
            if stepper.step(position, token).effect is not StepEffect.HARMFUL:
                waits = waits or harms <= fewest
            elif refused is None or harms < least:
                refused, least = position, harms
        waits = waits and (len(self._asked) > 1 or self._is_beside_flying(place))
        return possibilities._replace(rises=True, missing=(), waits=waits, refused=refused)


class _Cheaper:
    """What can be said of calls that are too many for all orders to be tried.

    - A call that is wrong (or right) in every state that the calls can lead to is so in every order.
    - If a constraint alone has more harms with a call, and an order of the committed calls is known with no more harms
      than that constraint has of them, the least number of harms rises.
    """

    def __init__(
        self,
        judge: Judge,
        starts: Mapping[Position, int],
        tokens: Sequence[int],
        times: Sequence[tuple[int, int]],
        places: Sequence[int],
        asked: Collection[int],
        budget: QuestionBudget,
        certain: Sequence[tuple[int, int]],
    ) -> None:
        self._judge = judge
        self._tokens = tokens
        self._start = next(iter(starts))
        self._reached = judge.reached(starts, {tokens[place] for place in places})
        self._alone: list[tuple[int, CallChoices]] = []
        """Constraints by number, each with the calls that it sees."""
        if len(starts) == 1 and isinstance(self._start, int):
            committed = [place for place in places if place not in asked]
            spans = spans_of([certain[place] for place in committed])
            mine = [tokens[place] for place in committed]
            found = order(judge.stepper, self._start, mine, spans, strict=False, budget=budget)
            known = min(each.harms for each in found.every)
            alone = self._constraints(self._start, times, places, asked)
            self._alone = [each for each in alone if each[1].whole and each[1].least() >= known]

    def _constraints(
        self,
        start: int,
        times: Sequence[tuple[int, int]],
        places: Sequence[int],
        asked: Collection[int],
    ) -> Iterator[tuple[int, CallChoices]]:
        judge, tokens = self._judge, self._tokens
        machine = judge.machine
        if not isinstance(machine, SideBySide):
            return
        budget, spans = QuestionBudget(), spans_of(times)
        for number, digit in enumerate(machine.digits(start)):
            stepper = judge.under(number)
            seen = [place for place in places if stepper.heeds[tokens[place]]]
            if any(place in asked for place in seen):
                starts: dict[Position, int] = {digit: 0}
                yield (
                    number,
                    CallChoices(stepper, starts, tokens, spans, seen, asked, budget),
                )

    def rises(self, place: int) -> bool | None:
        chances = self._judge.stepper.chances(self._reached, self._tokens[place])
        if not (chances.right and chances.wrong):
            return not chances.right
        rises = any(place in alone and alone.rises(place) for _, alone in self._alone)
        return True if rises else None

    @property
    def all(self) -> list[CallChoices]:
        """Of each constraint that may decide."""
        return [alone for _, alone in self._alone]

    def possibilities(self, place: int, *, rises: bool | None) -> CallPossibilities:
        right, wrong = self._judge.stepper.chances(self._reached, self._tokens[place])
        if rises is None:
            return CallPossibilities(right, wrong, False, BUDGET_MISSES)
        if not rises:
            return CallPossibilities(right, wrong, False)
        refused = self._refusing(place) if right else self._reached
        return CallPossibilities(right, wrong, True, (), right, refused)

    def _refusing(self, place: int) -> Position | None:
        """A position at which a constraint alone refuses the call."""
        machine = self._judge.machine
        for number, alone in self._alone:
            if not isinstance(machine, SideBySide) or place not in alone:
                continue
            step = self._judge.under(number).step
            for digit, _ in alone.before(place):
                refuses = step(digit, self._tokens[place]).effect is StepEffect.HARMFUL
                if refuses and isinstance(digit, int) and isinstance(self._start, int):
                    return machine.moved(self._start, number, digit)
        return None
