"""Every order that some calls may take effect in: where each leads, and with how few harms.

Idea: a node is how far each chain of alike calls has come (`chains.py`), and the position there. It keeps the fewest
harms of all orders that lead to it. So one search answers, for any choice of the calls, how few harms they have
(`least`), and where a call may find the session (`before`).

Only calls that change a state are taken. A call that no other one waits for may stand anywhere. At a certain state a
harmful call changes nothing, nor does one that is a self-loop there. So such a call stays behind, and `least` counts it
in the end: it is harmless if its chain is a self-loop at a state on the way (`loops`), else harmful.

Bound: `budget` steps. Once they are used up, `whole` is False, and nothing is known.

Example: two payments and a limit of one. The nodes are (0 calls, 0 paid), (1 call, 1 paid). The least number of harms
is 0 for one payment and 1 for two. A payment may find 0 paid, or 1.

Source: Held and Karp 1962, over chains instead of single calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from monitor.automaton.position import Position, StepEffect, Stepper
from monitor.session.overlap.chains import Chain, Spans, advanced, is_ready
from monitor.session.overlap.question_budget import QuestionBudget

__all__ = ["AllOrders"]

_LOOKS: Final = 16
"""Nodes that are looked at in the time of one step."""

_Done = tuple[int, ...]

_Node = tuple[_Done, Position, int]
"""Taken calls of each chain; the position; the chains that were self-loops on the way, as bits."""


class AllOrders:
    """All orders of some calls.

    Args:
        stepper: of the spec.
        starts: the positions before the calls, each with its harms so far.
        chains: the calls.
        spans: of all calls, by the places that the chains have.
        budget: what the search may take.
    """

    __slots__ = ("_budget", "_chains", "_nodes", "_stepper", "awaited", "whole")

    def __init__(
        self,
        stepper: Stepper,
        starts: Mapping[Position, int],
        chains: Sequence[Chain],
        spans: Spans,
        budget: QuestionBudget,
    ) -> None:
        self._stepper = stepper
        self._chains = chains
        self._budget = budget
        self.awaited = [_awaited(chain, spans) for chain in chains]
        """Number of each chain's first calls for which another call waits."""
        self._nodes: dict[_Node, int] = {}
        self.whole = self._search(starts)
        """False if the budget did not suffice."""

    def least(self, made: Sequence[int], most: Sequence[int]) -> int:
        """The fewest harms of any order.

        Args:
            made: by chain, the number of its calls that are made.
            most: by chain, the number of calls that may be made.
        """
        best = -1
        for done, _, loops, harms in self._within(most):
            total = harms
            for number, taken in enumerate(done):
                if taken < made[number] and not loops >> number & 1:
                    total += made[number] - taken
            if best < 0 or total < best:
                best = total
        return best

    def before(
        self, chain: int, needs: Sequence[tuple[int, int]], most: Sequence[int]
    ) -> Iterator[tuple[Position, int]]:
        """Where a call may find the session, each time with the fewest harms so far.

        Args:
            chain: of the call.
            needs: by chain, how many of its calls come before the call (`Chain.needs`).
            most: as in `least`, with the call.
        """
        for done, position, _, harms in self._within(most, ended=False):
            if done[chain] < most[chain] and all(done[each] >= count for each, count in needs):
                yield position, harms

    def _within(
        self, most: Sequence[int], *, ended: bool = True
    ) -> Iterator[tuple[_Done, Position, int, int]]:
        """The nodes of orders of these calls; with `ended`, of those that have come far enough to end."""
        self._budget.left -= len(self._nodes) // _LOOKS
        for (done, position, loops), harms in self._nodes.items():
            if not _exceeds(done, most) and not (ended and _exceeds(self.awaited, done)):
                yield done, position, loops, harms

    def _search(self, starts: Mapping[Position, int]) -> bool:
        none = (0,) * len(self._chains)
        layer: dict[_Node, int] = {
            (none, position, 0): harms for position, harms in starts.items()
        }
        while layer:
            after: dict[_Node, int] = {}
            for (done, position, loops), harms in layer.items():
                self._step(done, position, loops, harms, after)
            if self._budget.left < 0:
                return False
            layer = after
        return True

    def _step(
        self,
        done: _Done,
        position: Position,
        loops: int,
        harms: int,
        after: dict[_Node, int],
    ) -> None:
        """Takes the next call of each chain that may go on, and keeps the node."""
        certain = isinstance(position, int)
        moved: list[tuple[_Done, Position, int]] = []
        for number, (token, places, needs) in enumerate(self._chains):
            taken = done[number]
            if taken == len(places) or not is_ready(needs[taken], done):
                continue
            self._budget.left -= 1
            end, effect = self._stepper.step(position, token)
            if certain and taken >= self.awaited[number] and end == position:
                if effect is not StepEffect.HARMFUL:
                    loops |= 1 << number
                continue
            total = harms + (effect is StepEffect.HARMFUL)
            moved.append((advanced(done, number), end, total))
        _put(self._nodes, (done, position, loops), harms)
        for then, end, total in moved:
            _put(after, (then, end, loops), total)


def _put(nodes: dict[_Node, int], node: _Node, harms: int) -> None:
    known = nodes.get(node)
    if known is None or harms < known:
        nodes[node] = harms


def _awaited(chain: Chain, spans: Spans) -> int:
    return sum(1 for place in chain.places if spans.ahead[place])


def _exceeds(one: Sequence[int], other: Sequence[int]) -> bool:
    for number, count in enumerate(one):  # noqa: SIM110 - `any` makes a generator
        if count > other[number]:
            return True
    return False
