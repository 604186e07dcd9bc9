"""Judges calls again that turn out to be otherwise: from a fuller span, none at all, or of another session.

Idea: the step of the call is found in the log of each spec, and read anew in its new place, or taken out. What that changes
comes back as revisions. A step that is folded by now stays as it was judged, and counts as late.

Example: `pay` was judged by a span without arguments, as a mismatch. The span with `amount: 5` arrives: the step is read
anew, and its verdict is revised.
"""

from __future__ import annotations

from collections.abc import Iterable

from monitor.judging.change_reports import ChangeReports
from monitor.judging.held_calls import HeldCalls
from monitor.judging.judge_calls import CallJudge, part_of
from monitor.judging.judging_state import JudgingState
from monitor.judging.session_binder import SessionBinder, wanted_of
from monitor.judging.session_sights import SessionSights
from monitor.records import Evidence, ToolCall, Verdict
from monitor.session.judge.judge import Judge
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import is_alarming
from monitor.session.proofs import proves
from monitor.session.session import Session

__all__ = ["CallReviser"]


class CallReviser:
    """Amends, retracts and merges the calls of sessions."""

    def __init__(
        self,
        state: JudgingState,
        held: HeldCalls,
        sights: SessionSights,
        reports: ChangeReports,
        calls: CallJudge,
        binder: SessionBinder,
    ) -> None:
        self._held = held
        self._sights = sights
        self._reports = reports
        self._calls = calls
        self._binder = binder
        self._accounting = state.accounting
        self._unbound = state.unbound

    def amend(self, session: Session, old: ToolCall, call: ToolCall, now: int) -> list[Verdict]:
        """Judges a call again that was judged as `old`, from a fuller span."""
        self._held.replace(session, old, call)
        session.owe_no_more(old)
        verdicts: list[Verdict] = []
        judges = session.judges or (self._unbound,)
        for judge in judges:
            verdicts += self._amend(session, judge, old, call, now)
        if session.data is not None:
            verdicts += self._calls.reread(session)
        verdicts += self._calls.revisit(session)
        session.take_in(old)
        if not self._is_in_log(session, judges, call):
            session.set_aside(call)
        if old.start_ns != call.start_ns or old.end_ns != call.end_ns:
            session.set_times(old)
        return verdicts

    def _amend(
        self, session: Session, judge: Judge, old: ToolCall, call: ToolCall, now: int
    ) -> list[Verdict]:
        """`amend` under one spec, which may judge only one of the two readings."""
        found = self._calls.find(session, judge, old)
        if judge.data is not None and old.span_id != call.span_id:
            self._calls.unread(session, judge, old)
        token, part = self._calls.read(session, judge, call, now), part_of(judge, call)
        verdicts: list[Verdict] = []
        if found is not None:
            judgement, place = found
            if token is not None and judgement.part == part:
                gone = self._gone(session, judgement, place, old, call)
                verdicts = self._read_anew(session, judgement, place, old, call, token, now)
                if not gone:
                    return verdicts
                return [*gone, *self._told_anew(session, judgement, call, verdicts)]
            # The spec does not name it any more, or judges it in another part.
            verdicts = self._accounting.withdrawn(session, judgement, place)
            verdicts += self._calls.take_out(session, judgement, place)
        elif self._came_late(session, judge, old, now):
            return []
        return [*verdicts, *(self._calls.under(session, judge, call, now, quiet=False) or ())]

    def _gone(
        self, session: Session, judgement: Judgement, place: int, old: ToolCall, call: ToolCall
    ) -> list[Verdict]:
        """Takes back what was told of a call under the id of a span that is a part of another one by now."""
        if old.span_id == call.span_id or not is_alarming(judgement.log.mark(place)):
            return []
        return self._accounting.withdrawn(session, judgement, place, counts=False)

    def _told_anew(
        self,
        session: Session,
        judgement: Judgement,
        call: ToolCall,
        verdicts: list[Verdict],
    ) -> list[Verdict]:
        """Tells of a call under its new id, if it is harmful or possibly harmful."""
        place = judgement.log.find(call.span_id)
        if place is None or not is_alarming(judgement.log.mark(place)):
            return verdicts
        if any(each.span_id == call.span_id for each in verdicts):
            return verdicts
        found = [*verdicts, self._accounting.verdict_at(session, judgement, place)]
        return self._reports.with_suspicions(session, judgement, found)

    def _is_in_log(self, session: Session, judges: Iterable[Judge], call: ToolCall) -> bool:
        """True if one of these specs has the call's step."""
        for judge in judges:  # noqa: SIM110 - `any` makes a generator
            if self._calls.find(session, judge, call) is not None:
                return True
        return False

    def _read_anew(
        self,
        session: Session,
        judgement: Judgement,
        place: int,
        old: ToolCall,
        call: ToolCall,
        token: int,
        now: int,
    ) -> list[Verdict]:
        late, judge = judgement.late, judgement.judge
        tool, at = (
            self._calls.tool(judge, call, token),
            self._calls.time_in_order(judge, call, now),
        )
        if _is_worded_alike(old, call) and judgement.ends_doubt(place, call, tool, token, at):
            return []
        receipt = now if old.evidence is Evidence.DECIDED else None
        self._accounting.alarms.amended(session, judgement, place, token)
        changes = judgement.amend(place, call, tool, token, at, receipt)
        self._calls.keep(judgement, call)
        if judge.plain_of(token) == judge.mismatch:
            self._calls.annotate(session, judgement, call)
        if judgement.pair is not None:
            judgement.pair.late += judgement.late - late
        return self._reports.report(session, judgement, changes)

    def _came_late(self, session: Session, judge: Judge, old: ToolCall, now: int) -> bool:
        """True if the call's step is folded: its verdict stays, and the call counts as late."""
        if self._calls.token(session, judge, old, now) is None:
            return False
        judgement = session.judgement(judge, part_of(judge, old))
        base = judgement.base if judgement is not None else None
        if (
            judgement is None
            or base is None
            or self._calls.time_in_order(judge, old, now) > base.at
        ):
            return False
        judgement.late += 1
        if judgement.pair is not None:
            judgement.pair.late += 1
        return True

    def retract(self, session: Session, call: ToolCall, now: int) -> list[Verdict]:
        """Removes the step of a span that is not a call; later steps are judged without it."""
        self._held.remove(session, call)
        session.unsee(call)
        session.owe_no_more(call)
        verdicts: list[Verdict] = []
        judged = False
        for judge in session.judges or (self._unbound,):
            found = self._calls.find(session, judge, call)
            if judge.data is not None:
                self._calls.unread(session, judge, call)
            if found is None:
                self._came_late(session, judge, call, now)
                continue
            judged = judged or judge is not self._unbound
            verdicts += self._accounting.withdrawn(session, *found)
            verdicts += self._calls.take_out(session, *found)
        if session.data is not None:
            verdicts += self._calls.reread(session)
        verdicts += self._calls.revisit(session)
        session.judged -= judged
        session.take_in(call)
        session.set_times(call)
        return verdicts

    def merge(self, moved: Session, target: Session) -> list[Verdict]:
        """Moves the calls of one session into another, and returns the revisions."""
        now = target.touched_ns
        verdicts = self._agree(moved, target, now)
        missing = tuple(judge for judge in target.judges if judge not in moved.judges)
        new = tuple(judge for judge in moved.judges if judge not in target.judges)
        lost = moved.seen - len(moved.held or ())
        target.judges += new
        if new and target.seen:
            verdicts += self._binder.catch_up(target, new, now)
        target.absorb(moved)
        self._calls.move_data(moved, target)
        if lost:
            self._sights.bind_late(target, missing, now)
        for judgement in moved.judgements:
            self._accounting.leave(judgement)
            into = target.judgement(judgement.judge, judgement.part)
            if not judgement.judge.spec.id and target.judges:
                continue
            if into is None:
                target.add(judgement)
            else:
                self._accounting.alarms.absorb(moved, judgement, into)
                verdicts += self._reports.report(target, into, into.absorb(judgement))
                self._accounting.absorbed(judgement, into)
        held = self._held.release(moved)
        verdicts += self._binder.judge_held(target, [(call, missing) for call in held], now)
        for call in held:
            self._held.hold(target, call)
        for call, judges in moved.owed or ():
            target.owe(call, judges)
        target.fresh = proves(target.proof, target.started_ns)
        verdicts += self._sights.doubt_beginning(target)
        verdicts += self._sights.look_again(target)
        self._accounting.relabel(target)
        if target.binder is not None:
            wanted = wanted_of(target.attributes, target.known_agent, target.binder)
            verdicts += self._binder.bind_more(target, wanted, now)
        return verdicts + self._calls.reread(target) + self._calls.revisit(target)

    def _agree(self, moved: Session, target: Session, now: int) -> list[Verdict]:
        """Gives two sessions to be merged one agent name, and unbinds the specs of the other name."""
        facts = (*target.attributes, *moved.attributes)
        target.named_as(moved)
        agent = target.known_agent
        wanted: set[Judge] = set()
        for session in (moved, target):
            if session.binder is not None:
                wanted.update(wanted_of(facts, agent, session.binder))
        verdicts: list[Verdict] = []
        for session in (moved, target):
            if session.bound_as != agent and session.judges:
                verdicts += self._binder.unbind(session, wanted)
                if not session.judges and not session.judgements:
                    self._binder.observe(session, now)
        target.bound_as = agent
        return verdicts


def _is_worded_alike(old: ToolCall, call: ToolCall) -> bool:
    """True if two readings of a call, neither of them a mere decision, have the same texts."""
    return (
        old.evidence is call.evidence is not Evidence.DECIDED
        and old.call_id == call.call_id
        and old.arguments == call.arguments
        and old.returns_as(call)
    )
