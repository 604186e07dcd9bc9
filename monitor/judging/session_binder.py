"""Binds specs to sessions, and judges the calls that came before.

Idea: specs bind on the attributes of spans, so a spec may bind after the first calls. While another spec may match, the
session *holds* its calls, and a late binding judges them under the new spec.

Invariants:

- The verdicts do not depend on whether a spec was bound before or after a held call arrived.
- Calls that were dropped before a binding are lost for that spec. The session is then read as joined
  under it, so only certain harms are claimed.
- A session without specs is logged under an observer, which judges nothing. The observer's
  judgement is removed when a spec binds.

Example: `open` arrives, and no spec matches: it is held. The next span names the agent, and the task
`door` binds. `open` is judged under `door` first, then the next call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from monitor.judging.change_reports import ChangeReports
from monitor.judging.judge_calls import CallJudge
from monitor.judging.judging_state import JudgingState
from monitor.judging.session_sights import SessionSights
from monitor.records import ToolCall, Verdict
from monitor.session.judge.judge import Judge
from monitor.session.session import Session
from monitor.session.spec_binding import SpecBinder

__all__ = ["SessionBinder", "wanted_of"]

ERRORS_MAX: Final = 16
"""Limit of the errors that are kept until they are read."""


class SessionBinder:
    """Binds the specs in use to sessions."""

    def __init__(
        self,
        state: JudgingState,
        sights: SessionSights,
        reports: ChangeReports,
        calls: CallJudge,
    ) -> None:
        self._state = state
        self._sights = sights
        self._reports = reports
        self._calls = calls
        self._accounting = state.accounting
        self._unbound = state.unbound

    def bind(self, session: Session, attributes: Mapping[str, Any], now: int) -> list[Verdict]:
        """Binds the specs that match the known attributes, and judges held calls under them."""
        agent = session.known_agent
        renamed = session.bound_as != agent
        if session.bound_on is attributes and not renamed:
            return []
        first, binder = session.binder is None, session.binder or self._state.binder
        before, gaps = session.binding, session.gaps
        is_new = renamed or not session.is_bound_on(attributes)
        session.bind_on(attributes, agent)
        if is_new:  # gaps of this service or agent may reach it from now on
            self._sights.reach(session)
        try:
            verdicts = self._bind(
                session, binder, attributes, agent, now, first=first, renamed=renamed
            )
        except Exception:
            session.binding = before  # the next span of these attributes binds again
            session.ledger_version = -1
            raise
        return verdicts if session.gaps == gaps else verdicts + self._sights.look_again(session)

    def _bind(
        self,
        session: Session,
        binder: SpecBinder,
        attributes: Mapping[str, Any],
        agent: str,
        now: int,
        *,
        first: bool,
        renamed: bool,
    ) -> list[Verdict]:
        bound = binder.bound(attributes, agent)
        found = bound.judges
        if renamed and len(session.attributes) > 1:
            # The new name may match together with attributes that were known before.
            found = wanted_of(session.attributes, agent, binder)
        session.binder = binder
        if first and (bound.more or not found):
            session.held = []
        verdicts: list[Verdict] = []
        if renamed and session.judges:
            verdicts = self.unbind(session, set(found))
        verdicts += self.bind_more(session, found, now)
        if not session.judges and session.seen and not session.judgements:
            self.observe(session, now)
        return verdicts

    def bind_more(self, session: Session, found: tuple[Judge, ...], now: int) -> list[Verdict]:
        """Binds the specs that the session does not have yet, and judges its calls so far under them.

        Calls that are not held are missing for them.
        """
        new = tuple(judge for judge in found if judge not in session.judges)
        if not new:
            return []
        before = session.judges
        session.judges = before + new if before else found
        try:
            return self.catch_up(session, new, now)
        except Exception:
            session.judges = before  # no held call is judged under the new specs yet
            raise

    def observe(self, session: Session, now: int) -> None:
        """Logs the calls of a session without specs under the observer, which judges nothing."""
        for call in session.held or ():
            self._calls.under(session, self._unbound, call, now, quiet=True)

    def rebind(self, session: Session, now: int) -> list[Verdict]:
        """Binds again after the session's agent name may have changed."""
        if session.bound_on is None or session.bound_as == session.known_agent:
            return []
        return self.bind(session, session.bound_on, now)

    def unbind(self, session: Session, wanted: Collection[Judge]) -> list[Verdict]:
        """Removes specs that were bound for an agent name that is no longer the session's.

        A spec with a final verdict stays, because final counters never change.

        Args:
            session: the session.
            wanted: the specs that match its present name.
        """
        verdicts: list[Verdict] = []
        for judge in session.judges:
            found = session.under(judge)
            if judge in wanted or any(each.counted for each in found):
                continue
            session.judges = tuple(each for each in session.judges if each is not judge)
            for judgement in found:
                verdicts += self._reports.let_go(session, judgement)
        if not session.judges:
            session.judged = 0
        if session.data is not None:
            session.data.keep(session.judges)
        return verdicts

    def catch_up(self, session: Session, new: Sequence[Judge], now: int) -> list[Verdict]:
        """Judges the calls that came before their specs were bound."""
        held = session.held or []
        lost = session.seen - len(held)
        unbound = session.judgement(self._unbound, "")
        if unbound is not None:
            if lost and (span := unbound.span()) is not None:
                session.leave_behind(span)
            session.bound_late = session.bound_late or unbound.counted
            session.remove(unbound)
            self._accounting.leave(unbound)
        if lost:
            session.miss("no_spec", lost)
            self._sights.bind_late(session, new, now)
        return self.judge_held(session, [(call, tuple(new)) for call in held], now)

    def judge_held(
        self, session: Session, held: Iterable[tuple[ToolCall, tuple[Judge, ...]]], now: int
    ) -> list[Verdict]:
        """Judges held calls. If an error keeps one from being judged, the session owes it; the rest go on."""
        verdicts: list[Verdict] = []
        for call, judges in held:
            failed = self._under(session, judges, call, now, verdicts)
            if failed:
                session.owe(call, failed)
        return verdicts if session.data is None else verdicts + self._calls.reread(session)

    def pay(self, session: Session, now: int, *, last: bool = False) -> list[Verdict]:
        """Judges the calls that the session owes: an error kept them from being judged.

        With `last`, calls that fail again are lost. The session is read as joined under their specs.
        """
        owed, session.owed = session.owed or [], None
        live = [
            (call, tuple(judge for judge in judges if judge in session.judges))
            for call, judges in owed
        ]
        verdicts = self.judge_held(session, live, now)
        if last and session.owed:
            owed, session.owed = session.owed, None
            session.miss("no_spec", len(owed))
            late = {judge for _, judges in owed for judge in judges}
            self._sights.bind_late(session, late, now)
            verdicts += self._sights.look_again(session)
        return verdicts

    def _under(
        self,
        session: Session,
        judges: Sequence[Judge],
        call: ToolCall,
        now: int,
        verdicts: list[Verdict],
    ) -> tuple[Judge, ...]:
        """Judges a held call under specs that were bound after it.

        Returns:
            The specs under which an error kept it from being judged.
        """
        failed: list[Judge] = []
        known = any(self._calls.find(session, judge, call) for judge in session.judges)
        judged = False
        for judge in judges:
            try:
                found = self._calls.under(session, judge, call, now, quiet=False)
            except Exception as error:  # noqa: BLE001 - it keeps no other call from being judged
                self._fail(session, judge, call, error)
                failed.append(judge)
            else:
                judged = judged or found is not None
                verdicts += found or ()
        session.judged += judged and not known
        if not (judged or known or failed):
            session.set_aside(call)
        return tuple(failed)

    def _fail(self, session: Session, judge: Judge, call: ToolCall, error: Exception) -> None:
        """Records an error and removes the call from the log of that spec, if it was added."""
        if len(self._state.errors) < ERRORS_MAX:
            self._state.errors.append(error)
        with suppress(Exception):
            found = self._calls.find(session, judge, call)
            if found is not None:
                self._calls.take_out(session, *found)


def wanted_of(
    facts: Iterable[Mapping[str, Any]], agent: str, binder: SpecBinder
) -> tuple[Judge, ...]:
    """The specs that match any of these attributes under a name, in the binder's order."""
    wanted = {judge for each in facts for judge in binder.bind(each, agent)}
    return tuple(judge for judge in binder.judges.values() if judge in wanted)
