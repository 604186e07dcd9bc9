"""The verdicts on a session as a whole: given, taken back, and final."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from monitor.records import Obstacle
from monitor.session.timing import Missed

__all__ = ["Declared", "Key", "News", "SessionVerdicts"]

Key = tuple[Obstacle, str, bytes]


class News(NamedTuple):
    """A verdict on a session that is given, or taken back."""

    missed: Missed
    withdrawn: bool
    final: bool
    """Of what is taken back: it had been counted as final."""


@dataclass(slots=True)
class Declared:
    """A verdict on a session that was given."""

    missed: Missed
    fired_ns: int
    final: bool = False


class SessionVerdicts:
    """The verdicts on one judgement's session, by what does not change when calls come late."""

    __slots__ = ("_shifts", "declared", "next_ns", "trapped")

    def __init__(self) -> None:
        self.declared: dict[Key, Declared] = {}
        self.trapped = False
        """A trap was declared, and has not been taken back."""
        self.next_ns: int | None = None
        """When there may be news if no call comes; None: never."""
        self._shifts: dict[Key, int] = {}
        """By how much our clock was set while a limit ran: that much later it is over."""

    @property
    def open(self) -> bool:
        """True while some verdict is not final."""
        return any(not each.final for each in self.declared.values())

    def shift(self, running: Iterable[Missed], by: int) -> None:
        """Our clock was set: limits that run, and verdicts that were given, become no older by it."""
        self._shifts = {each.key: self._shifts.get(each.key, 0) + by for each in running}
        for declared in self.declared.values():
            declared.fired_ns += by

    def absorb(self, other: SessionVerdicts) -> None:
        """Takes what is known of another one's limits."""
        self.declared |= other.declared
        self._shifts = {**other._shifts, **self._shifts}

    def is_over(self, missed: Missed, now: int) -> bool:
        """True for a limit whose time is over by our clock."""
        return missed.due_ns + self._shifts.get(missed.key, 0) <= now

    def _fires_ns(self, missed: Missed, window_ns: int) -> int:
        return missed.fires_ns(window_ns) + self._shifts.get(missed.key, 0)

    def tools(self) -> set[int]:
        """The numbers of the tools that it names."""
        return {each.missed.mark.tool for each in self.declared.values()}

    def may_be_answered(self, start_ns: int) -> bool:
        """True where a call that started then was early enough for a limit that was declared missed."""
        return any(start_ns <= each.missed.due_ns for each in self.declared.values())

    def revise(
        self,
        known: list[Missed],
        waiting: list[Missed],
        now: int,
        window_ns: int,
        *,
        over: bool,
    ) -> tuple[list[News], list[Missed]]:
        """Takes what is missed by now.

        Args:
            known: what was missed, or is held to be.
            waiting: what is not due yet.
            now: Unix nanoseconds.
            window_ns: a verdict is final so long after it was given.
            over: the session has ended: every verdict is final.

        Returns:
            What is given or taken back, and what has become final.
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

    def _give(self, current: dict[Key, Missed], now: int) -> list[News]:
        news = []
        for key, missed in current.items():
            declared = self.declared.get(key)
            if declared is None:
                self.declared[key] = Declared(missed, now)
                news.append(News(missed, False, False))
            else:
                declared.missed = missed
        return news

    def _finalise(self, before: int, *, over: bool) -> list[Missed]:
        final = []
        for declared in self.declared.values():
            if not declared.final and (over or declared.fired_ns <= before):
                declared.final = True
                final.append(declared.missed)
        return final

    def _plan(self, found: list[Missed], now: int, window_ns: int) -> None:
        times = [
            self._fires_ns(each, window_ns) for each in found if each.key not in self.declared
        ]
        times += [
            each.fired_ns + window_ns for each in self.declared.values() if not each.final
        ]
        self.next_ns = min((time for time in times if time > now), default=None)
