"""Hands sessions over to another process, and takes over those of another.

Idea: a session leaves the table and the live sums of one monitor, and enters those of the other. What was counted stays
counted where it was, and what was said is known to the session. So both together count what one would have counted.

Invariants:

- All or nothing: if one session cannot be written, all stay; if one is refused, none enters.
- A session allows for what is missing in either process. A gap of the first one that the second one does not know stays
  for good, since what would lift it comes there.
- A monitor remembers the sessions that left it. A call that still comes to it opens no session that passes as new.

Example: a session of three calls, one of them harmful and final, is handed over. The harm stays in the counters of the
first monitor. The second one judges the fourth call from the position behind the third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from monitor.judging.accounting import Accounting
from monitor.judging.judging_parts import JudgingParts
from monitor.live.deadline_timer import DeadlineTimer
from monitor.live.due_queue import DueQueue
from monitor.plain_records.kinds import UnkeptError
from monitor.records import SessionKey
from monitor.session.session import Session
from monitor.session.session_codec import SessionCodec, SessionTransfer
from monitor.session.table import Table

__all__ = ["Handover"]

GONE: Final = -1
"""The number under which no metrics of this process hold the scores of an ended session."""


class Handover:
    """The door of one monitor.

    Args:
        codec: makes bytes of sessions.
        table: of the sessions.
        judging: judges their calls.
        accounting: keeps the sums.
        deadline_timer: reviews sessions.
        due: when sessions are looked at.
        arrived: has a session look at what is known to be missing here, and makes room for it; is told who came, and when.
    """

    def __init__(
        self,
        codec: SessionCodec,
        table: Table,
        judging: JudgingParts,
        accounting: Accounting,
        deadline_timer: DeadlineTimer,
        due: DueQueue,
        arrived: Callable[[Session, int], None],
    ) -> None:
        self._codec = codec
        self._table = table
        self._held = judging.held
        self._sights = judging.sights
        self._clocks = judging.state.clocks
        self._accounting = accounting
        self._deadline_timer = deadline_timer
        self._due = due
        self._arrived = arrived

    # --- out ------------------------------------------------------------------------------------

    def hand_over(self, keys: Iterable[SessionKey]) -> bytes:
        """Sessions leave, live ones and ended ones that may go on. Keys of no session are passed over.

        Raises:
            UnkeptError: one is under earlier specs. All stay.
        """
        found = [self._table.kept(key) for key in dict.fromkeys(keys)]
        sessions = [session for session in found if session is not None]
        due = self._due.times_of({session.key for session in sessions})
        data = self._codec.to_bytes(
            [
                SessionTransfer(
                    session,
                    due.get(session.key),
                    self._clocks.lead_of(session.key),
                    self._sights.leave(session),
                )
                for session in sessions
            ]
        )
        for session in sessions:
            self._let_go(session)
        return data

    def _let_go(self, session: Session) -> None:
        key = session.key
        self._held.release(session)
        self._clocks.forget(key)
        self._deadline_timer.forget(key)
        for judgement in session.judgements:
            self._accounting.leave(judgement)
        self._table.hand_over(session)

    # --- in -------------------------------------------------------------------------------------

    def take_over(self, data: bytes, now: int) -> list[SessionKey]:
        """Sessions enter, and go on as they were.

        Args:
            data: what `hand_over` gave, in a process that is trusted.
            now: Unix nanoseconds.

        Raises:
            UnkeptError: the bytes do not fit this process, or one of the sessions is known here. None enters.
        """
        found = self._codec.from_bytes(data)
        for session, _, _, _ in found:
            if self._table.knows(session.key):
                raise UnkeptError(f"session {session.key.id} is known here")
        for session, due_ns, lead, before in found:
            if lead is not None:
                self._clocks.set_lead(session.key, lead)
            self._sights.take_over(session, before)
            for judgement in session.judgements:
                judgement.log.release()  # it may have been in the sample of the other process
            if session.ended is None:
                self._go_on(session, now if due_ns is None else due_ns, now)
            else:
                self._keep(session)
        return [each.session.key for each in found]

    def _go_on(self, session: Session, due_ns: int, now: int) -> None:
        self._table.add(session)
        self._held.take_over(session)
        for judgement in session.judgements:
            self._accounting.enter(session, judgement)
            self._accounting.share(judgement)
        if session.queued:
            self._due.put(due_ns, session.key)
        self._deadline_timer.take_over(session, now)
        self._arrived(session, now)

    def _keep(self, session: Session) -> None:
        for judgement in session.judgements:
            judgement.ending = GONE if judgement.ending else 0
        self._table.bury(session)
