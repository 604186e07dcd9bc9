"""Deadlines, idle limits and traps over the calls of one judgement, on the calls' own times.

Everything follows from the log and its order, so the order of arrival does not matter.
`DeadlineTimer` decides whether a missing call may still arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from monitor.automaton.position import Position
from monitor.records import Kind, Obstacle
from monitor.session.judge import CONTROL_TOKEN, PROGRESS, SELF_LOOP, Judge
from monitor.session.log.rows import Row

__all__ = ["MISSED_MAX", "Mark", "Missed", "Taken", "Timing", "certain"]

MISSED_MAX: Final = 64
"""Missed limits of folded calls that are kept, the latest."""

IDLE_TEXT: Final = "idle"


class Mark(NamedTuple):
    """A call that a clock runs from."""

    step: int
    """From 1."""
    at_ns: int
    receipt_ns: int
    tool: int
    token: int
    trace_id: bytes
    span_id: bytes


class Missed(NamedTuple):
    """A limit that was not kept, or will not be. Times are Unix nanoseconds."""

    kind: Kind
    obstacle: Obstacle
    rule: str
    """What the spec says; "" for a trap."""
    mark: Mark
    due_ns: int
    """When it was over, on the calls' own time."""
    limit_ns: int

    @property
    def key(self) -> tuple[Obstacle, str, bytes]:
        """An identity that late calls do not change."""
        return self.obstacle, self.rule, self.mark.span_id

    def fires_ns(self, window_ns: int) -> int:
        """When it may be declared: once the calls that would answer it have had time to arrive.

        A span is sent after its end, in a batch even later, and an early verdict would be withdrawn. So the limit
        (at most the window) must also have passed since the receipt.
        """
        return max(self.due_ns, self.mark.receipt_ns + min(self.limit_ns, window_ns))


class Taken(NamedTuple):
    """One call as judged, and where it stands."""

    code: int
    token: int
    step: int
    row: Row
    before: Position


class _Running(NamedTuple):
    """A deadline's clock."""

    mark: Mark
    over: bool = False
    """It was missed, and found so."""


class Timing:
    """The clocks that run after some prefix of the calls, and what they have missed."""

    __slots__ = ("_idle_ns", "_judge", "_last", "_receipt_ns", "_running", "_trapped", "missed")

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        bounds = judge.bounds
        self._running: list[_Running | None] = [None] * (len(bounds.deadlines) if bounds else 0)
        self._last: Mark | None = None
        """The call that ended last; its `at_ns` is that end."""
        self._receipt_ns = 0
        self._idle_ns = 0
        self._trapped = False
        self.missed: list[Missed] = []

    def copy(self) -> Timing:
        twin = Timing(self._judge)
        twin._running = list(self._running)
        twin._last, twin._receipt_ns = self._last, self._receipt_ns
        twin._idle_ns, twin._trapped = self._idle_ns, self._trapped
        twin.missed = list(self.missed)
        return twin

    def tools(self) -> set[int]:
        """The numbers of the tools that it remembers, of calls that may be folded."""
        marks = [each.mark for each in (*self._running, *self.missed) if each is not None]
        if self._last is not None:
            marks.append(self._last)
        return {mark.tool for mark in marks}

    # --- calls ------------------------------------------------------------------------------

    def take(self, group: Iterable[Taken], position: Position) -> None:
        """Takes calls that are judged together, and where they have led."""
        bounds = self._judge.bounds
        assert bounds is not None
        mark = None
        for each in group:
            mark = self._take(each)
        self._idle_ns = bounds.idle_ns(position)
        trapped = bool(bounds.traps) and bounds.hopeless(position)
        if trapped and not self._trapped and mark is not None:
            self._miss(Kind.CANNOT_FINISH, Obstacle.TRAP, "", mark, mark.at_ns, 0)
        self._trapped = trapped

    def _take(self, call: Taken) -> Mark:
        row = call.row
        self._pass(row.at)
        mark = Mark(
            call.step, row.at, row.receipt, row.tool, call.token, row.trace_id, row.span_id
        )
        if call.token != CONTROL_TOKEN:
            if call.code in (PROGRESS, SELF_LOOP):
                self._answer(mark)
            elif not isinstance(call.before, int):
                self._perhaps_answer(call)
        end = max(row.at, row.end)
        self._receipt_ns = max(self._receipt_ns, row.receipt)
        if self._last is None or end >= self._last.at_ns:
            self._last = mark._replace(at_ns=end)
        return mark

    def _answer(self, mark: Mark) -> None:
        """Stops and starts clocks after a call that took effect.

        It stops clocks that it may answer, and starts clocks that it certainly begins.
        """
        meaning = self._judge.spec.alphabet.tokens[mark.token]
        bounds = self._judge.bounds
        assert bounds is not None
        for number, deadline in enumerate(bounds.deadlines):
            if self._running[number] and not deadline.then.isdisjoint(meaning.symbols):
                self._running[number] = None
            certain = meaning.exact and deadline.first.issuperset(meaning.symbols)
            if self._running[number] is None and certain:
                self._running[number] = _Running(mark)

    def _perhaps_answer(self, call: Taken) -> None:
        """A call that is harmful by the best reading may have taken effect by another one."""
        judge = self._judge
        meaning = judge.spec.alphabet.tokens[call.token]
        if not (meaning.effect and judge.stepper.chances(call.before, call.token).right):
            return
        assert judge.bounds is not None
        for number, deadline in enumerate(judge.bounds.deadlines):
            if not deadline.then.isdisjoint(meaning.symbols):
                self._running[number] = None

    def _pass(self, at_ns: int) -> None:
        """Advances to the time of a call: limits that ended before it are missed."""
        for missed in self.waiting():
            if missed.due_ns < at_ns:
                self._note(missed)
        for number, running in enumerate(self._running):
            if running is not None and self._due(number, running) < at_ns:
                self._running[number] = running._replace(over=True)

    def _due(self, number: int, running: _Running) -> int:
        bounds = self._judge.bounds
        assert bounds is not None
        return running.mark.at_ns + bounds.deadlines[number].within_ns

    def _miss(
        self, kind: Kind, obstacle: Obstacle, rule: str, mark: Mark, due_ns: int, limit_ns: int
    ) -> None:
        self._note(Missed(kind, obstacle, rule, mark, due_ns, limit_ns))

    def _note(self, missed: Missed) -> None:
        self.missed.append(missed)

    # --- what is open -------------------------------------------------------------------------

    def waiting(self) -> Iterator[Missed]:
        """The running limits, as they are missed if no call comes in time."""
        bounds = self._judge.bounds
        assert bounds is not None
        for number, running in enumerate(self._running):
            if running is not None and not running.over:
                deadline, due_ns = bounds.deadlines[number], self._due(number, running)
                yield Missed(
                    Kind.CANNOT_FINISH,
                    Obstacle.DEADLINE,
                    deadline.text,
                    running.mark,
                    due_ns,
                    deadline.within_ns,
                )
        if self._idle_ns and self._last is not None:
            mark = self._last._replace(receipt_ns=self._receipt_ns)
            rule = f"{IDLE_TEXT} {self._idle_ns / 1e9:g} s"
            due_ns = mark.at_ns + self._idle_ns
            yield Missed(Kind.STALLED, Obstacle.IDLE, rule, mark, due_ns, self._idle_ns)

    def forget(self) -> None:
        """Keeps the latest of what was missed."""
        del self.missed[:-MISSED_MAX]


def certain(found: Iterable[Missed], blind_ns: int) -> Sequence[Missed]:
    """Those that do not depend on a time from which calls may be missing."""
    return [each for each in found if each.mark.at_ns >= blind_ns]
