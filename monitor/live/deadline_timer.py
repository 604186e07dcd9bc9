"""Fires deadlines, idle limits and traps of live sessions, and withdraws them.

Idea: a heap holds the next time at which each session may have news. `tick` reviews the sessions that
are due, and `update` those whose verdicts a call may have changed. Sessions under specs without
limits cost nothing.

Invariant: a verdict on a session depends only on the times of its calls, not on their arrival. So a call
that arrives late but started early enough withdraws the verdict. A review at the time of an earlier receipt withdraws
none because its limit was not over then: time has passed since, as the verdict shows.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from monitor.judging.accounting import Accounting
from monitor.records import SessionKey, ToolCall, Verdict
from monitor.session.judge.judge import Judge
from monitor.session.judgement.calls_asked_about import widest
from monitor.session.judgement.judgement import Judgement
from monitor.session.report.obstacles import find_obstacles, review
from monitor.session.session import Ended, Session
from monitor.session.time_limits.session_verdicts import SessionVerdicts

__all__ = ["DeadlineTimer"]


class DeadlineTimer:
    """Reviews sessions when a limit may be due.

    Args:
        accounting: makes and counts the verdicts.
        window_ns: time from a verdict until it is final.
    """

    def __init__(self, accounting: Accounting, window_ns: int) -> None:
        self.busy = False
        """False while no spec in use has a limit: then callers skip the timer."""
        self._accounting = accounting
        self._window_ns = window_ns
        self._due: list[tuple[int, SessionKey]] = []
        self._next: dict[SessionKey, int] = {}

    def use(self, judges: Iterable[Judge]) -> None:
        """Sets the specs that are in use from now on; sessions under older ones go on."""
        self.busy = self.busy or any(judge.bounds is not None for judge in judges)

    def update(self, session: Session, call: ToolCall | None, now: int) -> list[Verdict]:
        """Reviews a session after a call was judged, or after its calls changed (`call` is None)."""
        verdicts: list[Verdict] = []
        for judgement in _bounded(session):
            bounds = judgement.judge.bounds
            assert bounds is not None
            if self._may_differ(judgement, call):
                verdicts += self._review(session, judgement, now)
            if bounds.shortest_ns:
                start_ns = call.start_ns if call is not None else 0
                wait_ns = min(bounds.shortest_ns, self._window_ns)
                self._watch(session.key, max(start_ns + bounds.shortest_ns, now + wait_ns))
        return verdicts

    def _may_differ(self, judgement: Judgement, call: ToolCall | None) -> bool:
        """True if a given verdict may have become wrong, or a new one is due at once."""
        bounds, session_verdicts, log = (
            judgement.judge.bounds,
            judgement.session_verdicts,
            judgement.log,
        )
        assert bounds is not None
        hopeless = bool(bounds.traps) and bounds.hopeless(widest(judgement).position)
        if session_verdicts is None:
            return hopeless
        if hopeless is not session_verdicts.trapped or session_verdicts.open:
            return True
        if not session_verdicts.declared:
            return False
        in_order = call is not None and log.find(call.span_id) == len(log) - 1
        return call is None or not in_order or session_verdicts.may_be_answered(call.start_ns)

    def absorb(self, judgement: Judgement, into: Judgement) -> None:
        """Keeps the verdicts on a session that is merged into another."""
        if judgement.session_verdicts is not None and into is not judgement:
            into.session_verdicts = into.session_verdicts or SessionVerdicts()
            into.session_verdicts.absorb(judgement.session_verdicts)

    def clock_moved(self, live: Iterable[Session], by: int) -> None:
        """Adapts to a jump of our clock by `by` nanoseconds: running limits keep their length.

        The times of calls come from the senders and stay.
        """
        for session in live:
            for judgement in _bounded(session):
                timing = find_obstacles(judgement)
                running = [*timing.missed, *timing.waiting()]
                if judgement.session_verdicts is None and running:
                    judgement.session_verdicts = SessionVerdicts()
                if judgement.session_verdicts is not None:
                    judgement.session_verdicts.shift(running, by)
        self._next = {key: due_ns + by for key, due_ns in self._next.items()}
        self._due = [(due_ns, key) for key, due_ns in self._next.items()]
        heapq.heapify(self._due)

    def tick(self, find: Callable[[SessionKey], Session | None], now: int) -> list[Verdict]:
        """Reviews the sessions that are due.

        Args:
            find: a live session by its key.
            now: Unix nanoseconds.
        """
        verdicts: list[Verdict] = []
        while self._due and self._due[0][0] <= now:
            due_ns, key = heapq.heappop(self._due)
            if self._next.get(key) != due_ns:
                continue
            del self._next[key]
            session = find(key)
            if session is not None:
                for judgement in _bounded(session):
                    verdicts += self._review(session, judgement, now)
        return verdicts

    def take_over(self, session: Session, now: int) -> None:
        """Reviews a session of another process at the next tick: so its next time is known."""
        if any(True for _ in _bounded(session)):
            self._watch(session.key, now)

    def forget(self, key: SessionKey) -> None:
        """The session has ended, or is none of ours any more."""
        self._next.pop(key, None)

    def finish(self, session: Session, ended: Ended, now: int) -> list[Verdict]:
        """Reviews an ended session for the last time: its verdicts are final."""
        self.forget(session.key)
        return [
            verdict
            for judgement in _bounded(session)
            for verdict in self._review(session, judgement, now, ended)
        ]

    def _review(
        self, session: Session, judgement: Judgement, now: int, ended: Ended | None = None
    ) -> list[Verdict]:
        if judgement.session_verdicts is None:
            judgement.session_verdicts = SessionVerdicts()
        session_verdicts = judgement.session_verdicts
        news, final = review(
            judgement,
            session_verdicts,
            max(now, session_verdicts.given_ns),
            self._window_ns,
            over=ended is not None,
            explicit=ended == "explicit",
        )
        if session_verdicts.next_ns is not None and ended is None:
            self._watch(session.key, session_verdicts.next_ns)
        self._accounting.count_session(judgement, news, final)
        return [self._accounting.session_verdict(session, judgement, each) for each in news]

    def _watch(self, key: SessionKey, due_ns: int) -> None:
        known = self._next.get(key)
        if known is None or due_ns < known:
            self._next[key] = due_ns
            heapq.heappush(self._due, (due_ns, key))


def _bounded(session: Session) -> Iterator[Judgement]:
    return (each for each in session.judgements if each.judge.bounds is not None)
