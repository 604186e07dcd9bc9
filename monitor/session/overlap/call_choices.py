"""Some calls of which a few are asked about: how few harms there are with those that are made.

Idea: the calls that are committed are made. Of those that are asked about, one after the other is decided: it is made, or
dropped. Until then it may be made, so that an earlier one may count on it. One search over all orders (`AllOrders`)
answers for each choice.

Invariant: a call `rises` if the least number of harms, over all orders of the calls that are made and of any of the
undecided ones, is higher once the call is made for certain. Where `spans` allow more orders than are certain (calls of
several parents), the number without the call is that of the certain orders (`certain`), so it is never too low.

Example: approval is needed before a payment, and both are asked about, the payment first. It does not rise, as the
approval may be made. If another rule forbids the approval, that one is dropped, and the payment rises.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from monitor.automaton.position import Position, Stepper
from monitor.session.overlap.asked_orders import AllOrders
from monitor.session.overlap.chains import Spans, chained
from monitor.session.overlap.question_budget import QuestionBudget

__all__ = ["CallChoices"]


class CallChoices:
    """Calls that may take effect in several orders, and which of them are made.

    Args:
        stepper: of the spec, or of one of its constraints.
        starts: the positions before the calls, each with its harms so far.
        tokens: of all calls, in start order.
        spans: of all calls.
        places: of the calls that are meant.
        asked: the places of those that are asked about.
        budget: what the search may take.
        certain: as `spans`, with the orders alone that are possible for certain; None for those of `spans`.
    """

    def __init__(
        self,
        stepper: Stepper,
        starts: Mapping[Position, int],
        tokens: Sequence[int],
        spans: Spans,
        places: Sequence[int],
        asked: Collection[int],
        budget: QuestionBudget,
        certain: Spans | None = None,
    ) -> None:
        self._stepper = stepper
        self._starts = starts
        self._spans = spans
        self._places = places
        self._budget = budget
        self._kinds = [stepper.kinds[token] for token in tokens]
        chains = self._chains = chained(places, self._kinds, spans, swapped=True)
        self._orders = AllOrders(stepper, starts, chains, spans, budget)
        self._where = {
            place: (number, needs)
            for number, chain in enumerate(chains)
            for place, needs in zip(chain.places, chain.needs, strict=True)
        }
        self._all = [len(chain.places) for chain in chains]
        self._committed = [
            sum([place not in asked for place in chain.places]) for chain in chains
        ]
        fewer = self._fewer = spans if certain is None else certain
        self._certain: CallChoices | None = None
        """The same calls in certain orders alone, where that makes a difference."""
        if fewer != spans:
            self._certain = CallChoices(stepper, starts, tokens, fewer, places, asked, budget)
        mine = [place for place in asked if place in self._where]
        self._is_amid = any(spans.ahead[place] or fewer.ahead[place] for place in mine)
        """True if later calls wait for one that is asked about: then all of them are taken to be made."""
        self.reset()

    def reset(self) -> None:
        """No call that is asked about is decided."""
        self._most, self._made = list(self._all), list(self._committed)
        self._dropped: set[int] = set()
        self._least = -1
        """Result of `least`; -1 while it is not known."""
        if self._certain is not None:
            self._certain.reset()

    @property
    def whole(self) -> bool:
        """False if the budget did not suffice: nothing is known then."""
        return self._orders.whole and (self._certain is None or self._certain.whole)

    def __contains__(self, place: int) -> bool:
        return place in self._where

    def least(self) -> int:
        """The fewest harms of the calls that are made, and of any that may be; in an order that is certain."""
        if self._certain is not None and not self._is_amid:
            return self._certain.least()
        if self._least < 0:
            made = self._most if self._is_amid else self._made
            self._least = self._orders.least(made, self._most)
        return self._least

    def rises(self, place: int) -> bool:
        """True if the least number of harms rises with a call."""
        return self._rises_amid(place) if self._is_amid else not self.fits([place])

    def fits(self, places: Sequence[int]) -> bool:
        """True if the least number of harms does not rise with all of these calls; False if it is not known."""
        if self._is_amid or not all(self._may_be_right(place) for place in places):
            return False
        made = list(self._made)
        for place in places:
            made[self._where[place][0]] += 1
        return self._orders.least(made, self._most) <= self.least()

    def _may_be_right(self, place: int) -> bool:
        """False if every order has it harmful: with more orders than are certain, their least number may hide that."""
        if self._certain is None:
            return True
        token, found = self._kinds[place], self.before(place)
        return any(self._stepper.chances(position, token).right for position, _ in found)

    def _rises_amid(self, place: int) -> bool:
        if not self._may_be_right(place):
            return True
        others = [each for each in self._places if each != place]
        chains = chained(others, self._kinds, self._fewer, swapped=True)
        without = AllOrders(self._stepper, self._starts, chains, self._fewer, self._budget)
        count = [len(chain.places) for chain in chains]
        least = self._orders.least(self._all, self._all)
        return without.whole and least > without.least(count, count)

    def make(self, place: int) -> None:
        """The call is made."""
        self._made[self._where[place][0]] += 1
        self._least = -1
        if self._certain is not None:
            self._certain.make(place)

    def drop(self, place: int) -> None:
        """The call is not made."""
        if self._is_amid:
            return
        self._most[self._where[place][0]] -= 1
        self._dropped.add(place)
        self._least = -1
        if self._certain is not None:
            self._certain.drop(place)

    def restore(self, place: int) -> None:
        """A call that was dropped may be made after all."""
        if self._is_amid:
            return
        self._most[self._where[place][0]] += 1
        self._dropped.discard(place)
        self._least = -1
        if self._certain is not None:
            self._certain.restore(place)

    def likeness(self, place: int) -> tuple[int, bool] | None:
        """The same for calls that find their session alike; None if each is apart."""
        return None if self._is_amid else (self._where[place][0], place in self._dropped)

    def before(self, place: int) -> list[tuple[Position, int]]:
        """Where the call may find the session, each time with the fewest harms so far."""
        chain, needs = self._where[place]
        most = list(self._most)
        most[chain] += place in self._dropped
        if self._spans.ahead[place]:
            rank, ended = self._spans.rank[place], self._spans.ended
            for number, each in enumerate(self._chains):
                most[number] = sum(ended[other] <= rank for other in each.places)
        return list(self._orders.before(chain, needs, most))
