"""Gaps that orphans leave: a call that may belong to any conversation of its service may be missing in each of them.

Idea: an orphan (`orphans`) is filed under its trace. Other conversations of its service may lack it, at its time. So the
monitor is told that calls of the tool may be missing there (`Gap`), and is told otherwise once the orphan's conversation is
known. One gap stands for all orphans of a service and a tool, and its span is rounded, since each change of it has every
session look again.

Invariants: a gap covers the starts of the orphans it stands for, from before they are judged. It is lifted once none is
left, and narrowed at most every `REVIEW_NS`. An orphan whose conversation is never known counts for as long as a session
of its time may go on without a call.

Example: `look_up` arrives, whose agent's span is missing: calls of `look_up` may be missing in all conversations of the
service from its start on. So `pay` without `look_up` is possible harm in another one. The agent's span arrives, and
names yet another conversation: the gap is lifted, and `pay` is harmful for certain.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mypy_extensions import mypyc_attr

from collector.calls.batch import Batch
from collector.calls.call import Call
from collector.calls.records import Requester
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["Unplaced"]

SECOND: Final = 1_000_000_000

REVIEW_NS: Final = 2 * SECOND
SLACK_NS: Final = 10 * SECOND
"""So far beyond the latest orphan a gap reaches, so that it need not grow with each one."""

CALLS_MAX: Final = 8_192
"""Orphans that may still find their conversations; beyond it, the oldest is taken for one that does not."""

TOOLS_MAX: Final = 512
SERVICES_MAX: Final = 128
"""Gaps for one tool of one service each; beyond it, for all tools of a service; beyond that, for all services."""


@mypyc_attr(acyclic=True)
class _Place:
    """Orphans that one gap stands for."""

    __slots__ = ("calls", "gap", "lost", "namespace", "service", "tool")

    def __init__(self, namespace: str | None, service: str, tool: str) -> None:
        self.namespace = namespace
        self.service = service
        self.tool = tool
        self.calls: dict[Call, int] = {}
        """Orphans -> their starts."""
        self.lost: tuple[int, int] | None = None
        """First and last start of those beyond the bound."""
        self.gap: Gap | None = None

    def covers(self, start_ns: int) -> bool:
        """True if the gap that the monitor knows reaches a call's start."""
        return self.gap is not None and self.gap.since_ns <= start_ns <= self.gap.until_ns

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
            max(starts) + SLACK_NS,
            self.tool,
            self.namespace,
            self.service,
        )


class Unplaced:
    """The orphans of all services, and the gaps that stand for them.

    Args:
        batch: leads to the monitor.
        idle_ns: a session that made no call for so long has ended.
    """

    def __init__(self, batch: Batch, idle_ns: int) -> None:
        self._batch = batch
        self._idle_ns = idle_ns
        self._places: dict[tuple[str | None, str, str], _Place] = {}
        self._of: OrderedDict[Call, tuple[int, _Place]] = OrderedDict()
        """Since when each orphan has waited, the longest first, and its place."""
        self._emptied: dict[_Place, None] = {}
        """Places that may have no orphan left."""
        self._reviewed_ns = 0

    def add(self, requester: Requester, call: Call, now: int) -> None:
        """A call is an orphan, and about to be judged as one."""
        start_ns = call.outer.start_ns
        known = self._of.get(call)
        place = known[1] if known is not None else self._place(requester, call.outer.tool)
        if known is None:
            if len(self._of) >= CALLS_MAX:
                self._lose()
            self._of[call] = now, place
        place.calls[call] = start_ns
        if not place.covers(start_ns):
            self._note(place)

    def remove(self, call: Call) -> None:
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
            found = list(self._places.values())
        for place in found:
            self._review(place, now)
            if place.gap is None:
                self._places.pop((place.namespace, place.service, place.tool), None)

    def _review(self, place: _Place, now: int) -> None:
        if place.lost is not None and place.lost[1] + self._idle_ns < now:
            place.lost = None
        wanted, gap = place.wanted(), place.gap
        if wanted is None or gap is None or wanted.since_ns - gap.since_ns > SLACK_NS:
            self._note(place)

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

    def _place(self, requester: Requester, tool: str) -> _Place:
        namespace, service = requester
        places = self._places
        key: tuple[str | None, str, str] = (namespace, service, tool)
        if key not in places and len(places) >= TOOLS_MAX:
            key = (namespace, service, "")
            if key not in places and len(places) >= TOOLS_MAX + SERVICES_MAX:
                key = (None, "", "")
        found = places.get(key)
        if found is None:
            found = places[key] = _Place(*key)
        return found
