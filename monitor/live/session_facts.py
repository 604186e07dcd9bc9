"""What calls and other spans say of their sessions: the agent, attributes, and what may be missing."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.live.mention import Mention
from monitor.live.monitor_state import MonitorState
from monitor.records import AgentName, SessionKey, ToolCall, Verdict
from monitor.session.data.seen_values import UserText
from monitor.session.session import Session
from monitor.visibility.cause import Cause

__all__ = ["SessionFacts"]


class SessionFacts:
    """Takes facts of sessions, and revises the verdicts that depend on them."""

    def __init__(self, state: MonitorState) -> None:
        self._state = state
        self._table = state.table
        self._quiet = state.quiet
        self._accounting = state.accounting
        self._deadline_timer = state.deadline_timer
        self._judging = state.judging_state
        self._ledger = state.judging_state.ledger
        self._sights = state.judging.sights
        self._binder = state.judging.binder
        self._calls = state.judging.calls

    def name(self, session: Session, call: ToolCall, named: AgentName | None) -> None:
        """The session's agent is the one that its earliest span names.

        A span above a call may name the call's agent, and it began earlier: `named` refers to that span. The
        call's own agent counts only without `named`.
        """
        if named is None:
            if not call.agent:
                return
            named = AgentName(call.start_ns, call.span_id, call.agent)
        if session.name(named):
            self._accounting.relabel(session)

    def join(self, session: Session, call: ToolCall, known: tuple[Cause, ...] = ()) -> None:
        """The session was joined in the middle, where a call shows it; the call's own doubts are counted."""
        if call.gaps:
            self._state.news += self._sights.doubt(session, Cause.SAMPLED)
        if call.start_ns < self._judging.started_ns:
            self._state.news += self._sights.doubt(session, Cause.SEEN_BEFORE)
        for cause in call.doubts:
            if cause not in known:
                self._ledger.counts[cause] += 1
                session.miss(cause)

    def learn(self, session: Session, start_ns: int, named: AgentName | None) -> None:
        if start_ns < self._judging.started_ns:
            self._state.news += self._sights.doubt(session, Cause.SEEN_BEFORE)
        if named is not None and session.name(named):
            self._accounting.relabel(session)

    def apply_mention(self, session: Session, mention: Mention, now: int) -> list[Verdict]:
        """Applies a mention to its session."""
        self.learn(session, mention.start_ns, mention.named)
        verdicts: list[Verdict] = []
        for attributes in mention.attributes:
            verdicts += self._binder.bind(session, attributes, now)
        return verdicts + self.hear(session, mention.texts)

    def hear(self, session: Session, texts: Iterable[UserText]) -> list[Verdict]:
        """Takes messages of the user, and revises the verdicts that depend on what they said."""
        session.hear(texts)
        return self._calls.reread(session)

    def move_mention(self, key: SessionKey, mention: Mention, now: int) -> None:
        """Moves a mention to the session that its session turns out to be."""
        session = self._table.live(key)
        if session is None:
            self.keep_mention(key, mention)
        else:
            self._state.news += self.apply_mention(session, mention, now)

    def keep_mention(self, key: SessionKey, mention: Mention) -> None:
        """A session that has made no call yet, if it is none that has ended."""
        quiet = self._quiet
        if self._table.knows(key):
            return
        known = quiet.get(key)
        if quiet.put(key, mention if known is None else known.and_(mention)):
            self._state.without_calls += 1

    def reconsider(self, session: Session, now: int) -> None:
        """The calls of a session have changed otherwise than by one more."""
        if self._deadline_timer.busy and session.ended is None:
            self._state.news += self._deadline_timer.update(session, None, now)
