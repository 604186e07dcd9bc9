"""What the risk that travels knows of a run: how it departs from the usual runs of its task.

Each feature (`monitor.spec.risk_features`) is computed from what a session keeps of its calls, so
a session is scored alike for any order of arrival.
"""

# ruff: noqa: FURB136 - a call of min or max takes three times as long, and a vector has thirty

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.spec.learnt_reference import LearntReference
from monitor.spec.risk_features import FEATURES

__all__ = ["CallSeen", "RunCalls", "RunFeatures", "UsualCalls", "UsualRuns"]


_WRONG_TOOL: Final = 0
_WRONG_ARGUMENTS: Final = 1
_EXTRA: Final = 2
_MISSING: Final = 3
"""Counts of departures, numbered as `Departure` is."""
_PHASE: Final = 4
"""Three counts of departures, by phase."""
_SAME: Final = 7
_AGAIN: Final = 8
_FAILED: Final = 9
_FAILED_LAST: Final = 10
_FAILED_WRITES: Final = 11
_NEW: Final = 12
_NEW_ARGUMENTS: Final = 14
_KNOWN: Final = 16
"""Two counts each: reads, writes."""
_HASTY: Final = 18
_COUNTS: Final = 19

_BEGIN: Final = -1
_UNKNOWN: Final = -1
_END: Final = -2
_SEEN_MAX: Final = 64
"""Different calls of a session by which repeated ones are known."""
_WAYS_MAX: Final = 32
"""Usual sets of tools that a session is likened to, those of most runs first."""


_ALIKE_MAX: Final = 1_024

_LIKENESSES_MAX: Final = 1_024
_ALL_WAYS: Final = -1
_ANY_CALL: Final = -2
_VARYING: Final = -3
"""Any call of a tool, and one whose arguments vary, stand among tokens as these less twice its number."""


class CallsLikeness(NamedTuple):
    """How alike different calls are to those of usual runs; 1 is alike."""

    nearest: float
    """Jaccard index with the usual run that is most alike."""
    covered: float
    """Largest share of the calls that one usual run made, too."""
    done: float
    """Largest share of one usual run's calls that were made."""
    mean: float
    """Mean Jaccard index with all usual runs."""


@mypyc_attr(acyclic=True)
class RunCalls:
    """Which calls of usual runs one session has made."""

    __slots__ = ("beginning", "begun", "made", "strange")

    def __init__(self) -> None:
        self.made = 0
        """Bit mask of the calls of usual runs."""
        self.strange = 0
        """Number of calls that no usual run made."""
        self.begun = 0
        """Number of its first calls that are those of one usual run."""
        self.beginning = _ALL_WAYS
        """Bit mask of the usual runs that begin as it did so far."""

    def copy(self) -> RunCalls:
        twin = RunCalls()
        twin.made, twin.strange = self.made, self.strange
        twin.begun, twin.beginning = self.begun, self.beginning
        return twin


class UsualCalls:
    """The calls of usual runs.

    Args:
        ways: how many runs took each way, and the tokens (-1: its arguments vary) and tools of its calls.
    """

    __slots__ = ("_bits", "_known", "_places", "_runs", "_ways")

    def __init__(self, ways: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> None:
        self._bits: dict[int, int] = {}
        self._places: list[dict[int, int]] = []
        """Masks of ways, place by place: by the token or the tool that they have there."""
        found: list[tuple[int, int, int]] = []
        for number, (runs, calls) in enumerate(ways):
            mask = 0
            for place, (token, tool) in enumerate(calls):
                key = token if token >= 0 else _VARYING - 2 * tool
                mask |= 1 << self._bits.setdefault(key, len(self._bits))
                self._enter(place, (key, _ANY_CALL - 2 * tool), 1 << number)
            found.append((runs, mask, mask.bit_count()))
        self._ways = tuple(found)
        """Runs of each way, the mask of its calls, and their number."""
        self._runs = sum(runs for runs, _ in ways)
        self._known: dict[tuple[int, int], CallsLikeness] = {}
        """Likeness by what it depends on: sessions make the same few calls."""

    def _enter(self, place: int, keys: tuple[int, int], way: int) -> None:
        if place == len(self._places):
            self._places.append({})
        there = self._places[place]
        for key in keys:
            there[key] = there.get(key, 0) | way

    def take(self, run: RunCalls, token: int, tool: int, *, told: bool) -> None:
        """Counts one call; if it is not `told` which arguments it had, its tool alone is compared."""
        varying = _VARYING - 2 * tool
        bit = self._bits.get(token, self._bits.get(varying))
        if bit is not None:
            run.made |= 1 << bit
        elif told:
            run.strange += 1
        if run.beginning:
            there = self._places[run.begun] if run.begun < len(self._places) else {}
            key = token if told else _ANY_CALL - 2 * tool
            run.beginning &= there.get(key, 0) | there.get(varying, 0)
            run.begun += run.beginning != 0

    def likeness(self, run: RunCalls) -> CallsLikeness:
        """How alike the calls so far are to those of usual runs."""
        key = run.made, run.strange
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _LIKENESSES_MAX:
                self._known.clear()
            known = self._known[key] = self._likeness(run.made, run.strange)
        return known

    def _likeness(self, made: int, strange: int) -> CallsLikeness:
        own, most = made.bit_count() + strange, 0
        nearest = done = total = 0.0
        for runs, mask, calls in self._ways:
            both = (mask & made).bit_count()
            index = both / (own + calls - both) if own or calls else 1.0
            part = both / calls if calls else 1.0
            total += runs * index
            if both > most:
                most = both
            if index > nearest:
                nearest = index
            if part > done:
                done = part
        covered = most / own if own else float(bool(self._ways))
        return CallsLikeness(nearest, covered, done, total / self._runs if self._runs else 0.0)


class CallSeen(NamedTuple):
    """One call as the comparison reads it."""

    tool: int
    """Number of the tool; -1 if no learning run called it."""
    token: int
    """Tool and arguments; -1 if the tool is unknown."""
    known: int
    """1: a usual run gave it these arguments; 0: none did; -1: they are not told, or vary."""
    writes: bool
    failed: bool
    departure: int
    """-1 for none."""
    phase: int
    called: int
    """Mask of the tools called before it: bit 0 is the first known tool."""


@mypyc_attr(acyclic=True)
class RunFeatures:
    """What one session has done so far: nineteen counts, three sums, its different calls, and those of usual runs."""

    __slots__ = ("calls", "counts", "last", "previous", "seen", "surprise", "worst")

    def __init__(self) -> None:
        self.counts: list[int] = [0] * _COUNTS
        self.previous = _BEGIN
        self.surprise = 0.0
        self.worst = 0.0
        self.last = 0.0
        self.seen: tuple[int, ...] = ()
        self.calls = RunCalls()

    def copy(self) -> RunFeatures:
        twin = RunFeatures()
        twin.counts = self.counts.copy()
        twin.previous, twin.seen = self.previous, self.seen
        twin.surprise, twin.worst, twin.last = self.surprise, self.worst, self.last
        twin.calls = self.calls.copy()
        return twin

    def key(self) -> tuple[object, ...]:
        """All that it is, in a form that can be looked up."""
        calls = self.calls
        of_calls = calls.made, calls.strange, calls.begun
        return (*self.counts, self.surprise, self.worst, self.last, self.previous, *of_calls)

    def take(self, usual: UsualRuns, call: CallSeen) -> None:
        """Counts one call."""
        counts, tool = self.counts, call.tool
        self.last = usual.surprise(self.previous, tool)
        self.surprise += self.last
        self.worst = max(self.worst, self.last)
        self.previous = tool
        if call.departure >= 0:
            counts[call.departure] += 1
            counts[_PHASE + call.phase] += 1
        counts[_FAILED_LAST] = int(call.failed)
        counts[_FAILED] += call.failed
        counts[_FAILED_WRITES] += call.failed and call.writes
        self._remember(call)
        self._compare(usual, call)
        usual.calls.take(self.calls, call.token, tool, told=call.known >= 0 or tool < 0)

    def _remember(self, call: CallSeen) -> None:
        """Counts what is repeated."""
        if call.token in self.seen:
            self.counts[_SAME] += 1
        elif call.token >= 0 and len(self.seen) < _SEEN_MAX:
            self.seen += (call.token,)
        if call.tool >= 0 and call.called >> call.tool & 1:
            self.counts[_AGAIN] += 1

    def _compare(self, usual: UsualRuns, call: CallSeen) -> None:
        """Counts what is new, and what is known."""
        counts, tool = self.counts, call.tool
        if tool < 0 or not usual.any >> tool & 1:
            counts[_NEW + call.writes] += 1
            return
        if call.known > 0:
            counts[_KNOWN + call.writes] += 1
        elif call.known == 0:
            counts[_NEW_ARGUMENTS + call.writes] += 1
        if call.writes and not call.called >> tool & 1:
            counts[_HASTY] += bool(usual.before(tool) & ~call.called)


class UsualRuns:
    """What the usual runs of a reference have in common, computed once.

    Args:
        learnt: the reference.
        calls: the calls of its usual runs.
    """

    __slots__ = (
        "_after",
        "_alike",
        "_before",
        "_counts",
        "_followed",
        "_kinds",
        "_ways",
        "any",
        "calls",
        "every",
        "longest",
        "mean",
        "shortest",
        "total",
    )

    def __init__(self, learnt: LearntReference, calls: UsualCalls) -> None:
        self.calls = calls
        self._followed: Counter[tuple[int, int]] = Counter()
        self._after: Counter[int] = Counter()
        self._counts: Counter[int] = Counter()
        self._before: dict[int, int] = {}
        self._kinds = len(learnt.tools) + 2
        ends: list[tuple[int, int, int]] = []
        """Calls, mask of the tools, runs."""
        self._walk(learnt, ends)
        self.total = sum(self._counts.values())
        runs = sum(count for _, _, count in ends)
        self.mean = sum(calls * count for calls, _, count in ends) / runs if runs else 0.0
        self.longest = max((calls for calls, _, _ in ends), default=0)
        self.shortest = min((calls for calls, _, _ in ends), default=0)
        ways: Counter[int] = Counter()
        for _, mask, count in ends:
            ways[mask] += count
        self.any, self.every = 0, -1 if ways else 0
        for mask in ways:
            self.any |= mask
            self.every &= mask
        ranked = sorted(ways, key=lambda mask: (-ways[mask], mask))
        self._ways = tuple(ranked[:_WAYS_MAX])
        self._alike: dict[int, float] = {}
        """Likeness by the tools called: sessions call the same few tools."""

    def _walk(self, learnt: LearntReference, ends: list[tuple[int, int, int]]) -> None:
        masks: list[int] = []
        depths: list[int] = []
        for node in learnt.nodes:
            above = masks[node.parent] if node.parent >= 0 else 0
            depth = depths[node.parent] + 1 if node.parent >= 0 else 0
            mask = above | (1 << node.tool) if node.tool >= 0 else above
            masks.append(mask)
            depths.append(depth)
            if node.parent >= 0:
                self._follow(learnt.nodes[node.parent].tool, node.tool, node.runs)
                if not above >> node.tool & 1:
                    self._before[node.tool] = self._before.get(node.tool, above) & above
            if node.ends:
                self._follow(node.tool, _END, node.ends)
                ends.append((depth, mask, node.ends))

    def _follow(self, before: int, tool: int, runs: int) -> None:
        self._followed[before, tool] += runs
        self._after[before] += runs
        self._counts[tool] += runs

    def surprise(self, before: int, tool: int) -> float:
        """-log of the chance that usual runs call the tool after another.

        Bigrams are smoothed by how often the tool is called at all.
        """
        anywhere = (self._counts[tool] + 0.5) / (self.total + 0.5 * self._kinds)
        return -math.log((self._followed[before, tool] + anywhere) / (self._after[before] + 1))

    def ending(self, last: int) -> float:
        """-log of the chance that usual runs end after a call of the tool."""
        return self.surprise(last, _END)

    def before(self, tool: int) -> int:
        """Mask of the tools that every usual run called before its first call of this one."""
        return self._before.get(tool, 0)

    def likeness(self, called: int) -> float:
        """Jaccard index of the tools called and those of the usual run that is most alike."""
        known = self._alike.get(called)
        if known is None:
            if len(self._alike) >= _ALIKE_MAX:
                self._alike.clear()
            known = self._alike[called] = max(
                [0.0, *(_jaccard(mask, called) for mask in self._ways)]
            )
        return known

    def left_out(self, called: int) -> int:
        """Number of tools that every usual run called, and that are not called."""
        return (self.every & ~called).bit_count()

    def vector(
        self,
        run: RunFeatures,
        calls: int,
        called: int,
        *,
        ended: bool,
        unwritten: int,
        elsewhere: bool,
    ) -> list[float]:
        """The features in the order of `FEATURES`.

        Args:
            run: what the session has done.
            calls: number of its calls.
            called: mask of the known tools that it called, then a bit for each unknown one.
            ended: whether it is over.
            unwritten: writes that every usual run made and this one has not.
            elsewhere: whether no usual run ends where the session stands.
        """
        # One by one, without a call for each: this is done after each call of a session.
        (
            wrong_tool, wrong_arguments, extra, missing, first_two, early, late, same, again,
            failed, failed_last, failed_writes, new_reads, new_writes, new_read_arguments,
            new_write_arguments, known_reads, known_writes, hasty,
        ) = run.counts  # fmt: skip
        number = calls or 1
        left, every = self.left_out(called), self.every.bit_count() or 1
        likeness, mean = self.likeness(called), self.mean if self.mean > 1.0 else 1.0
        length, over = calls / mean, calls - self.longest
        done = (length if length < 1.0 else 1.0) - (1 - left / every)
        departures = wrong_tool + wrong_arguments + extra + missing
        nearest, covered, done_calls, alike = self.calls.likeness(run.calls)
        so_far: list[float] = [
            run.surprise / number,
            run.worst,
            run.last,
            departures if departures < 8 else 8,
            wrong_tool if wrong_tool < 5 else 5,
            wrong_arguments if wrong_arguments < 5 else 5,
            extra if extra < 5 else 5,
            missing if missing < 5 else 5,
            first_two if first_two < 1 else 1,
            early if early < 1 else 1,
            late if late < 5 else 5,
            same if same < 4 else 4,
            again if again < 5 else 5,
            failed if failed < 4 else 4,
            failed / number,
            failed_last,
            failed_writes if failed_writes < 3 else 3,
            new_reads if new_reads < 3 else 3,
            new_writes if new_writes < 2 else 2,
            new_read_arguments if new_read_arguments < 4 else 4,
            new_write_arguments if new_write_arguments < 4 else 4,
            known_writes if known_writes < 3 else 3,
            (known_reads if known_reads < 5 else 5) / number,
            hasty if hasty < 3 else 3,
            length if length < 3.0 else 3.0,
            0 if over < 0 else over if over < 6 else 6,
            left / every,
            done if done > 0.0 else 0.0,
            likeness,
            nearest,
            covered,
            done_calls,
            alike,
            run.calls.begun / calls if calls else 1.0,
        ]
        if not ended:
            return so_far + _NOT_ENDED
        short = self.shortest - calls
        return [
            *so_far,
            1,
            self.ending(run.previous),
            left,
            unwritten,
            short if short > 0 else 0,
            calls == 0,
            elsewhere,
            failed_last,
            likeness,
            new_write_arguments if new_write_arguments < 3 else 3,
            known_writes if known_writes < 3 else 3,
            nearest,
        ]


def _jaccard(mask: int, called: int) -> float:
    both = (mask | called).bit_count()
    return (mask & called).bit_count() / both if both else 1.0


_NOT_ENDED: Final = [0.0] * sum(each.group == "end" for each in FEATURES.values())
