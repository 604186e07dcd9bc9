"""What may be missing in a session: which gaps reach it, and how its judgements allow for them.

Idea: gaps stand in one ledger, which has a version. A session takes up what is new when it is looked at, and its judgements
are told only if what they are to allow for has changed. Causes that hold for one session alone stand in the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from monitor.judging.change_reports import ChangeReports
from monitor.judging.clocks.clocks_ahead import moved_back
from monitor.judging.clocks.lagging_calls import LaggingCalls
from monitor.judging.clocks.leading_calls import (
    LeadingCalls,
    corrected_calls,
    leading_calls,
    mixed_with,
    set_meanwhile,
)
from monitor.judging.clocks.mistimed_calls import beside, mistimed
from monitor.judging.judging_state import JudgingState
from monitor.judging.thing_spaces import is_shared
from monitor.records import NO_TRACE, Proof, ToolCall, Verdict
from monitor.session.judge.judge import Judge
from monitor.session.log.log import is_led
from monitor.session.proofs import is_dated, of_both, proves, resumes
from monitor.session.session import Session
from monitor.visibility.cause import FACTS, OF_ONE_SESSION, Cause
from monitor.visibility.gap import EVER, Gap, since, with_own
from monitor.visibility.sight import CLEAR, Sight

__all__ = ["SessionSights", "is_turn_unknown", "receipt_of"]

FEW: Final = 8
"""Number of gaps from which on hashing all is quicker than comparing each with all."""

_NO_TURN: Final = NO_TRACE.hex()
"""The part of the calls whose trace is not known, under a spec whose scope is the turn."""


class SessionSights:
    """Sets what the judgements of sessions allow for, and revises their verdicts."""

    def __init__(self, state: JudgingState, reports: ChangeReports) -> None:
        self._state = state
        self._reports = reports
        self._ledger = state.ledger
        self._clocks = state.clocks
        self._limits = state.limits
        self.reread: Callable[[Session], list[Verdict]] = _nothing
        """Judges calls again by rules over data, for which something may be missing now, or no more."""

    def doubt(self, session: Session, cause: Cause, *, holds: bool = True) -> list[Verdict]:
        """Sets whether a cause of gaps holds for one session, and revises its verdicts."""
        if holds is (cause in session.causes):
            return []
        if holds:
            session.note_cause(cause)
            if not self._is_ruled_out(cause):
                self._ledger.counts[cause] += 1
        else:
            session.causes = tuple([each for each in session.causes if each is not cause])
        return self.look_again(session)

    def bind_late(self, session: Session, judges: Iterable[Judge], now: int) -> None:
        """Specs were bound to a session after calls had been dropped: those calls are missing for them."""
        for judge in judges:
            if session.late is None or judge not in session.late:
                self._ledger.count(Cause.BOUND_LATE)
            session.bind_late((judge,), now)

    def doubt_times(self, session: Session, call: ToolCall, now: int) -> list[Verdict]:
        """Before a call is seen: its times may be wrong. Then its place is not certain, and verdicts are revised."""
        window_ns = self._limits.window_ns
        gap = mistimed(call, now, window_ns)
        if gap is not None:
            self._clocks.corrections += 1
            gap = self._with_those_beside(session, gap)
        elif session.gaps:
            gap = beside(session.gaps, call.start_ns, call.end_ns, now, window_ns)
        return [] if gap is None else self._note_own(session, gap)

    def _note_own(self, session: Session, gap: Gap) -> list[Verdict]:
        if gap in session.gaps:
            return []
        self._ledger.counts[gap.cause] += 1
        session.gaps = with_own(session.gaps, gap)
        return self.look_again(session)

    def doubt_clocks(self, session: Session, call: ToolCall, now: int) -> list[Verdict]:
        """Before a call is seen: it may have another clock than others of its session. Then verdicts are revised."""
        verdicts = self._doubt_lead(session, call, now)
        lagging = self._clocks.lagging.get(session.key) if self._clocks.lagging else None
        if lagging is not None:
            lagging = lagging.with_call(call.start_ns, call.end_ns, now)
            verdicts += self._note_lagging(session, call.attributes, lagging)
        return verdicts

    def _doubt_lead(self, session: Session, call: ToolCall, now: int) -> list[Verdict]:
        clocks, window_ns = self._clocks, self._limits.window_ns
        known, leading = clocks.leading.get(session.key), None
        moved_ns = clocks.lead_of(session.key)
        if moved_ns is None:
            leading = leading_calls(known, session, call, now, window_ns, clocks.lead_min_ns)
            return self._note_leading(session, known, leading)
        leading = corrected_calls(known, session, call, clocks.ahead_max_ns, moved_ns)
        verdicts = self._note_leading(session, known, leading)
        gap = set_meanwhile(call, moved_ns)
        return verdicts if gap is None else verdicts + self._note_own(session, gap)

    def doubt_clock(
        self, session: Session | None, call: ToolCall, behind_ns: int, now: int
    ) -> list[Verdict]:
        """The clock of a call is behind that of another span of its session, by no less than this; revises verdicts.

        Args:
            session: of the call; None if that is the first one.
            call: which may not be seen yet.
            behind_ns: how far, in nanoseconds.
            now: the time of the call's receipt.
        """
        known = self._clocks.lagging.get(call.session)
        lagging = LaggingCalls.of(call.start_ns, call.end_ns, now, behind_ns)
        is_more = known is None or lagging.behind_ns < known.behind_ns
        lagging = lagging if known is None else known.and_(lagging)
        if session is None:
            self._clocks.set_lagging(call.session, lagging)
            return []
        if is_more:
            lagging = lagging.with_all([each.log for each in session.judgements])
        return self._note_lagging(session, call.attributes, lagging)

    def _note_lagging(
        self, session: Session, attributes: Mapping[str, Any], lagging: LaggingCalls
    ) -> list[Verdict]:
        """Allows for calls whose clock is behind, where they and a call with these attributes have several clocks."""
        known = self._clocks.lagging.get(session.key)
        self._clocks.set_lagging(session.key, lagging)
        gap = lagging.gap(self._limits.window_ns)
        if gap in session.gaps or not session.has_clock_beside(attributes):
            # Calls of other clocks may be missing (`sight`).
            is_reached = session.gaps or session.causes or session.late
            return self.look_again(session) if is_reached and lagging != known else []
        self._clocks.corrections += 1
        return self._note_own(session, gap)

    def doubt_clocks_together(self, session: Session) -> list[Verdict]:
        """A session has got the calls of another one: some may have another clock."""
        verdicts: list[Verdict] = []
        known = self._clocks.leading.get(session.key)
        if known is not None:
            corrected = self._clocks.lead_of(session.key) is not None
            mixed = mixed_with(known, session, self._limits.window_ns, corrected=corrected)
            verdicts += self._note_leading(session, known, mixed)
        lagging = self._clocks.lagging.get(session.key)
        if lagging is not None:
            lagging = lagging.with_all([each.log for each in session.judgements])
            verdicts += self._note_lagging(session, session.caller or {}, lagging)
        return verdicts

    def _note_leading(
        self, session: Session, known: LeadingCalls | None, leading: LeadingCalls | None
    ) -> list[Verdict]:
        if leading is None or leading == known:
            return []
        self._clocks.set_leading(session.key, leading)
        gap = leading.gap(self._limits.window_ns)
        if not leading.is_mixed or gap in session.gaps:
            # Calls of other clocks may be missing (`sight`).
            is_more = known is None or known.lead_ns < leading.lead_ns
            is_reached = session.gaps or session.causes or session.late
            return self.look_again(session) if is_more and is_reached else []
        self._clocks.corrections += 1
        return self._note_own(session, gap)

    def _with_those_beside(self, session: Session, gap: Gap) -> Gap:
        """The gap, so long that it reaches the session's calls which may be on its other side."""
        window_ns = self._limits.window_ns
        since_ns, until_ns = gap.since_ns, gap.until_ns
        for judgement in session.judgements:
            log = judgement.log
            for place in range(len(log)):
                if log.at(place) >= since_ns:
                    break
                row = log.row(place)
                found = beside((gap,), row.at, row.end, row.receipt, window_ns)
                gap = found or gap
            for place in range(len(log) - 1, -1, -1):
                row = log.row(place)
                if row.at < until_ns:
                    break
                if row.end > row.receipt and row.at >= gap.until_ns:
                    gap = gap._replace(until_ns=row.at + 1)
        return gap

    def prove(self, session: Session, proof: Proof | None) -> list[Verdict]:
        """Takes what a trace shows of the beginning of a session, and revises its verdicts.

        Without a proof, the known one is checked again: the session's first call may be another one by now.
        """
        if proof is None and session.proof is None:
            return []
        proof = self.by_our_clock(session, proof)
        known, dated = session.fresh, bool(session.gaps) and is_dated(session.proof, proof)
        session.proof = of_both(session.proof, proof)
        session.fresh = proves(session.proof, session.started_ns)
        verdicts = self.doubt_beginning(session)
        if dated or session.fresh is not known:
            verdicts += self.look_again(session)
        return verdicts

    def doubt_beginning(self, session: Session) -> list[Verdict]:
        """Sets whether the session goes on with calls that it lacks, as far as its proof shows."""
        holds = resumes(session.proof, session.started_ns)
        return self.doubt(session, Cause.RESUMED, holds=holds)

    def by_our_clock(self, session: Session, proof: Proof | None) -> Proof | None:
        """The proof as its sender would give it if its clock were ours.

        By a clock that is ahead, a session begins behind the receipt of its first call.
        """
        lead = self._clocks.lead_of(session.key) if proof is not None else None
        if (
            proof is None
            or lead is None
            or proof.is_said
            or proof.start_ns <= session.opened_ns
        ):
            return proof
        return Proof(
            proof.start_ns - lead, proof.trace_id, holds=proof.holds, resumed=proof.resumed
        )

    def move_back(self, session: Session) -> list[Verdict]:
        """The clock of a sender has turned out to be ahead: its earlier calls are moved, as the others are."""
        lead = self._clocks.lead_of(session.key)
        verdicts: list[Verdict] = []
        if lead is None or not session.judgements:
            return verdicts
        for judgement in session.judgements:
            verdicts += self._reports.report(session, judgement, judgement.move_back(lead))
        for place, held in enumerate(session.held or ()):
            excess = held.end_ns - receipt_of(session, held, session.touched_ns)
            if session.held is not None and is_led(excess, lead):
                session.held[place] = moved_back(held, lead)
        session.set_times_anew()
        session.proof = self.by_our_clock(session, session.proof)
        session.fresh = proves(session.proof, session.started_ns)
        verdicts += self.doubt_beginning(session)
        return verdicts + self.look_again(session)

    def follow(self, session: Session) -> list[Verdict]:
        """Takes up what the ledger has learnt since the session looked last; revises its verdicts."""
        if session.ledger_version == self._ledger.version:
            return []
        known = session.gaps if session.ledger_version >= 0 else None
        self.reach(session)
        # Its own causes reach as far as our start, which moves with the clock.
        is_reached = (
            session.gaps != known or session.causes or any(map(is_shared, session.judges))
        )
        return self.look_again(session) if is_reached else []

    def look_again(self, session: Session) -> list[Verdict]:
        """Has the session's judgements allow for what is known to be missing by now; revises its verdicts."""
        if session.ledger_version != self._ledger.version:
            self.reach(session)
        verdicts: list[Verdict] = []
        for judgement in session.judgements:
            sight = self.sight(session, judgement.judge, judgement.part)
            if sight != judgement.sight:
                verdicts += self._reports.report(session, judgement, judgement.see(sight))
        if session.data is not None:
            session.data.touch()
            verdicts += self.reread(session)
        return verdicts

    def reach(self, session: Session) -> None:
        """Sets which gaps of the ledger reach a session. Those that are over go on reaching it."""
        ledger = self._ledger
        session.ledger_version = ledger.version
        self._state.follow_gaps(session.touched_ns)
        if not (len(ledger) or session.gaps):
            return
        found = ledger.reaching(
            session.key.namespace, session.is_of, session.agent, session.opened_ns
        )
        if found == list(session.gaps):
            return
        if session.carried:
            carried = session.carried
            known = [
                each
                for each in session.gaps
                if each.cause in OF_ONE_SESSION or ledger.stands(each) or each in carried
            ]
        else:
            known = ledger.standing(session.gaps, found)
        ids = {id(each) for each in known}
        others = [each for each in found if id(each) not in ids]
        # Few are new. But those of a session that has moved are all other objects: to compare each with each takes long.
        seen = known if len(others) < FEW else frozenset(known)
        session.gaps = (*known, *[each for each in others if each not in seen])

    def sight(self, session: Session, judge: Judge, part: str = "") -> Sight:
        """What a judgement of a part of the session is to allow for."""
        late = session.late.get(judge, 0) if session.late else 0
        nowhere = judge.parted and is_turn_unknown(judge, part)
        others = tuple(self._state.shared_gaps.of(session, judge)) if is_shared(judge) else ()
        if not (session.gaps or session.causes or late or nowhere or others):
            return CLEAR
        gaps, begin_ns = session.gaps, -1
        if session.fresh and session.proof is not None:
            begin_ns = session.proof.start_ns
        own = [
            self._own_gap(cause) for cause in session.causes if not self._is_ruled_out(cause)
        ]
        if late:
            own.append(Gap(Cause.BOUND_LATE, 0, late))
        if nowhere:
            own.append(Gap(Cause.TURN_UNKNOWN, 0, EVER))
        if self._clocks.is_doubted(session.key):
            known, window_ns = (*since(gaps, begin_ns), *own), self._limits.window_ns
            own += self._clocks.by_other_clock(session.key, known, window_ns)
        return self._state.sights.of(gaps, begin_ns, (*own, *others))

    def _own_gap(self, cause: Cause) -> Gap:
        """The gap of a cause that holds for this session alone."""
        if cause is Cause.SAMPLED:
            return Gap(cause, 0, EVER)
        # The others allow for calls before the first one that was seen, whichever that is.
        return Gap(cause, 0, self._state.started_ns if cause is Cause.SEEN_BEFORE else 0)

    def leave(self, session: Session) -> Gap | None:
        """A session is to leave, with all gaps that are known here. Its verdicts follow where it is looked at next.

        Returns:
            The gap before our start, where the session has calls of that time.
        """
        self.reach(session)
        session.ledger_version = -1
        if Cause.SEEN_BEFORE not in session.causes:
            return None
        return self._own_gap(Cause.SEEN_BEFORE)

    def take_over(self, session: Session, before: Gap | None) -> None:
        """A session of another process comes with the gaps that are known there alone; it is to look at the ledger next.

        Args:
            session: of the other process.
            before: what `leave` says there.
        """
        found = [*session.carried, *session.gaps]
        if before is not None:  # our own start says nothing of it
            session.causes = tuple(
                [each for each in session.causes if each is not before.cause]
            )
            found.append(before)
        session.carry([each for each in found if self._is_of_another(each)])

    def _is_of_another(self, gap: Gap) -> bool:
        """True for a gap that our ledger would not know. One that it knows may be lifted here."""
        is_ours = gap.cause in OF_ONE_SESSION or self._ledger.stands(gap)
        return not (is_ours or self._is_ruled_out(gap.cause))

    def note(self, gap: Gap) -> bool:
        """Takes a gap into the ledger; returns False if it was known, or is promised not to be."""
        return not self._is_ruled_out(gap.cause) and self._ledger.note(gap)

    def _is_ruled_out(self, cause: Cause) -> bool:
        """True if `history: complete` says that it cannot be."""
        return self._limits.history_complete and FACTS[cause].promised


def is_turn_unknown(judge: Judge, part: str) -> bool:
    """True for the part that has the calls of a session whose turn is not known."""
    return part == _NO_TURN and judge.spec.scope == "turn"


def receipt_of(session: Session, call: ToolCall, unknown: int) -> int:
    """When a call of the session was received; `unknown` if no log has it."""
    for judgement in session.judgements:
        place = judgement.log.find(call.span_id)
        if place is not None:
            return judgement.log.receipt(place)
    return unknown


def _nothing(_session: Session) -> list[Verdict]:
    return []
