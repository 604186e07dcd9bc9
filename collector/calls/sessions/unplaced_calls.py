"""Gaps that orphans leave: a call that may belong to any conversation of its service may be missing in each of them.

Idea: an orphan (`orphans`) is filed under its trace. Other conversations of its service may lack it, at its time. So the
monitor is told that calls of the tool may be missing there (`Gap`), and is told otherwise once the orphan's conversation is
known. One gap stands for the orphans of a service and a tool that begin in the same `SLOT_NS`, since each change has every
session look again. So a span above that is lost leaves a gap of seconds, whatever other orphans come and go later: sessions
that are proven to begin after it are not concerned.

Invariants: a gap covers the starts of the orphans it stands for, from before they are judged. It is lifted once none is
left, and from its end on narrowed to those that are left, at most every `REVIEW_NS`. Where they are too many, the two oldest become one. An
orphan whose conversation is never known counts for as long as a session of its time may go on without a call.

A call whose times cannot be right may have been made at any time in the window before its receipt: it is among the
orphans of its receipt, and the gap reaches back so far.

By the clock of their sender, orphans may be hours old. The gap has their times, and says when they came: so long it concerns
sessions that begin.

Example: `look_up` arrives, whose agent's span is missing: calls of `look_up` may be missing in all conversations of the
service from its start on. So `pay` without `look_up` is possible harm in another one. The agent's span arrives, and
names yet another conversation: the gap is lifted, and `pay` is harmful for certain.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mypy_extensions import mypyc_attr

from collector.calls.batch import EventBatch
from collector.calls.call.call import LogicalCall
from collector.calls.records import Requester
from monitor.judging.clocks.mistimed_calls import COARSE_NS
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["UnplacedCalls"]

SECOND: Final = 1_000_000_000

REVIEW_NS: Final = 2 * SECOND
SLOT_NS: Final = 10 * SECOND
"""Orphans that begin within it are one gap, which need not grow with each one."""

SLOTS_MAX: Final = 8
"""Gaps for one tool of one service; beyond it, the two oldest are one."""

LATE_NS: Final = 60 * SECOND
"""Orphans that come later than this behind the end of their gap may be of a clock that is behind: the gap says when they came."""

CALLS_MAX: Final = 8_192
"""Orphans that may still find their conversations; beyond it, the oldest is taken for one that does not."""

TOOLS_MAX: Final = 512
SERVICES_MAX: Final = 128
"""Gaps for one tool of one service each, in all; beyond it each has one, and further tools share one for their service;
beyond that, one is for all services."""

_Key = tuple[str | None, str, str]
"""Namespace, service, tool."""


@mypyc_attr(acyclic=True)
class _Place:
    """Orphans that one gap stands for: those of one tool of one service that begin in a time span."""

    __slots__ = (
        "begin_ns",
        "calls",
        "end_ns",
        "gap",
        "lost",
        "namespace",
        "service",
        "told_ns",
        "tool",
    )

    def __init__(self, key: _Key, start_ns: int) -> None:
        self.namespace, self.service, self.tool = key
        self.begin_ns = start_ns - start_ns % SLOT_NS
        self.end_ns = self.begin_ns + SLOT_NS
        self.calls: dict[LogicalCall, int] = {}
        """Orphans -> their starts, or from when on they may have begun."""
        self.lost: tuple[int, int] | None = None
        """First and last start of those beyond the bound."""
        self.gap: Gap | None = None
        self.told_ns = 0
        """When its orphans came, to a minute, where that is long behind their times; else 0."""

    @property
    def key(self) -> _Key:
        return self.namespace, self.service, self.tool

    def has(self, start_ns: int) -> bool:
        """True if an orphan that begins then is one of these."""
        return self.begin_ns <= start_ns < self.end_ns

    def join(self, later: _Place) -> None:
        """Stands for the orphans of another place, too."""
        self.end_ns = later.end_ns
        self.calls |= later.calls
        self.told_ns = max(self.told_ns, later.told_ns)
        for start_ns in later.lost or ():
            self.lose(start_ns)

    def covers(self, start_ns: int) -> bool:
        """True if the gap that the monitor knows reaches a call's start, and says when it came."""
        gap = self.gap
        return (
            gap is not None
            and gap.since_ns <= start_ns <= gap.until_ns
            and gap.told_ns == self.told_ns
        )

    def hear(self, now: int) -> None:
        """An orphan has come."""
        if now - max(self.end_ns, self.told_ns) > LATE_NS:
            self.told_ns = now

    def lose(self, start_ns: int) -> None:
        """An orphan is taken for one that finds no conversation."""
        since, until = self.lost or (start_ns, start_ns)
        self.lost = min(since, start_ns), max(until, start_ns)

    def wanted(self) -> Gap | None:
        """The gap that stands for all."""
        starts = [*self.calls.values(), *(self.lost or ())]
        if not starts:
            return None
        return Gap(
            Cause.UNPLACED,
            min(starts),
            self.end_ns,
            self.tool,
            self.namespace,
            self.service,
            told_ns=self.told_ns,
        )


class UnplacedCalls:
    """The orphans of all services, and the gaps that stand for them.

    Args:
        batch: leads to the monitor.
        idle_ns: a session that made no call for so long has ended.
        window_ns: so long before its receipt a call may have been made whose times cannot be right.
    """

    def __init__(self, batch: EventBatch, idle_ns: int, window_ns: int) -> None:
        self._batch = batch
        self._idle_ns = idle_ns
        self._window_ns = window_ns
        self._places: dict[_Key, list[_Place]] = {}
        """Places of a tool of a service, in the order of their times."""
        self._count = 0
        """Places in all."""
        self._of: OrderedDict[LogicalCall, tuple[int, _Place]] = OrderedDict()
        """Place of each waiting orphan and the start of its wait, the longest first."""
        self._emptied: dict[_Place, None] = {}
        """Places that may have no orphan left."""
        self._reviewed_ns = 0

    def __len__(self) -> int:
        """Orphans that wait."""
        return len(self._of)

    def add(self, requester: Requester, call: LogicalCall, now: int) -> None:
        """A call is an orphan, and about to be judged as one."""
        outer, known = call.outer, self._of.get(call)
        start_ns = outer.start_ns
        since_ns = start_ns
        if not start_ns or outer.end_ns < start_ns - COARSE_NS:
            start_ns = known[0] if known is not None else now
            since_ns = start_ns - self._window_ns
        if known is not None and known[1].has(start_ns):
            place = known[1]
        else:
            self.remove(call)
            if len(self._of) >= CALLS_MAX:
                self._lose()
            place = self._place(requester, call.outer.tool, start_ns)
            self._of[call] = now, place
        place.calls[call] = since_ns
        place.hear(now)
        if not place.covers(since_ns):
            self._note(place)

    def remove(self, call: LogicalCall) -> None:
        """A call is no orphan."""
        known = self._of.pop(call, None)
        if known is not None:
            place = known[1]
            del place.calls[call]
            if not place.calls:
                self._emptied[place] = None

    def expire(self, now: int) -> None:
        """Time has passed, or a request has: gaps without orphans are lifted, and others narrowed to what is left."""
        while self._of:
            call = next(iter(self._of))
            if self._of[call][0] + self._idle_ns > now:
                break
            self.remove(call)
        found = list(self._emptied)
        self._emptied.clear()
        if self._places and not 0 <= now - self._reviewed_ns < REVIEW_NS:
            self._reviewed_ns = now
            found = [place for places in self._places.values() for place in places]
        for place in found:
            self._review(place, now)
            if place.gap is None:
                self._drop(place)

    def _review(self, place: _Place, now: int) -> None:
        if place.lost is not None and max(place.lost[1], place.told_ns) + self._idle_ns < now:
            place.lost = None
        wanted, gap = place.wanted(), place.gap
        if wanted is None or gap is None or (wanted != gap and now >= place.end_ns):
            self._note(place)

    def _drop(self, place: _Place) -> None:
        """A place has no orphan left."""
        places = self._places.get(place.key, [])
        if place in places:
            places.remove(place)
            self._count -= 1
            if not places:
                del self._places[place.key]

    def _lose(self) -> None:
        """There are too many: the oldest is taken for one that finds no conversation."""
        call, (_, place) = self._of.popitem(last=False)
        place.lose(place.calls.pop(call))

    def _note(self, place: _Place) -> None:
        """Tells the monitor of a place's gap, and takes the former one back."""
        former, place.gap = place.gap, place.wanted()
        if place.gap is not None:
            self._batch.note_gap(place.gap)
        if former is not None and former != place.gap:
            self._batch.lift_gap(former)

    def _place(self, requester: Requester, tool: str, start_ns: int) -> _Place:
        """The place of an orphan; it is made if needed."""
        key = self._key(requester, tool)
        places = self._places.setdefault(key, [])
        for place in reversed(places):
            if place.has(start_ns):
                return place
        found = _Place(key, start_ns)
        places.append(found)
        places.sort(key=_begin)
        self._count += 1
        while len(places) > 1 and (len(places) > SLOTS_MAX or self._count > TOOLS_MAX):
            first, second = places[0], places.pop(1)
            self._join(first, second)
            found = first if found is second else found
        return found

    def _key(self, requester: Requester, tool: str) -> _Key:
        namespace, service = requester
        key: _Key = (namespace, service, tool)
        if key not in self._places and self._count >= TOOLS_MAX:
            key = (namespace, service, "")
            if key not in self._places and self._count >= TOOLS_MAX + SERVICES_MAX:
                key = (None, "", "")
        return key

    def _join(self, first: _Place, second: _Place) -> None:
        """Makes one place of two."""
        self._count -= 1
        for call in second.calls:
            self._of[call] = self._of[call][0], first
        first.join(second)
        if self._emptied.pop(second, None) is not None:
            self._emptied[first] = None
        self._note(first)
        if second.gap is not None:
            self._batch.monitor.gaps.lift(second.gap)


def _begin(place: _Place) -> int:
    return place.begin_ns
