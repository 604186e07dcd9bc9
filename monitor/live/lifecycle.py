"""The life of sessions: how they open, go on after an end, become final, and end.

Idea: the table knows which sessions are live. A session is looked at again when its verdicts may be final: a window after
the first call that is not. Time alone ends idle ones, which the table picks by their last call (`Table.idle` in
`session/table`); too many, or too large ones, end before their time.

Invariants:

- Each session ends once, unless a call wakes it; what its end counts is counted once.
- An error while one session is looked at keeps no other one from becoming final.

Example: the last call of a session was received at 12:00:00, the window is 30 s, and sessions are idle for 30 min. Its
verdicts are final at 12:00:30, and at 12:30:00 it has ended. A call at 12:40:00 wakes it, with all that it knew.
"""

from __future__ import annotations

from typing import Final

from monitor.aggregate.totals import SessionFinished
from monitor.judging.clocks.leading_calls import LEAD_NS
from monitor.limits import SECOND
from monitor.live.monitor_state import MonitorState
from monitor.live.session_facts import SessionFacts
from monitor.records import SessionKey, ToolCall
from monitor.session.judgement.finality import finalise
from monitor.session.judgement.fold_log import fold
from monitor.session.judgement.judgement import Judgement
from monitor.session.session import Ended, Session, without_spec
from monitor.session.tool_translation import tools
from monitor.visibility.cause import Cause

__all__ = ["GROUP_WINDOWS", "Lifecycle"]

GROUP_WINDOWS: Final = 6
"""Most windows that a verdict also waits for calls that overlap its call."""

SWEEP_NS: Final = 60 * SECOND
"""Time between two checks of which tool names the steps of all sessions still use, if names are many."""


class Lifecycle:
    """Opens, wakes, settles and ends sessions."""

    def __init__(self, state: MonitorState, facts: SessionFacts) -> None:
        self._state = state
        self._facts = facts
        self._limits = state.limits
        self._table = state.table
        self._quiet = state.quiet
        self._due = state.due
        self._totals = state.totals
        self._names = state.names
        self._accounting = state.accounting
        self._deadline_timer = state.deadline_timer
        self._judging = state.judging_state
        self._ledger = state.judging_state.ledger
        self._clocks = state.judging_state.clocks
        self._sights = state.judging.sights
        self._binder = state.judging.binder
        self._held = state.judging.held

    def session(self, call: ToolCall, now: int) -> Session:
        """The call's session, opened or woken if need be."""
        session = self._table.touch(call.session)
        if session is None:
            session = self.wake(call.session, now) or self._open(call, now)
        self._state.news += self._sights.follow(session)
        late_ns = now - call.end_ns
        is_odd = session.gaps and (late_ns < 0 or late_ns > self._limits.window_ns)
        if is_odd or not call.start_ns or call.end_ns < call.start_ns:
            self._state.news += self._sights.doubt_times(session, call, now)
        if late_ns < -LEAD_NS or self._clocks.are_doubted:
            self._state.news += self._sights.doubt_clocks(session, call, now)
        session.see(call, now)
        if call.gaps or call.doubts or call.start_ns < self._judging.started_ns:
            self._facts.join(session, call)
        return session

    def _open(self, call: ToolCall, now: int) -> Session:
        session = Session(call.session, call, now)
        if self._table.was_known(call.session):
            session.note_cause(Cause.FORGOTTEN)
            self._ledger.count(Cause.FORGOTTEN)
            self._state.resumed += 1
        # Gaps of its service and agent are looked for when these are known: once its specs are bound.
        session.ledger_version = self._ledger.version
        self._table.add(session)
        self.evict(session, now)
        mention = self._quiet.pop(call.session) if len(self._quiet) else None
        if mention is not None:
            self._state.news += self._facts.apply_mention(session, mention, now)
        return session

    def wake(self, key: SessionKey, now: int) -> Session | None:
        """An ended session that goes on, with all it knew."""
        session = self.revive(key, now)
        if session is not None:
            self.evict(session, now)
        return session

    def revive(self, key: SessionKey, now: int) -> Session | None:
        """The same, and no other session has to go for it yet."""
        session = self._table.wake(key)
        if session is not None:
            session.touched_ns = max(now, session.touched_ns)
            self._accounting.reopen(session)
            self.shows_arguments(session)
        return session

    def corrected(self, call: ToolCall, now: int) -> ToolCall:
        """A call by our clock. If it is the first to show that its sender's is ahead, those before it are moved, too."""
        clocks = self._clocks
        turned_out = clocks.lead_of(call.session) is None
        call = clocks.corrected(call, now)
        if turned_out:
            session = self._table.live(call.session) or self.wake(call.session, now)
            if session is not None:
                self._state.news += self._sights.move_back(session)
        return call

    def evict(self, new: Session, now: int) -> None:
        """Sessions end while there are more than may be live: of who holds more than a fair share.

        Where it is bytes that they are too many of, shown arguments go first.
        """
        self._state.arguments_given_up += self._table.give_up_arguments(
            self._table.bytes_max, new
        )
        while (old := self._table.excess(new)) is not None:
            self._state.evicted += self.finish(old, "evicted", now)

    def arrive(self, session: Session, now: int) -> None:
        """A session of another process is here: it allows for what is known to be missing here, too."""
        self._state.news += self._sights.follow(session)
        self._facts.reconsider(session, now)
        self.evict(session, now)

    def queue(self, session: Session, now: int) -> None:
        """The session is looked at again when its verdicts may be final, unless it is to be already."""
        if not session.queued:
            self.requeue(session, now)

    def requeue(self, session: Session, now: int) -> None:
        """The same for one whose key is new: it is not looked at under its old one."""
        session.queued = True
        self._due.put(now + self._limits.window_ns, session.key)

    def hold_arguments(self, session: Session) -> None:
        """Arguments are weighed when they come. Where sessions are over their bound, the oldest ones go first."""
        size, self._judging.shown_bytes = self._judging.shown_bytes, 0
        self._table.hold_arguments(session, size)
        self.evict(session, session.touched_ns)

    def shows_arguments(self, session: Session) -> None:
        """A live session may hold arguments that came by other ways than with its calls."""
        if self._limits.keep_arguments:
            self._table.weigh(session)
            self._table.hold_arguments(session, 0)

    def relieve(self) -> int:
        """Memory is scarce: half of the arguments that are kept to be shown go. Returns of how many calls."""
        given_up = self._table.give_up_arguments(self._table.bytes // 2)
        self._state.arguments_given_up += given_up
        return given_up

    def settle(self, now: int) -> None:
        """Counts verdicts that have become final, and folds what is old."""
        due = self._due.take(now)[::-1]
        try:
            while due:
                self._look_at(due.pop(), now - self._limits.window_ns)
        finally:
            for key in due:  # one that fails does not keep the others from becoming final
                self._due.put(now, key)

    def _look_at(self, key: SessionKey, before: int) -> None:
        session = self._table.live(key)
        if session is None or not session.queued:
            return
        session.queued = False
        self._state.news += self._sights.follow(session)
        if session.owed is not None:
            self._state.news += self._binder.pay(
                session, before + self._limits.window_ns, last=True
            )
        if session.judges and session.held is not None:
            # What binds specs comes within the window, or costs certainty.
            self._held.release(session)
        waiting = [self._finalise(session, each, before) for each in session.judgements]
        receipts = [receipt for receipt in waiting if receipt is not None]
        if receipts:
            self.queue(session, min(receipts))
        self._table.weigh(session)

    def _finalise(self, session: Session, judgement: Judgement, before: int) -> int | None:
        """Final counters and folding of one judgement; the earliest receipt still open."""
        overdue = before - GROUP_WINDOWS * self._limits.window_ns
        final = finalise(judgement, before, overdue=overdue)
        self._accounting.finalise(session, judgement, final.reported)
        if self._limits.fold:
            fold(judgement, before)
        return final.open

    def finish(self, session: Session, ended: Ended, now: int) -> list[SessionFinished]:
        self._state.news += self._sights.follow(session)
        if session.owed is not None:
            self._state.news += self._binder.pay(session, now, last=True)
        session.ended = ended
        session.queued = False
        self._state.ended[ended] += 1
        self._held.release(session)
        self._state.news += self._deadline_timer.finish(session, ended, now)
        judgements = session.judgements
        if not any(each.ending for each in judgements):
            self._state.without_spec += without_spec(session)
        events = [self._accounting.finish(session, each, ended, now) for each in judgements]
        self._table.bury(session)
        if self._state.on_end is not None:
            self._state.on_end(session)
        return events

    def tick(self, now: int) -> list[SessionFinished]:
        """What time brings: final verdicts, ends of idle sessions, means that forget.

        Returns:
            Sessions that have ended, with those evicted since the last tick.
        """
        self.settle(now)
        self._state.arguments_given_up += self._table.give_up_arguments(self._table.bytes_max)
        while (heavy := self._table.excess()) is not None:  # they have been weighed
            self._state.evicted += self.finish(heavy, "evicted", now)
        verdicts = self._deadline_timer.tick(self._table.live, now)
        self._state.timed_verdicts += len(verdicts)
        self._state.news += verdicts
        finished = list(self._state.evicted)
        self._state.evicted.clear()
        before = now - self._limits.idle_ns
        while (session := self._table.idle(before)) is not None:
            finished += self.finish(session, "idle", now)
        while (first := self._quiet.first()) is not None and first[1].now <= before:
            self._quiet.pop(first[0])
            self._state.without_calls += 1
        if self._state.is_behind is None or not self._state.is_behind():
            self._table.forget(before - self._limits.idle_ns, before - self._limits.remember_ns)
        self._totals.expire(now)
        self._judging.follow_gaps(now)
        self._ledger.forget(now)
        if self._names.crowded and now >= self._state.sweep_ns:
            self._forget_names(now)
        return finished

    def _forget_names(self, now: int) -> None:
        """Names that agents have invented, and that no step of a session has any more."""
        self._state.sweep_ns = now + SWEEP_NS
        used: set[int] = set()
        for session in self._table:
            used |= tools(session)
        self._names.forget(used)

    def clock_moved(self, by: int, now: int) -> None:
        """The clock that gives `now` was set: by so many nanoseconds, forward or backward.

        Sessions live on as long as if it had not been, and what was received before is final.
        Times of calls are their senders', and stay.
        """
        self.settle(max(now, now - by) + self._limits.window_ns)
        self._table.shift(by)
        if self._deadline_timer.busy:
            self._deadline_timer.clock_moved(self._table.latest(), by)
        for mention in self._quiet.values():
            mention.now += by
        self._totals.shift(by)
        self._judging.clock_moved(by)
