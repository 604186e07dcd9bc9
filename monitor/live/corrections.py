"""What becomes known late: that a call was otherwise, or none; whose session it was; what a session's spans say.

How many calls back a correction reaches is bounded elsewhere: `monitor/session/judgement/fold_log` folds all but the last
64 (`FOLD_AFTER`), once they are older than the window. `monitor/judging/call_reviser` judges anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from monitor.aggregate.totals import SessionFinished
from monitor.judging.clocks.leading_calls import LEAD_NS
from monitor.judging.clocks.mistimed_calls import is_mistimed, without_rounding
from monitor.judging.session_sights import receipt_of
from monitor.live.lifecycle import Lifecycle
from monitor.live.mention import Mention
from monitor.live.monitor_state import MonitorState
from monitor.live.session_facts import SessionFacts
from monitor.records import AgentName, Proof, SessionKey, ToolCall, Verdict
from monitor.session.data.session_data import earliest, news_of
from monitor.session.session import Session
from monitor.visibility.cause import Cause

__all__ = ["Corrections"]


class Corrections:
    """Corrects what a monitor knows. What follows of it comes back as verdicts, at once or with its next `news`."""

    def __init__(self, state: MonitorState, facts: SessionFacts, lifecycle: Lifecycle) -> None:
        self._state = state
        self._facts = facts
        self._lifecycle = lifecycle
        self._table = state.table
        self._quiet = state.quiet
        self._deadline_timer = state.deadline_timer
        self._judging = state.judging_state
        self._clocks = state.judging_state.clocks
        self._sights = state.judging.sights
        self._binder = state.judging.binder
        self._reviser = state.judging.reviser

    def amend(
        self, old: ToolCall, call: ToolCall, now: int, named: AgentName | None = None
    ) -> list[Verdict]:
        """Reads the step of a judged call again, from a fuller span, in its new place.

        A step that is folded by now stays as it was judged, and is counted as late.

        Args:
            old: the call as it was observed, or last amended.
            call: the call as it is known now, in the same session.
            now: time of receipt.
            named: the earliest span of the call's trace that names an agent.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(old.session) or self._lifecycle.wake(old.session, now)
        if session is None:
            return []
        clocks = self._clocks
        if call.end_ns < call.start_ns:
            call = without_rounding(call)
        received = now
        if clocks.are_doubted and call.end_ns == old.end_ns:  # the news is not of its times
            received = receipt_of(session, old, session.touched_ns)
        if clocks.is_ahead(call, received):
            call = self._lifecycle.corrected(call, received)
        if clocks.is_ahead(old, received):
            old = clocks.corrected(old, received)
        if old.evidence is not call.evidence or (is_mistimed(call) and not is_mistimed(old)):
            self._state.news += self._sights.doubt_times(session, call, now)
        if call.end_ns - received > LEAD_NS or clocks.are_doubted:
            self._state.news += self._sights.doubt_clocks(session, call, received)
        session.see_again(old, call)
        self._facts.name(session, call, named)
        if call.gaps or call.doubts or call.start_ns < self._judging.started_ns:
            self._facts.join(session, call, old.doubts)
        verdicts = self._reviser.amend(session, old, call, now)
        verdicts += self._sights.prove(session, None)
        verdicts += self._binder.rebind(session, now)
        verdicts = self._state.with_news(verdicts)
        self._lifecycle.queue(session, now)
        self._facts.reconsider(session, now)
        if self._judging.shown_bytes:
            self._lifecycle.hold_arguments(session)
        return verdicts

    def retract(self, call: ToolCall) -> list[Verdict]:
        """Removes a judged call that turned out to be none; the steps behind it are judged again."""
        session = self._table.find(call.session)
        if session is None:
            return []
        verdicts = []
        if session.ended is None:  # what the call stood for may be missing from now on
            verdicts += self._sights.follow(session)
        verdicts += self._reviser.retract(session, call, session.touched_ns)
        if session.ended is None:
            verdicts += self._sights.prove(session, None)
        verdicts = self._state.with_news(verdicts)
        self._facts.reconsider(session, session.touched_ns)
        return verdicts

    def rekey(self, old: SessionKey, new: SessionKey, session_from: str, now: int) -> bool:
        """Calls filed under `old` (a trace id) turn out to belong to session `new`.

        Returns:
            False if they stay apart, because a part of them is folded already.
        """
        mention = self._quiet.pop(old)
        moved = self._table.live(old)
        if moved is None:
            if mention is not None:
                self._facts.move_mention(new, mention, now)
            return True
        # The session that is moved may be the first that would have to go.
        target = self._table.live(new) or self._lifecycle.revive(new, now)
        if target is None:
            moved.touched_ns = max(moved.touched_ns, now)
            self._table.rename(old, new)
            self._lifecycle.shows_arguments(moved)
            self._clocks.rename(old, new)
            moved.note_source(session_from)
            if self._table.was_known(new):
                self._state.resumed += 1
                self._state.news += self._sights.doubt(moved, Cause.FORGOTTEN)
            self._lifecycle.requeue(moved, now)
            mention = self._quiet.pop(new)
            if mention is not None:
                self._state.news += self._facts.apply_mention(moved, mention, now)
            self._facts.reconsider(moved, now)
            return True
        if any(judgement.base is not None for judgement in moved.judgements):
            self._lifecycle.evict(target, now)
            return False
        before = moved.judgements
        self._state.news += self._reviser.merge(moved, target)
        for judgement in before:
            into = target.judgement(judgement.judge, judgement.part)
            if into is not None:
                self._deadline_timer.absorb(judgement, into)
        self._facts.reconsider(target, now)
        target.note_source(session_from)
        self._table.drop(old)
        self._clocks.rename(old, new)
        if self._clocks.leading or self._clocks.lagging:
            self._state.news += self._sights.doubt_clocks_together(target)
        target.touched_ns = max(target.touched_ns, now)
        self._table.touch(new)
        self._lifecycle.shows_arguments(target)
        self._lifecycle.evict(target, now)
        self._lifecycle.queue(target, now)
        return True

    def learn(
        self,
        key: SessionKey,
        now: int,
        *,
        attributes: Mapping[str, Any],
        start_ns: int,
        named: AgentName | None = None,
        session_from: str = "",
    ) -> list[Verdict]:
        """Takes what a span that is no call says of a session: its agent, or attributes that specs match on.

        Returns:
            Verdicts of calls that had to wait for a spec.
        """
        session = self._table.live(key)
        if session is None:
            self._facts.keep_mention(key, Mention(now, start_ns, named, (attributes,)))
            return self._state.with_news([])
        if session_from:
            session.note_source(session_from)
        self._facts.learn(session, start_ns, named)
        verdicts = self._binder.bind(session, attributes, now)
        self._lifecycle.queue(session, now)
        return self._state.with_news(verdicts)

    def hear(
        self, key: SessionKey, texts: Iterable[str], at_ns: int, now: int
    ) -> list[Verdict]:
        """Takes messages of a session's user. Rules over data ask what the user said (`from: [user]`).

        Args:
            key: the session.
            texts: of the messages.
            at_ns: by when they were said, Unix nanoseconds.
            now: time of receipt.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(key)
        if session is None:
            said = news_of(texts, at_ns, {})
            self._facts.keep_mention(key, Mention(now, at_ns, None, (), earliest(said)))
            return []
        known = session.data.texts if session.data is not None else {}
        said = news_of(texts, at_ns, known)
        verdicts = self._facts.hear(session, said)
        if said:
            self._lifecycle.queue(session, now)  # where it is weighed
        if verdicts:
            self._facts.reconsider(session, now)
        return verdicts

    def note_source(self, key: SessionKey, session_from: str) -> None:
        """An attribute names a session that only a client of decisions has named so far."""
        session = self._table.find(key)
        if session is not None:
            session.note_source(session_from)

    def doubt(self, key: SessionKey, *, doubted: bool) -> list[Verdict]:
        """Calls before a session's first one may be missing, or turn out not to be.

        While they may it is read both ways, and taken as joined where that needs fewer harms.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(key)
        if session is None:
            return []
        verdicts = self._sights.doubt(session, Cause.EARLIER_TURN, holds=doubted)
        return self._revised(session, verdicts)

    def prove(self, key: SessionKey, proof: Proof) -> list[Verdict]:
        """A trace shows that its session is new, or does no longer.

        A session that is proven to be new is judged from its first call, also shortly after our start.

        Returns:
            The verdicts that changed.
        """
        session = self._table.live(key)
        if session is None:
            return []
        return self._revised(session, self._sights.prove(session, proof))

    def _revised(self, session: Session, verdicts: list[Verdict]) -> list[Verdict]:
        """What became known of where a session began has changed these verdicts."""
        if verdicts:
            self._lifecycle.queue(session, session.touched_ns)
        verdicts = self._state.with_news(verdicts)
        self._facts.reconsider(session, session.touched_ns)
        return verdicts

    def doubt_clock(self, call: ToolCall, behind_ns: int, now: int) -> list[Verdict]:
        """A span of another host, before which a call cannot have begun, began later by so much: two clocks differ.

        It is told of a call that is observed, or is to be next. Nothing follows from it while all calls of the session are of
        one host.

        Args:
            call: the call, as it is known now.
            behind_ns: how far its clock is behind, at least, in nanoseconds.
            now: time of receipt.

        Returns:
            The verdicts that changed.
        """
        lead_ns = self._clocks.lead_of(call.session)
        if lead_ns is not None:  # what that does not explain: its calls are moved back
            behind_ns -= lead_ns + self._clocks.ahead_max_ns
            if behind_ns <= LEAD_NS:
                return []
        session = self._table.live(call.session)
        received = receipt_of(session, call, now) if session is not None else now
        verdicts = self._sights.doubt_clock(session, call, behind_ns, received)
        if verdicts and session is not None:
            self._lifecycle.queue(session, now)
            self._facts.reconsider(session, now)
        return self._state.with_news(verdicts)

    def miss(self, key: SessionKey, reason: str, count: int = 1) -> None:
        """Counts calls of a session that could not be judged, or not in full."""
        session = self._table.find(key)
        if session is not None:
            session.miss(reason, count)

    def answered(self, key: SessionKey, answer: tuple[bool, int, int, int]) -> None:
        """The last output of a session's agent: whether it is a model's, its end and start, a hash.

        Of several the greatest counts, whatever the order they come in.
        """
        session = self._table.live(key)
        if session is not None and (session.answer is None or answer > session.answer):
            session.answer = answer

    def saw(self, key: SessionKey, spans: int, foreign: int) -> bool:
        """Counts what was seen of a session: spans in all, and those that speak no dialect.

        Returns:
            False if the session is not known, or not yet.
        """
        session = self._table.find(key)
        if session is None:
            return False
        session.spans += spans
        session.foreign += foreign
        if session.owed is not None:
            self._state.news += self._binder.pay(session, session.touched_ns)
            self._facts.reconsider(session, session.touched_ns)
        return True

    def dismiss(self, key: SessionKey, now: int) -> list[SessionFinished] | None:
        """An operator ends a live session: what goes on under its id is another one, under the specs in use.

        The first calls of that one are missing, so it is read as joined.

        Returns:
            None if no such session is live.
        """
        session = self._table.live(key)
        return self._lifecycle.finish(session, "operator", now) if session else None
