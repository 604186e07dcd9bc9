"""Overlapping calls as chains of alike calls, which are merged instead of permuted.

Idea: take two calls that do the same. One may have been allowed to start no later than the other,
with no fewer calls waiting for it. Then an order with the other one first can be changed by
swapping the two: the swapped order is possible, too, and has the same effect. So this one goes
first, and only one order of the two is tried. Calls that are pairwise ordered like this form a
chain. An order of all calls is a merge of the chains.

Invariant: for each order of the calls there is a merge with the same sequence of effects.
`Chain.needs` keeps "ended before it started" across chains: a call waits until each chain has come
as far as it says.

Example: four overlapping `read` and four overlapping `write`, all at one time, have 40,320 orders.
They make two chains, and the chains have 70 merges.

Source: `Spans` is the representation of an interval order by its numbers of predecessors and
successors (Fishburn 1970).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Chain", "Spans", "chained", "spans_of"]


class Spans(NamedTuple):
    """By call, what its times say of the others.

    Those that had ended when it started are always the first of all calls, by their ends.
    """

    ended: list[int]
    """How many had ended when it started."""
    rank: list[int]
    """How many ended before it did."""
    ahead: list[int]
    """How many started after it had ended."""
    by_end: list[int]
    """The calls by their ends."""


class Chain(NamedTuple):
    """Calls that are alike, in the one order among themselves that is tried."""

    token: int
    """What all of them do."""
    places: list[int]
    needs: list[tuple[tuple[int, int], ...]]
    """By call, which chains must have come how far before it."""


def spans_of(times: Sequence[tuple[int, int]]) -> Spans:
    """What the (start, end) of calls in start order say; of two at one instant the first has ended."""
    count = len(times)
    if not count or min(max(start, end) for start, end in times) > times[-1][0]:
        return Spans([0] * count, list(range(count)), [0] * count, list(range(count)))
    starts = [(start, place) for place, (start, _) in enumerate(times)]
    ends = sorted((max(start, end), place) for place, (start, end) in enumerate(times))
    ended = [bisect_left(ends, each) for each in starts]
    rank, ahead = [0] * count, [0] * count
    for number, each in enumerate(ends):
        rank[each[1]] = number
        # A call of no length has not ended before itself.
        ahead[each[1]] = count - max(bisect_left(starts, each), each[1] + 1)
    return Spans(ended, rank, ahead, [place for _, place in ends])


def chained(places: Sequence[int], kinds: Sequence[int], spans: Spans) -> list[Chain]:
    """Some calls in as few chains as there can be.

    Args:
        places: of the calls, in start order.
        kinds: of all calls: what each does.
        spans: of all calls.
    """
    chains: list[Chain] = []
    come: list[int] = []
    """By chain, how many of it had ended when the call at hand started."""
    rank = spans.rank
    for place in places:
        ended, ahead, kind = spans.ended[place], spans.ahead[place], kinds[place]
        needs: list[tuple[int, int]] = []
        own: Chain | None = None
        for number, chain in enumerate(chains):
            count = come[number]
            # Calls that had ended lead their chain, and had ended for all later calls, too.
            while count < len(chain.places) and rank[chain.places[count]] < ended:
                count += 1
            if count:
                come[number] = count
                needs.append((number, count))
            if own is None and chain.token == kind and spans.ahead[chain.places[-1]] >= ahead:
                own = chain
        if own is None:
            own = Chain(kind, [], [])
            chains.append(own)
            come.append(0)
        own.places.append(place)
        own.needs.append(tuple(needs))
    return chains
