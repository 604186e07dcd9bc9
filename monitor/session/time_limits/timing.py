"""Deadlines, idle limits and traps over the calls of one judgement, on the calls' own times.

Idea: a `SessionTiming` takes the calls in the order of the log, as an `AutomatonRun` does. A call that answers a
deadline stops its clock, a call that begins one starts it. A limit that ends before the next call
starts is missed. `DeadlineTimer` decides whether a missing call may still arrive.

Invariant: the result depends on the log alone, not on the order of arrival.

Example: `pay` must follow `order` within 60 s. `order` at 10 s starts the clock. A call at 80 s finds
that the limit ended at 70 s, so it is missed. A `pay` at 65 s, even if it arrives later, stops the
clock in time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from monitor.alphabet.pattern_words import any_of, quoted, shortened
from monitor.automaton.position import Position
from monitor.limits import SECOND
from monitor.records import Kind, Obstacle
from monitor.session.judge.judge import CONTROL_TOKEN, PROGRESS, SELF_LOOP, Judge
from monitor.session.log.rows import Row
from monitor.spec.spec import Spec
from monitor.visibility.sight import Window, between

__all__ = ["MISSED_MAX", "ClockStart", "MissedLimit", "SessionTiming", "TimedCall", "certain"]

MISSED_MAX: Final = 64
"""Missed limits of folded calls that are kept, the latest."""

IDLE_TEXT: Final = "idle"

_DAY_SECONDS: Final = 24 * 60 * 60


class ClockStart(NamedTuple):
    """A call from which a clock runs."""

    step: int
    """Number of the step, from 1."""
    at_ns: int
    receipt_ns: int
    tool: int
    token: int
    trace_id: bytes
    span_id: bytes


class MissedLimit(NamedTuple):
    """A limit or trap that is missed, or is missed unless a call comes. Times are Unix nanoseconds."""

    kind: Kind
    obstacle: Obstacle
    rule: str
    """The text of the limit in the spec; "" for a trap."""
    mark: ClockStart
    due_ns: int
    """The end of the limit, by the times of the calls."""
    limit_ns: int

    @property
    def key(self) -> tuple[Obstacle, str, bytes]:
        """The identity of the verdict, which late calls do not change."""
        return self.obstacle, self.rule, self.mark.span_id

    def explanation(self, spec: Spec, state: str | None) -> str:
        """Why the session cannot finish or stands still, in a sentence; `state` is its present one, if known."""
        where = f" in state {quoted(state)}" if state is not None else ""
        if self.obstacle is Obstacle.TRAP:
            return shortened(f"no accepting state can be reached any more{where}")
        limit = f"{self.limit_ns / SECOND:g} s"
        due = f"was due at {_clock(self.due_ns)}"
        if self.obstacle is Obstacle.IDLE:
            return shortened(f"no call came within {limit}{where}; one {due}")
        for deadline in spec.timing.deadlines:
            if deadline.text == self.rule:
                names = spec.machine.symbols
                then = any_of([names[symbol] for symbol in sorted(deadline.then)])
                first = any_of([names[symbol] for symbol in sorted(deadline.first)])
                return shortened(f"{then} did not follow {first} within {limit}; it {due}")
        return ""

    def fires_ns(self, window_ns: int) -> int:
        """When it may be declared: once a call that answers it has had time to arrive.

        A span is sent after its end, often in a later batch, and an early verdict would be withdrawn.
        So the limit, or the window if that is shorter, must also have passed since the receipt.
        """
        return max(self.due_ns, self.mark.receipt_ns + min(self.limit_ns, window_ns))


class TimedCall(NamedTuple):
    """One call as judged, and where it stands."""

    code: int
    token: int
    step: int
    row: Row
    before: Position


class _Running(NamedTuple):
    """A deadline's clock."""

    mark: ClockStart
    over: bool = False
    """True once it is missed and noted."""


class SessionTiming:
    """The clocks after a prefix of the calls, and what is missed so far."""

    __slots__ = ("_idle_ns", "_judge", "_last", "_receipt_ns", "_running", "_trapped", "missed")

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        bounds = judge.bounds
        self._running: list[_Running | None] = [None] * (len(bounds.deadlines) if bounds else 0)
        self._last: ClockStart | None = None
        """The call that ended last. Its `at_ns` is its end."""
        self._receipt_ns = 0
        self._idle_ns = 0
        self._trapped = False
        self.missed: list[MissedLimit] = []

    def copy(self) -> SessionTiming:
        twin = SessionTiming(self._judge)
        twin._running = list(self._running)
        twin._last, twin._receipt_ns = self._last, self._receipt_ns
        twin._idle_ns, twin._trapped = self._idle_ns, self._trapped
        twin.missed = list(self.missed)
        return twin

    def tools(self) -> set[int]:
        """The numbers of the tools of the calls that it keeps, which may be folded."""
        marks = [each.mark for each in (*self._running, *self.missed) if each is not None]
        if self._last is not None:
            marks.append(self._last)
        return {mark.tool for mark in marks}

    def renumber(self, tools: Mapping[int, int]) -> None:
        """Gives the tools of the calls that it keeps other numbers."""
        self._running = [
            each._replace(mark=_renumbered(each.mark, tools)) if each is not None else None
            for each in self._running
        ]
        self.missed = [renumbered(each, tools) for each in self.missed]
        if self._last is not None:
            self._last = _renumbered(self._last, tools)

    # --- calls ------------------------------------------------------------------------------

    def take(self, group: Iterable[TimedCall], position: Position) -> None:
        """Takes calls that are judged together, and the position after them."""
        bounds = self._judge.bounds
        assert bounds is not None
        mark = None
        for each in group:
            mark = self._take(each)
        self._idle_ns = bounds.idle_ns(position)
        trapped = bool(bounds.traps) and bounds.hopeless(position)
        if trapped and not self._trapped and mark is not None:
            self.missed.append(
                MissedLimit(Kind.CANNOT_FINISH, Obstacle.TRAP, "", mark, mark.at_ns, 0)
            )
        self._trapped = trapped

    def _take(self, call: TimedCall) -> ClockStart:
        row = call.row
        self._pass(row.at)
        mark = ClockStart(
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

    def _answer(self, mark: ClockStart) -> None:
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

    def _perhaps_answer(self, call: TimedCall) -> None:
        """Stops the clocks that a harmful call answers in another reading, in which it takes effect."""
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
        self.missed += [each for each in self.waiting() if each.due_ns < at_ns]
        for number, running in enumerate(self._running):
            if running is not None and self._due(number, running) < at_ns:
                self._running[number] = running._replace(over=True)

    def _due(self, number: int, running: _Running) -> int:
        bounds = self._judge.bounds
        assert bounds is not None
        return running.mark.at_ns + bounds.deadlines[number].within_ns

    # --- what is open -------------------------------------------------------------------------

    def waiting(self) -> Iterator[MissedLimit]:
        """The running limits, each as it is missed if no call comes in time."""
        bounds = self._judge.bounds
        assert bounds is not None
        for number, running in enumerate(self._running):
            if running is not None and not running.over:
                deadline, due_ns = bounds.deadlines[number], self._due(number, running)
                yield MissedLimit(
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
            yield MissedLimit(Kind.STALLED, Obstacle.IDLE, rule, mark, due_ns, self._idle_ns)

    def forget(self) -> None:
        """Keeps only the latest `MISSED_MAX` missed limits."""
        del self.missed[:-MISSED_MAX]


def certain(found: Iterable[MissedLimit], windows: Sequence[Window]) -> Sequence[MissedLimit]:
    """The missed limits for which no call may be missing while they ran: what is missing later answers none of them.

    Args:
        found: the limits.
        windows: in which calls may be missing.
    """
    if not windows:
        return list(found)
    return [each for each in found if not between(windows, each.mark.at_ns, each.due_ns)]


def _clock(at_ns: int) -> str:
    """The time of the day, in UTC."""
    seconds = at_ns // SECOND % _DAY_SECONDS
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"


def renumbered(missed: MissedLimit, tools: Mapping[int, int]) -> MissedLimit:
    """The same with the tool's other number."""
    return missed._replace(mark=_renumbered(missed.mark, tools))


def _renumbered(mark: ClockStart, tools: Mapping[int, int]) -> ClockStart:
    return mark._replace(tool=tools[mark.tool])
