"""The monitor: calls in, verdicts out. Pure: time is an argument, nothing is read or sent."""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from monitor.binder import Binder
from monitor.court import Court
from monitor.ledger import Ledger
from monitor.limits import Limits
from monitor.records import Raised, SessionKey, ToolCall, Verdict
from monitor.session.judgement import Judgement
from monitor.session.log import Names
from monitor.session.report import judgement_object
from monitor.session.session import Ended, Session
from monitor.session.table import Table
from monitor.spec.spec import Spec
from monitor.totals import SessionFinished, Totals

__all__ = ["Monitor", "Named"]

QUIET_MAX = 10_000
"""Sessions without a call that are remembered; the oldest beyond it is counted at once."""

EVICTED_MAX = 100_000
"""Ends of sessions that wait to be told; who never ticks does not hear of the oldest."""

Named = tuple[int, bytes, str]
"""A span that names an agent: (start in Unix nanoseconds, span id, name)."""


class Monitor:
    """All sessions under all specs.

    Args:
        specs: compiled specs; `load_specs` reads them from files.
        limits: bounds and times.
        started_ns: when this process began to see spans; a session with earlier spans was
            joined in the middle, unless the history is complete.
    """

    def __init__(
        self, specs: Iterable[Spec] = (), limits: Limits | None = None, *, started_ns: int = 0
    ) -> None:
        self.limits = limits or Limits()
        self.started_ns = started_ns
        self.binder = Binder(specs)
        self.totals = Totals(self.limits.hold_ns, self.limits.pairs_max)
        self.without_spec = 0
        """Calls of ended sessions that no spec has judged."""
        self.ended: Counter[str] = Counter()
        self._names = Names()
        self._table = Table(self.limits.sessions_max)
        self._ledger = Ledger(self.totals, self._names)
        self._court = Court(self.binder, self._ledger, self._names, self.limits, started_ns)
        self._due: list[tuple[int, SessionKey]] = []
        self._quiet: OrderedDict[SessionKey, int] = OrderedDict()
        """Sessions that were heard of and have made no call, with when they were last."""
        self.without_calls = 0
        """Sessions that were idle for their time, or too many, and had made no call."""
        self._news: list[Verdict] = []
        """Verdicts that a late session id has revised; told with the next ones."""
        self._evicted: deque[SessionFinished] = deque(maxlen=EVICTED_MAX)
        """Sessions that had to make room; told with the next tick."""

    def use(self, specs: Iterable[Spec]) -> bool:
        """Judges sessions that begin from now on under these specs; all others go on as they are.

        Returns:
            False where the specs are those in use: nothing changes then.
        """
        binder = Binder(specs, self.binder)
        if not binder.differs(self.binder):
            return False
        self.binder = binder
        self._court.use(binder)
        for pair in self.totals.pairs.values():
            judge = binder.judges.get(pair.spec)
            if judge is not None and judge.spec.kind != "reference":
                pair.severities = tuple(sorted({*pair.severities, *judge.severities}))
        return True

    # --- calls ------------------------------------------------------------------------------

    def observe(
        self, call: ToolCall, now: int, named: Named | None = None, *, quiet: bool = False
    ) -> list[Verdict]:
        """Judges one call under every spec of its session.

        Args:
            call: the call.
            now: time of receipt, Unix nanoseconds.
            named: the earliest span of the call's trace that names an agent.
            quiet: give only what is news: harmful calls and revisions.

        Returns:
            The call's verdict under each spec, then revisions of earlier calls' verdicts, which
            a call that belongs before them can cause. A call no spec judges gives none.
        """
        session = self._session(call, now)
        if named is not None and session.name(named[2], named[0], named[1]):
            self._ledger.relabel(session)
        if session.bound_on is call.attributes and session.bound_as == session.known_agent:
            verdicts = self._court.take(session, call, now, quiet=quiet)
        else:
            verdicts = self._court.bind(session, call.attributes, now)
            verdicts += self._court.take(session, call, now, quiet=quiet)
        if not session.queued:
            self._queue(session, now)
        return self._with_news(verdicts) if self._news else verdicts

    def _with_news(self, verdicts: list[Verdict]) -> list[Verdict]:
        news, self._news = self._news, []
        return verdicts + news

    def _session(self, call: ToolCall, now: int) -> Session:
        """The call's session, opened or woken if need be."""
        session = self._table.live(call.session)
        if session is None:
            session = self._wake(call.session) or self._open(call, now)
        else:
            self._table.touch(call.session)
        if session.see(call, now):
            self._ledger.relabel(session)
        if call.gaps:
            self._court.join(session, gaps=True)
        elif call.start_ns < self.started_ns:
            self._court.join(session)
        return session

    def _open(self, call: ToolCall, now: int) -> Session:
        self._quiet.pop(call.session, None)
        session = Session(call.session, call, now)
        self._table.add(session)
        while (old := self._table.excess()) is not None:
            self._evicted += self._finish(old, "evicted", now)
        return session

    def _wake(self, key: SessionKey) -> Session | None:
        """An ended session that goes on, with all it knew."""
        session = self._table.wake(key)
        if session is not None:
            self._ledger.reopen(session)
        return session

    def _queue(self, session: Session, now: int) -> None:
        """The session is looked at again when its verdicts may be final."""
        session.queued = True
        heapq.heappush(self._due, (now + self.limits.window_ns, session.key))

    # --- what becomes known late ----------------------------------------------------------

    def learn(
        self,
        key: SessionKey,
        now: int,
        *,
        attributes: Mapping[str, Any],
        start_ns: int,
        named: Named | None = None,
        session_from: str = "",
    ) -> list[Verdict]:
        """A span that is no call tells more of a live session: its agent, or what specs match on.

        Returns:
            Verdicts of calls that had to wait for a spec.
        """
        session = self._table.live(key)
        if session is None:
            self._hear(key, now)
            return self._with_news([])
        session.told_by(session_from)
        if start_ns < self.started_ns:
            self._court.join(session)
        if named is not None and session.name(named[2], named[0], named[1]):
            self._ledger.relabel(session)
        return self._with_news(self._court.bind(session, attributes, now))

    def _hear(self, key: SessionKey, now: int) -> None:
        """A session that has made no call yet, if it is none that has ended."""
        quiet = self._quiet
        if self._table.find(key) is not None:
            return
        quiet[key] = now
        quiet.move_to_end(key)
        if len(quiet) > QUIET_MAX:
            quiet.popitem(last=False)
            self.without_calls += 1

    def rekey(self, old: SessionKey, new: SessionKey, session_from: str, now: int) -> bool:
        """Calls filed under `old` (a trace id) turn out to belong to session `new`.

        Returns:
            False where they stay apart, because a part of them is folded already.
        """
        if self._quiet.pop(old, None) is not None:
            self._hear(new, now)
        moved = self._table.live(old)
        if moved is None:
            return True
        self._quiet.pop(new, None)
        target = self._table.live(new) or self._wake(new)
        if target is None:
            self._table.rename(old, new)
            moved.told_by(session_from)
            self._queue(moved, now)
            return True
        if any(judgement.base is not None for judgement in moved.judgements):
            return False
        self._news += self._court.merge(moved, target)
        target.told_by(session_from)
        self._table.drop(old)
        self._queue(target, now)
        return True

    def amend(self, key: SessionKey, span_id: bytes, call: ToolCall, now: int) -> list[Verdict]:
        """A fuller span of a judged call has come: its step is read anew, in its new place.

        Args:
            key: the session it was judged in.
            span_id: the span it was judged by.
            call: the call as it is known now.
            now: time of receipt.

        Returns:
            The verdicts that changed.
        """
        session = self._table.find(key)
        if session is None:
            return []
        if session.see(call, session.touched_ns):
            self._ledger.relabel(session)
        return self._court.amend(session, span_id, call, now)

    def retract(self, key: SessionKey, span_id: bytes) -> list[Verdict]:
        """A step turned out to be no call: what follows it is judged anew without it."""
        session = self._table.find(key)
        return self._court.retract(session, span_id) if session else []

    def miss(self, key: SessionKey, reason: str, count: int = 1) -> None:
        """Counts calls of a session that could not be judged, or not in full."""
        session = self._table.find(key)
        if session is not None:
            session.miss(reason, count)

    def saw(self, key: SessionKey, spans: int, foreign: int) -> bool:
        """Counts what was seen of a session: spans in all, and those that speak no dialect.

        Returns:
            False where the session is not known, or not yet.
        """
        session = self._table.find(key)
        if session is None:
            return False
        session.spans += spans
        session.foreign += foreign
        return True

    # --- time ------------------------------------------------------------------------------

    def on_final(self, tell: Callable[[Verdict], None] | None) -> None:
        """Has `tell` called with each harmful verdict that becomes final, once, `final` True.

        It is called in the middle of `tick`, `end`, `close` and (where a burst or the bound of
        sessions makes verdicts final early) `observe`: it must not call the monitor. What a
        verdict was before is told by `observe`: a first verdict, then its revisions.
        """
        self._ledger.on_final = tell

    def on_alarm(self, tell: Callable[[Raised], None] | None) -> None:
        """Has `tell` called with each alarm that a session raises against a learnt reference.

        And with each that it takes back: `withdrawn` is True then. It is called in the middle of
        whatever makes it known, a call or the end of a session: it must not call the monitor.
        """
        self._ledger.alarms.on_alarm = tell

    def tick(self, now: int) -> list[SessionFinished]:
        """What time brings: final verdicts, ends of idle sessions, means that forget.

        Returns:
            Sessions that have ended, with those evicted since the last tick.
        """
        self._settle(now)
        finished = list(self._evicted)
        self._evicted.clear()
        before = now - self.limits.idle_ns
        while (session := self._table.idle(before)) is not None:
            finished += self._finish(session, "idle", now)
        while self._quiet and next(iter(self._quiet.values())) <= before:
            self._quiet.popitem(last=False)
            self.without_calls += 1
        self._table.forget(before - self.limits.idle_ns)
        self.totals.expire(now)
        return finished

    def _settle(self, now: int) -> None:
        """Counts verdicts that have become final, and folds what is old."""
        before = now - self.limits.window_ns
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            session = self._table.live(key)
            if session is None or not session.queued:
                continue
            session.queued = False
            if session.judges and session.held is not None:
                # What binds specs comes within the window, or costs certainty.
                self._court.release(session)
            waiting = [self._finalise(session, each, before) for each in session.judgements]
            receipts = [receipt for receipt in waiting if receipt is not None]
            if receipts:
                self._queue(session, min(receipts))

    def _finalise(self, session: Session, judgement: Judgement, before: int) -> int | None:
        """Final counters and folding of one judgement; the earliest receipt still open."""
        self._ledger.finalise(session, judgement, judgement.finalise(before))
        if self.limits.fold:
            judgement.fold(before)
        return judgement.open_receipt()

    def end(self, key: SessionKey, now: int) -> list[SessionFinished]:
        """The session ended by an explicit sign."""
        session = self._table.live(key)
        return self._finish(session, "explicit", now) if session else []

    def close(self, now: int) -> list[SessionFinished]:
        """The input is over: every live session ends and every verdict is final."""
        live = [session for session in self._table if session.ended is None]
        return [event for session in live for event in self._finish(session, "input_end", now)]

    def _finish(self, session: Session, ended: Ended, now: int) -> list[SessionFinished]:
        session.ended = ended
        session.queued = False
        self.ended[ended] += 1
        self._court.release(session)
        judgements = session.judgements
        if not any(each.finished for each in judgements):
            self.without_spec += session.without_spec
        events = [self._ledger.finish(session, each, ended, now) for each in judgements]
        self._table.bury(session)
        return events

    # --- what is shown -----------------------------------------------------------------------

    @property
    def sessions(self) -> int:
        """How many sessions are live."""
        return len(self._table)

    @property
    def skewed(self) -> int:
        """Calls that by their clocks began before the call they are a part of: hosts differ."""
        return self._court.skewed

    @property
    def out_of_order(self) -> int:
        """Calls that arrived after one that began later, under each spec."""
        return self._court.out_of_order

    @property
    def folded_young(self) -> int:
        """Steps folded before they were final, in a burst of one session."""
        return self._court.folded_young

    def open_judgements(self) -> Iterator[tuple[Session, Judgement]]:
        """Sessions with each of their judgements, as they are kept: for lists that pick a few.

        Most recently active first, ended ones last; sessions may come and go meanwhile.
        """
        for session in self._table.recent():
            for judgement in session.judgements:
                yield session, judgement

    def named(self, id_: str) -> Iterator[tuple[Session, Judgement]]:
        """The same, of the sessions with this id in any namespace."""
        for session in self._table.named(id_):
            for judgement in session.judgements:
                yield session, judgement

    @property
    def touched_ns(self) -> int:
        """When the latest call was received, of the sessions that are live."""
        return next((session.touched_ns for session in self._table.latest()), 0)

    def touched_since(self, ns: int) -> Iterator[SessionKey]:
        """Live sessions with a call received after `ns`, the latest first."""
        for session in self._table.latest():
            if session.touched_ns <= ns:
                return
            yield session.key

    def judgements(self) -> Iterator[dict[str, Any]]:
        """Judgement objects of all sessions, most recently active first, ended ones last.

        Each is built when it is asked for; sessions may come and go meanwhile.
        """
        for session in self._table.recent():
            yield from self._objects(session)

    def find(self, id_: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """All judgement objects of the sessions with this id, in one namespace or in any."""
        return [
            judgement
            for session in self._table.named(id_)
            if namespace is None or session.key.namespace == namespace
            for judgement in self._objects(session)
        ]

    def _objects(self, session: Session) -> Iterator[dict[str, Any]]:
        show = self.limits.keep_arguments
        ordered = sorted(session.judgements, key=lambda each: (each.judge.spec.id, each.part))
        for judgement in ordered:
            yield judgement_object(session, judgement, self._names, arguments=show)
