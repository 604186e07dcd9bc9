"""What a judgement's session has come to: verdicts on the session, told, revised, and final."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from monitor.records import Kind, Obstacle
from monitor.session.judgement import Judgement
from monitor.session.timing import MISSED_MAX, Missed, Timing, certain

__all__ = ["News", "Outlook", "Told", "cannot_finish", "missed_of", "shown", "survey"]

Key = tuple[Obstacle, str, bytes]


class News(NamedTuple):
    """A verdict on a session that is given, or taken back."""

    missed: Missed
    withdrawn: bool
    final: bool
    """Of what is taken back: it had been counted as final."""


@dataclass(slots=True)
class Told:
    """A verdict on a session that was given."""

    missed: Missed
    fired_ns: int
    final: bool = False


class Outlook:
    """The verdicts on one judgement's session, by what does not change when calls come late."""

    __slots__ = ("next_ns", "told", "trapped")

    def __init__(self) -> None:
        self.told: dict[Key, Told] = {}
        self.trapped = False
        """A trap was told, and has not been taken back."""
        self.next_ns: int | None = None
        """When there may be news if no call comes; None: never."""

    @property
    def open(self) -> bool:
        """True while some verdict is not final."""
        return any(not each.final for each in self.told.values())

    def tools(self) -> set[int]:
        """The numbers of the tools that it names."""
        return {each.missed.mark.tool for each in self.told.values()}

    def may_be_answered(self, start_ns: int) -> bool:
        """True where a call of that time was early enough for something that was told."""
        return any(start_ns <= each.missed.due_ns for each in self.told.values())

    def review(
        self, judgement: Judgement, now: int, window_ns: int, *, over: bool, explicit: bool
    ) -> tuple[list[News], list[Missed]]:
        """Looks at the session anew.

        Args:
            judgement: whose outlook it is.
            now: Unix nanoseconds.
            window_ns: a verdict is final so long after it was given.
            over: the session has ended: every verdict is final.
            explicit: by a sign that nothing more will come.

        Returns:
            What is given or taken back, and what has become final.
        """
        known, waiting = _known(judgement, now, over=over, explicit=explicit)
        current = {
            each.key: each
            for each in known
            if over or each.key in self.told or each.fires_ns(window_ns) <= now
        }
        news = [*self._withdraw(judgement, current), *self._give(current, now)]
        final = self._finalise(now if over else now - window_ns, over=over)
        self._plan([*waiting, *known], now, window_ns)
        self.trapped = any(key[0] is Obstacle.TRAP for key in self.told)
        return news, final

    def _withdraw(self, judgement: Judgement, current: dict[Key, Missed]) -> list[News]:
        gone = [key for key in self.told if key not in current]
        base = judgement.base.timing if judgement.base else None
        if base is not None and len(base.missed) >= MISSED_MAX:
            # What hangs on a folded call may have been forgotten there: it stays as it was told.
            gone = [key for key in gone if judgement.log.find(key[2]) is not None]
        told = [self.told.pop(key) for key in gone]
        return [News(each.missed, True, each.final) for each in told]

    def _give(self, current: dict[Key, Missed], now: int) -> list[News]:
        news = []
        for key, missed in current.items():
            told = self.told.get(key)
            if told is None:
                self.told[key] = Told(missed, now)
                news.append(News(missed, False, False))
            else:
                told.missed = missed
        return news

    def _finalise(self, before: int, *, over: bool) -> list[Missed]:
        final = []
        for told in self.told.values():
            if not told.final and (over or told.fired_ns <= before):
                told.final = True
                final.append(told.missed)
        return final

    def _plan(self, found: list[Missed], now: int, window_ns: int) -> None:
        times = [each.fires_ns(window_ns) for each in found if each.key not in self.told]
        times += [each.fired_ns + window_ns for each in self.told.values() if not each.final]
        self.next_ns = min((time for time in times if time > now), default=None)


def survey(judgement: Judgement) -> Timing:
    """The clocks after all calls of the log."""
    base, judge = judgement.base, judgement.judge
    timing = base.timing.copy() if base and base.timing else Timing(judge)
    for steps, position in judgement.grouped():
        timing.take(steps, position)
    return timing


def _known(
    judgement: Judgement, now: int, *, over: bool, explicit: bool
) -> tuple[list[Missed], list[Missed]]:
    """What was missed for certain by now, and what still runs."""
    timing = survey(judgement)
    blind_ns = judgement.blind_ns if judgement.joined else 0
    waiting = certain(timing.waiting(), blind_ns)
    known = list(certain(timing.missed, blind_ns))
    for each in waiting:
        never = explicit and each.obstacle is Obstacle.DEADLINE
        if each.due_ns <= now or (over and never):
            known.append(each)
    return known, list(waiting)


def cannot_finish(judgement: Judgement) -> bool:
    """True where the session can no longer finish, as far as was told."""
    outlook = judgement.outlook
    return outlook is not None and any(
        each.missed.kind is Kind.CANNOT_FINISH for each in outlook.told.values()
    )


def missed_of(judgement: Judgement) -> list[Told]:
    """The verdicts on the session, in the order of their times."""
    outlook = judgement.outlook
    told = outlook.told.values() if outlook is not None else ()
    return sorted(told, key=lambda each: (each.missed.due_ns, *each.missed.key))


def shown(judgement: Judgement) -> list[dict[str, Any]]:
    """The same as the judgement object has them."""
    return [
        {
            "kind": missed.kind.value,
            "reason": missed.obstacle.value,
            "rule": missed.rule or None,
            "step": _step(judgement, missed),
            "span_id": missed.mark.span_id.hex(),
            "since_ns": missed.mark.at_ns,
            "due_ns": missed.due_ns,
            "final": final,
        }
        for missed, final in ((told.missed, told.final) for told in missed_of(judgement))
    ]


def _step(judgement: Judgement, missed: Missed) -> int:
    """Where the call stands by now: calls that came late may stand before it."""
    place = judgement.log.find(missed.mark.span_id)
    return missed.mark.step if place is None else judgement.folded + place + 1
