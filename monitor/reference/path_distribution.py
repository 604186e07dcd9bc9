"""How unlikely a path is among the usual runs: their prefix tree as a distribution, smoothed.

The likelihood of the next tool comes from the usual runs that came the same way, with one imagined run
that goes by the tool before it alone; that one, in turn, has one imagined run that goes by how often
tools are called at all. A tool that no run called has a share, too, so that no path is impossible.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from monitor.reference.settings import LIKELY_MAX, LIKELY_SHARE
from monitor.spec.learnt_reference import SURPRISE_LEVELS, PrefixNode

__all__ = ["LikelyCall", "PathDistribution", "millibits", "percentile", "quantiles"]

_IMAGINED: Final = 1.0
_START: Final = -3
_END: Final = -2
_UNKNOWN: Final = -1
"""Tokens in place of tools: before the first call, after the last, a tool that no learning run called."""
_PLACE_BITS: Final = 24
_PLACE: Final = (1 << _PLACE_BITS) - 1
_STEPS_MAX: Final = 4_096


class LikelyCall(NamedTuple):
    """A tool that may be called next."""

    tool: int
    share: float
    """0 to 1. What the shares leave is other tools, and the run's end."""


class _PathCounts:
    """How often usual runs went where."""

    def __init__(self) -> None:
        self.went: Counter[tuple[int, int]] = Counter()
        """(node, tool or end) -> runs."""
        self.passed: Counter[int] = Counter()
        self.followed: Counter[tuple[int, int]] = Counter()
        """(tool before, tool or end) -> calls."""
        self.after: Counter[int] = Counter()
        self.called: Counter[int] = Counter()
        self.total = 0

    def add(self, node: int, before: int, tool: int, runs: int) -> None:
        """Counts that runs went from a node by a tool, or ended there."""
        self.went[node, tool] += runs
        self.passed[node] += runs
        self.followed[before, tool] += runs
        self.after[before] += runs
        self.called[tool] += runs
        self.total += runs


_NOTHING: Final = _PathCounts()


class PathDistribution:
    """The usual runs of a reference as a distribution of paths.

    Where a session stands is one integer, its path: the surprise so far in thousandths of a bit, and
    behind it a place. A place is a node of the tree, or, off the tree, the tool before.
    """

    __slots__ = ("_before", "_children", "_counts", "_kinds", "_off", "_steps")

    def __init__(self, nodes: Sequence[PrefixNode], tools: int) -> None:
        self._counts = _PathCounts()
        self._kinds = tools + 2
        self._off = len(nodes) + 1
        """Place of a session that left the tree with an unknown tool; the known tools come behind."""
        self._before = [_START, *(node.tool for node in nodes[1:])]
        self._children: dict[tuple[int, int], int] = {}
        self._steps: dict[int, int] = {}
        """Steps by what they depend on: most sessions go the same few ways."""
        for number, node in enumerate(nodes):
            if node.parent >= 0:
                self._children[node.parent, node.tool] = number
                self._counts.add(node.parent, self._before[node.parent], node.tool, node.runs)
            if node.ends:
                self._counts.add(number, self._before[number], _END, node.ends)

    def after(self, path: int, tool: int) -> int:
        """The path of a session after one more call."""
        place = path & _PLACE
        key = place << _PLACE_BITS | (tool + 1)
        found = self._steps.get(key)
        if found is None:
            if len(self._steps) >= _STEPS_MAX:
                self._steps.clear()
            bits = _thousandths(self._likelihood(place, tool, _NOTHING))
            found = bits << _PLACE_BITS | self._next(place, tool, _NOTHING)
            self._steps[key] = found
        return path - place + found

    def surprise(self, path: int, calls: int, *, ended: bool) -> float | None:
        """Bits a call of a session, its end among them if it is over; None before its first call."""
        events = calls + ended
        if not events:
            return None
        found = self.ended(path) if ended else millibits(path)
        return round(found / 1000 / events, 4)

    def ended(self, path: int) -> int:
        """The surprise of a session that is over, in thousandths of a bit."""
        return millibits(path) + _thousandths(self._likelihood(path & _PLACE, _END, _NOTHING))

    def likely(self, path: int) -> list[LikelyCall]:
        """The tools that are most likely called next, the likeliest first."""
        place = path & _PLACE
        shares = [
            LikelyCall(tool, self._likelihood(place, tool, _NOTHING))
            for tool in self._counts.called
            if tool >= 0
        ]
        shares.sort(key=lambda each: (-each.share, each.tool))
        return [each for each in shares[:LIKELY_MAX] if each.share >= LIKELY_SHARE]

    def surprise_without(self, tools: Sequence[int]) -> float:
        """Bits a call of a usual run, its end among them, under the other usual runs."""
        own, node = _PathCounts(), 0
        for tool in (*tools, _END):
            if not self._counts.went[node, tool]:
                break  # the rest of the tree was cut off
            own.add(node, self._before[node], tool, 1)
            node = self._children.get((node, tool), node)
        place, bits = 0, 0
        for tool in (*tools, _END):
            bits += _thousandths(self._likelihood(place, tool, own))
            place = self._next(place, tool, own)
        return bits / 1000 / (len(tools) + 1)

    def _next(self, place: int, tool: int, less: _PathCounts) -> int:
        child = self._children.get((place, tool))
        if child is None or self._counts.went[place, tool] <= less.went[place, tool]:
            return self._off + tool + 1
        return child

    def _likelihood(self, place: int, tool: int, less: _PathCounts) -> float:
        """Of a tool, or the end, at a place; without what is to count `less`."""
        known, on_tree = self._counts, place < self._off
        before = self._before[place] if on_tree else place - self._off - 1
        found = (known.called[tool] - less.called[tool] + 1) / (
            known.total - less.total + self._kinds
        )
        pair = before, tool
        found = (known.followed[pair] - less.followed[pair] + _IMAGINED * found) / (
            known.after[before] - less.after[before] + _IMAGINED
        )
        if not on_tree:
            return found
        step = place, tool
        return (known.went[step] - less.went[step] + _IMAGINED * found) / (
            known.passed[place] - less.passed[place] + _IMAGINED
        )


def _thousandths(likelihood: float) -> int:
    return round(-1000 * math.log2(likelihood))


def millibits(path: int) -> int:
    """The surprise of a path, in thousandths of a bit."""
    return path >> _PLACE_BITS


def quantiles(surprises: Iterable[float]) -> tuple[float, ...]:
    """The surprises at `SURPRISE_LEVELS`, by linear interpolation; none of fewer than two."""
    ranked = sorted(surprises)
    if len(ranked) < 2:
        return ()
    return tuple(round(_at(ranked, level / 100), 4) for level in SURPRISE_LEVELS)


def _at(ranked: Sequence[float], share: float) -> float:
    place = share * (len(ranked) - 1)
    below = min(int(place), len(ranked) - 2)
    return ranked[below] + (place - below) * (ranked[below + 1] - ranked[below])


def percentile(surprise: float, known: Sequence[float]) -> float | None:
    """How many of 100 usual runs are less surprising, of those that are as surprising half; None if too few are known."""
    if not known:
        return None
    left, right = bisect_left(known, surprise), bisect_right(known, surprise)
    if right == 0:
        return 0.0
    if left < right:
        return (SURPRISE_LEVELS[left] + SURPRISE_LEVELS[right - 1]) / 2
    if right == len(known):
        return float(SURPRISE_LEVELS[-1])
    low, high = known[right - 1], known[right]
    one, other = SURPRISE_LEVELS[right - 1], SURPRISE_LEVELS[right]
    return round(one + (other - one) * (surprise - low) / (high - low), 1)
