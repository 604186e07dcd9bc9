"""What views read of a monitor: its sessions and judgements as they are kept, and the names that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from monitor.live.monitor_state import MonitorState
from monitor.live.rejudge import is_under_earlier
from monitor.records import SessionKey, ToolCall
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import JudgedStep
from monitor.session.report.judgement_object import judgement_object
from monitor.session.session import Session

__all__ = ["MonitorReader"]


class MonitorReader:
    """Reads, and changes nothing but who is told of ends."""

    def __init__(self, state: MonitorState) -> None:
        self._state = state
        self._limits = state.limits
        self._table = state.table
        self._names = state.names
        self._judging = state.judging_state

    def on_end(
        self,
        deliver: Callable[[Session], None] | None,
        is_behind: Callable[[], bool] | None = None,
    ) -> None:
        """Calls `deliver` with each session that ends, also with one that has gone on after an earlier end.

        It is called in the middle of whatever ends the session: it must not call the monitor. While `is_behind` says
        that some of them are still to be read, time drops the steps of none; too many ended sessions do.
        """
        self._state.on_end, self._state.is_behind = deliver, is_behind

    def open_judgements(self) -> Iterator[tuple[Session, Judgement]]:
        """Sessions with each of their judgements, as they are kept: for lists that pick a few.

        Most recently active first, ended ones last; sessions may come and go meanwhile.
        """
        for session in self._table.recent():
            for judgement in session.judgements:
                yield session, judgement

    def named(
        self, id_: str, namespace: str | None = None
    ) -> Iterator[tuple[Session, Judgement]]:
        """The same, of the sessions with this id in one namespace or in any."""
        for session in self._table.named(id_, namespace):
            for judgement in session.judgements:
                yield session, judgement

    def as_object(
        self,
        session: Session,
        judgement: Judgement,
        walked: list[JudgedStep] | None = None,
    ) -> dict[str, Any]:
        """The judgement object of one of the `open_judgements`; `walked` are its steps, of who has them already."""
        return judgement_object(
            session,
            judgement,
            self._names,
            arguments=self._limits.keep_arguments,
            started_ns=self._judging.started_ns,
            walked=walked,
        )

    def has(self, key: SessionKey) -> bool:
        """True for a session that is live, or has ended and is still shown."""
        return self._table.find(key) is not None

    def tool_name(self, number: int) -> str:
        """The name of a tool, by the number that steps hold."""
        return self._names.text(number)

    def tools_named(self, fits: Callable[[str], bool]) -> frozenset[int]:
        """The numbers of the tools whose names fit."""
        return self._names.find(fits)

    @property
    def touched_ns(self) -> int:
        """When the latest call was received, of the sessions that are live."""
        return self._table.touched_ns

    def is_behind(self, call: ToolCall) -> bool:
        """True for a call that began after all that was received of its session so far: it is judged in one step."""
        session = self._table.find(call.session)
        return session is None or session.touched_ns < call.start_ns

    def touched_since(self, ns: int) -> Iterator[SessionKey]:
        """Live sessions with a call received after `ns`, the latest first."""
        for session in self._table.latest():
            if session.touched_ns <= ns:
                return
            yield session.key

    def live_sessions(self) -> list[SessionKey]:
        """The keys of all live sessions, most recently active first."""
        return [session.key for session in self._table.latest()]

    def live_named(self, id_: str, namespace: str | None = None) -> list[SessionKey]:
        """The keys of live sessions of this id, in all namespaces or in that one."""
        named = self._table.named(id_, namespace)
        return [session.key for session in named if session.ended is None]

    def is_under_earlier_specs(self, key: SessionKey) -> bool:
        """True for a live session that is judged by a version of a spec that is no longer in use."""
        session = self._table.live(key)
        return session is not None and is_under_earlier(session, self._state.judging)

    def goes_on(self, key: SessionKey, trace_id: bytes, start_ns: int) -> bool:
        """True for a session that has made calls before `start_ns`, and began in another trace."""
        session = self._table.find(key)
        if session is None or not session.seen or session.started_ns >= start_ns:
            return False
        proof = session.proof
        return proof is None or proof.trace_id != trace_id

    def is_compared(self, key: SessionKey) -> bool:
        """True for a live session that is in the sample of those compared with each other."""
        session = self._table.live(key)
        if session is not None:
            for judgement in session.judgements:
                if judgement.sampled:
                    return True
        return False

    def objects(self, session: Session) -> Iterator[dict[str, Any]]:
        """The judgement objects of a session, by spec and part."""
        for judgement in sorted(session.judgements, key=_place):
            yield self.as_object(session, judgement)


def _place(judgement: Judgement) -> tuple[str, str]:
    return judgement.judge.spec.id, judgement.part
