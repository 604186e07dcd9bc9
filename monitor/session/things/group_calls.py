"""A group of overlapping calls, as each thing has it: its own calls and those of unnamed tools.

Idea: what overlaps for the session may be a sequence for a thing, or a single call. So the part of a thing is a small
log, which an ordinary replay steps: it finds groups, orders and gaps of that part alone.

Example: `refund(A1)` overlaps `login`, and that overlaps `refund(B7)`. The part of A1 is the group of `refund(A1)` and
`login`; that of no thing is `login` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from monitor.alphabet.things import CallThings
from monitor.automaton.position import Position
from monitor.session.judge.judge import HARMFUL, Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.replay import Replay
from monitor.session.judgement.step_marks import UNJUDGED, JudgedStep
from monitor.session.log.log import SessionLog

__all__ = ["GroupCall", "GroupCalls", "vanishing"]


class GroupCall(NamedTuple):
    """A judged call of a group."""

    place: int
    token: int
    things: CallThings | None


_Part = tuple[tuple[int, int], ...]
"""The calls of one thing: place and token of each."""


class GroupCalls:
    """The judged calls of a group, ready to be stepped by each run.

    Args:
        replay: of the session's log.
        first: place of the first step of the group.
        end: the place behind its last step.
        calls: of the group, without those that are never judged.
        news: as for `Replay.step`.
    """

    def __init__(
        self, replay: Replay, first: int, end: int, calls: Sequence[GroupCall], *, news: bool
    ) -> None:
        self._replay = replay
        self._first = first
        self._end = end
        self._calls = calls
        self._news = news
        self._logs: dict[_Part, SessionLog] = {}
        self.keys = tuple(
            dict.fromkeys(
                key for call in calls if call.things is not None for key in call.things.keys
            )
        )
        """The things that the calls are known to carry, by their first call."""
        self.last_ns = replay.log.at(end - 1)
        """The `at` of its last step."""
        self.open = frozenset(
            call.place for call in calls if call.things is not None and call.things.is_open
        )
        """Places of calls that may be of any thing."""

    def of_nothing(self, run: AutomatonRun) -> list[JudgedStep]:
        """Steps the calls of unnamed tools."""
        return self._step(
            run, tuple((call.place, call.token) for call in self._calls if call.things is None)
        )

    def of_thing(self, run: AutomatonRun, key: bytes | None) -> list[JudgedStep]:
        """Steps the calls of a thing, and those that may be of it; None for a thing that no call carries."""
        judge = self._replay.judge
        part: list[tuple[int, int]] = []
        for place, token, things in self._calls:
            if things is None or (key is not None and key in things.keys):
                part.append((place, token))
            elif things.is_open:
                part.append((place, vanishing(judge, token)))
        return self._step(run, tuple(part))

    def is_doubted(self, place: int, code: int, before: Position, unsure: int) -> bool:
        """True if a harmful step may be right, and another call of the thing the harm.

        Args:
            place: of the step.
            code: what it is.
            before: the position of its thing before it.
            unsure: the number of calls beside it that may be none of the thing's: then no order says which call is harmful.
        """
        if code < HARMFUL or unsure:
            return code >= HARMFUL
        token = next(call.token for call in self._calls if call.place == place)
        return not self._replay.judge.is_certain_call(before, token)

    def unsure(self, key: bytes | None) -> int:
        """The number of its calls that may be none of the thing's."""
        return sum(
            call.place in self.open and (call.things is None or key not in call.things.keys)
            for call in self._calls
        )

    def value(self, key: bytes) -> Any:
        """What is shown of a thing; None if nothing is."""
        for call in self._calls:
            if call.things is not None and call.things.values and key in call.things.keys:
                return call.things.values[call.things.keys.index(key)]
        return None

    def _step(self, run: AutomatonRun, part: _Part) -> list[JudgedStep]:
        whole, steps = self._replay, list[JudgedStep]()
        log = self._logs.get(part)
        if log is None:
            log = self._logs[part] = _log_of(whole.log, part)
        replay = Replay(
            whole.judge,
            log,
            whole.windows,
            wide=True,
            begin_ns=whole.before(self._first),
            budget=whole.budget,
        )
        for stretch in replay.stretches(0):
            replay.step(run, stretch, steps, news=self._news)
        last = self._end - 1
        if whole.windows:
            reached = log.at(-1) if part else whole.before(self._first)
            replay.pass_time(run, reached, whole.log.at(last), whole.log.receipt(last))
        return [step._replace(place=part[step.place][0]) for step in steps]


def vanishing(judge: Judge, token: int) -> int:
    """The token of the same call, where it may be none of the thing's."""
    return judge.spec.alphabet.vanishing(judge.plain_of(token))


def _log_of(whole: SessionLog, part: _Part) -> SessionLog:
    """A log of some steps of another one, with their tokens."""
    log = SessionLog(by_answer=whole.by_answer)
    for place, _ in part:
        log.take(whole, place)
    for number, (_, token) in enumerate(part):
        log.set_token(number, token)
        log.set_mark(number, UNJUDGED)
    return log
