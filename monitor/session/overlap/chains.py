"""Overlapping calls as chains of alike calls, which are merged instead of permuted.

Idea: calls are *alike* if they have the same effect in every state. Let `a` and `b` be alike. If `a`
could start no later than `b`, and no fewer calls had to wait for `a`, then `a` and `b` can be swapped
in any order that has `b` first: the new order is possible, too, and has the same effect. So only
orders with `a` first are tried. Calls that are pairwise in this relation form a *chain*, which has
one order. An order of all calls is a merge of the chains.

Invariant: each possible order of the calls has the same sequence of effects as some merge. Across
chains, `Chain.needs` keeps "ended before it started": a call waits until each other chain has come
as far as it says.

With `swapped`, the calls of a chain that no call waits for have started behind the same calls, so any of them may stand
for any other: a part of them is made, or they find the same states.

Example: four overlapping `read` and four overlapping `write`, all at one time, have 40,320 orders.
They make two chains, and the chains have 70 merges.

Source: `Spans` is the representation of an interval order by its numbers of predecessors and
successors (Fishburn 1970).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Chain", "Spans", "advanced", "chained", "is_ready", "spans_of"]


class Spans(NamedTuple):
    """By call, what its times say about the other calls.

    The calls that had ended when a call started are always the first `ended` calls of `by_end`.
    """

    ended: list[int]
    """The number of calls that had ended when it started."""
    rank: list[int]
    """The number of calls that ended before it ended."""
    ahead: list[int]
    """The number of calls that started after it had ended."""
    by_end: list[int]
    """The calls in the order of their ends."""


class Chain(NamedTuple):
    """Alike calls, in the one order that is tried."""

    token: int
    """A token with the effect of all its calls."""
    places: list[int]
    needs: list[tuple[tuple[int, int], ...]]
    """Pairs of each call: (number of a chain, how many of its calls must come before this call)."""


def spans_of(times: Sequence[tuple[int, int]]) -> Spans:
    """Compares calls by their (start, end), in start order. Touching times are a sequence."""
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


def chained(
    places: Sequence[int], kinds: Sequence[int], spans: Spans, *, swapped: bool = False
) -> list[Chain]:
    """Splits calls into as few chains as possible.

    Args:
        places: of the calls, in start order.
        kinds: of all calls: a token with the same effect as the call's own.
        spans: of all calls.
        swapped: calls of a chain that no call waits for can be swapped both ways.
    """
    chains: list[Chain] = []
    come: list[int] = []
    """Number of each chain's calls that had ended when the present call started."""
    rank = spans.rank
    for place in places:
        ended, ahead, kind = spans.ended[place], spans.ahead[place], kinds[place]
        needs: list[tuple[int, int]] = []
        for number, chain in enumerate(chains):
            count = come[number]
            # The calls that had ended are the first of their chain. For all later calls they had ended, too.
            while count < len(chain.places) and rank[chain.places[count]] < ended:
                count += 1
            if count:
                come[number] = count
                needs.append((number, count))
        mine = tuple(needs)
        for chain in chains:
            last = spans.ahead[chain.places[-1]]
            if chain.token != kind or last < ahead:
                continue
            if last or not swapped or chain.needs[-1] == mine:
                break
        else:
            chain = Chain(kind, [], [])
            chains.append(chain)
            come.append(0)
        chain.places.append(place)
        chain.needs.append(mine)
    return chains


def is_ready(needs: tuple[tuple[int, int], ...], done: tuple[int, ...]) -> bool:
    """True if the chains have come as far as a call needs (`Chain.needs`); `done`: by chain, the calls taken."""
    for number, least in needs:  # noqa: SIM110 - `all` makes a generator
        if done[number] < least:
            return False
    return True


def advanced(done: tuple[int, ...], number: int) -> tuple[int, ...]:
    """The same, with one more call of a chain."""
    return (*done[:number], done[number] + 1, *done[number + 1 :])
