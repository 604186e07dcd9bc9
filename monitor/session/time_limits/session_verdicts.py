"""The verdicts on a session as a whole (missed limits and traps): given, withdrawn, and final.

Idea: each review computes from the calls what is missed by now, and compares that with the verdicts
given before. What is new is given, what no longer holds is withdrawn. A verdict becomes final one
window after it was given, or when the session ends.

Invariant: a verdict is identified by obstacle, rule and the span id of the call that the limit runs
from (`MissedLimit.key`). A late call does not change this key, so no verdict is given twice.

Example: `pay` must follow `order` within 60 s. 60 s after `order`, a verdict is given. Then `pay`
arrives, which started after 50 s: the review finds nothing missed, and the verdict is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from monitor.records import Obstacle
from monitor.session.time_limits.timing import MissedLimit, renumbered

__all__ = ["Key", "News", "SessionVerdict", "SessionVerdicts"]

Key = tuple[Obstacle, str, bytes]


class News(NamedTuple):
    """A verdict on a session that is given or withdrawn."""

    missed: MissedLimit
    withdrawn: bool
    final: bool
    """True if it is withdrawn after it was counted as final."""


@dataclass(slots=True)
class SessionVerdict:
    """A verdict on a session that was given, at `fired_ns`."""

    missed: MissedLimit
    fired_ns: int
    final: bool = False


class SessionVerdicts:
    """The verdicts on the session of one judgement."""

    __slots__ = ("_shifts", "declared", "next_ns", "trapped")

    def __init__(self) -> None:
        self.declared: dict[Key, SessionVerdict] = {}
        """The verdicts that were given and not withdrawn."""
        self.trapped = False
        """True while a verdict on a trap holds."""
        self.next_ns: int | None = None
        """When the next review is due if no call comes; None if never."""
        self._shifts: dict[Key, int] = {}
        """Nanoseconds by which our clock was set while a limit ran. The limit ends later by as much."""

    @property
    def given_ns(self) -> int:
        """When the latest verdict that holds was given; 0 without any."""
        return max((each.fired_ns for each in self.declared.values()), default=0)

    @property
    def open(self) -> bool:
        """True while some verdict is not final."""
        return any(not each.final for each in self.declared.values())

    def shift(self, running: Iterable[MissedLimit], by: int) -> None:
        """Adapts to a jump of our clock by `by` nanoseconds, which counts for no limit and no window."""
        self._shifts = {each.key: self._shifts.get(each.key, 0) + by for each in running}
        for declared in self.declared.values():
            declared.fired_ns += by

    def absorb(self, other: SessionVerdicts) -> None:
        """Takes over the verdicts on a session that is merged into this one."""
        self.declared |= other.declared
        self._shifts = {**other._shifts, **self._shifts}

    def is_over(self, missed: MissedLimit, now: int) -> bool:
        """True if the time of a limit is over by our clock."""
        return missed.due_ns + self._shifts.get(missed.key, 0) <= now

    def _fires_ns(self, missed: MissedLimit, window_ns: int) -> int:
        return missed.fires_ns(window_ns) + self._shifts.get(missed.key, 0)

    def tools(self) -> set[int]:
        """The numbers of the tools that its verdicts name."""
        return {each.missed.mark.tool for each in self.declared.values()}

    def renumber(self, tools: Mapping[int, int]) -> None:
        """Gives the tools that its verdicts name other numbers."""
        for each in self.declared.values():
            each.missed = renumbered(each.missed, tools)

    def may_be_answered(self, start_ns: int) -> bool:
        """True if a call with this start was in time for a limit that was declared missed."""
        return any(start_ns <= each.missed.due_ns for each in self.declared.values())

    def revise(
        self,
        known: list[MissedLimit],
        waiting: list[MissedLimit],
        now: int,
        window_ns: int,
        *,
        over: bool,
    ) -> tuple[list[News], list[MissedLimit]]:
        """Compares what is missed by now with the verdicts given before.

        Args:
            known: limits and traps that are missed.
            waiting: limits that still run.
            now: Unix nanoseconds.
            window_ns: time from a verdict until it is final.
            over: True if the session has ended: every verdict is final.

        Returns:
            The verdicts given or withdrawn, and those that have become final.
        """
        current = {
            each.key: each
            for each in known
            if over or each.key in self.declared or self._fires_ns(each, window_ns) <= now
        }
        gone = [self.declared.pop(key) for key in list(self.declared) if key not in current]
        withdrawn = [News(each.missed, True, each.final) for each in gone]
        news = [*withdrawn, *self._give(current, now)]
        final = self._finalise(now if over else now - window_ns, over=over)
        self._plan([*waiting, *known], now, window_ns)
        self.trapped = any(key[0] is Obstacle.TRAP for key in self.declared)
        return news, final

    def _give(self, current: dict[Key, MissedLimit], now: int) -> list[News]:
        news = []
        for key, missed in current.items():
            declared = self.declared.get(key)
            if declared is None:
                self.declared[key] = SessionVerdict(missed, now)
                news.append(News(missed, False, False))
            else:
                declared.missed = missed
        return news

    def _finalise(self, before: int, *, over: bool) -> list[MissedLimit]:
        final = []
        for declared in self.declared.values():
            if not declared.final and (over or declared.fired_ns <= before):
                declared.final = True
                final.append(declared.missed)
        return final

    def _plan(self, found: list[MissedLimit], now: int, window_ns: int) -> None:
        times = [
            self._fires_ns(each, window_ns) for each in found if each.key not in self.declared
        ]
        times += [
            each.fired_ns + window_ns for each in self.declared.values() if not each.final
        ]
        self.next_ns = min((time for time in times if time > now), default=None)
