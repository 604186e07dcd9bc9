"""What is shown of denied calls: those that were prevented, and those that were made anyway, by session.

No session of the monitor has a prevented call: it is in no score. So it is remembered here, within bounds: the latest of
a session, and of the sessions those that were denied a call last. They are bounded in bytes by tenant, and in time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from collector.calls.decisions.decided_calls import DecidedCall
from monitor.decision import SpecDecision
from monitor.records import SessionKey
from monitor.tenants import SharedBytes
from monitor.weights import text_bytes

__all__ = ["PreventedCall", "PreventedCalls"]

CALLS_MAX: Final = 32
"""Denied calls of one session that are remembered: the latest."""

BYTES_MAX: Final = 16 << 20
"""Approximate bytes of all prevented calls; for one service, a quarter of the bound of decided
calls."""

HIDDEN_MAX: Final = 8
"""Spans of one call that are remembered as hidden."""

CALL_BYTES: Final = 1_024
"""Approximate bytes of one without its own texts; its spec's texts are shared."""

REMEMBER_NS: Final = 24 * 3_600 * 1_000_000_000
"""Time after the last denial of a session for which its denied calls are remembered."""


class PreventedCall(NamedTuple):
    """A call that was denied."""

    number: int
    decision_id: str
    session: SessionKey
    agent: str
    at_ns: int
    """When it was denied, Unix nanoseconds."""
    tool: str
    call_id: str
    trace_id: bytes
    """b"" if its client gave none."""
    found: SpecDecision
    """Decision of the spec that denied the call."""
    span_id: bytes = b""
    """Span id of the call, if the call was made anyway."""
    hidden: tuple[bytes, ...] = ()
    """Spans that were taken for those of the refused call, and are not judged."""

    @property
    def is_overruled(self) -> bool:
        """True if it was made anyway."""
        return bool(self.span_id)

    @staticmethod
    def of(entry: DecidedCall, decision_id: str) -> PreventedCall:
        """What is shown of a decided call that was denied."""
        call, worst = entry.call, entry.decision.worst
        assert worst is not None
        return PreventedCall(
            entry.number,
            decision_id,
            call.session,
            call.agent,
            call.start_ns,
            call.tool,
            call.call_id,
            entry.asked.trace_id,
            worst,
        )


class PreventedCalls:
    """Denied calls by session."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._sessions: SharedBytes[SessionKey, tuple[PreventedCall, ...]] = SharedBytes(
            bytes_max
        )

    @property
    def held_bytes(self) -> int:
        """What they take, about."""
        return self._sessions.total

    def expire(self, now: int) -> None:
        """Forgets the calls of sessions that were denied none for long."""
        while (first := self._sessions.first()) is not None:
            key, calls = first
            if max(each.at_ns for each in calls) + REMEMBER_NS > now:
                break
            self._sessions.pop(key)

    def add(self, denied: PreventedCall) -> None:
        """A call was denied."""
        self._put(denied.session, [*self.of(denied.session), denied])

    def overrule(
        self, denied: PreventedCall, span_id: bytes, session: SessionKey
    ) -> PreventedCall:
        """A call that was denied was made anyway, in this session and with this span."""
        made = denied._replace(span_id=span_id, session=session)
        others = [each for each in self.of(denied.session) if each.number != denied.number]
        if session != denied.session:
            self._put(denied.session, others)
            others = list(self.of(session))
        self._put(session, [*others, made])
        return made

    def respan(self, key: SessionKey, old: bytes, new: bytes) -> None:
        """A span has come of a call that was made anyway, as its client had said."""
        calls = self.of(key)
        if any(each.span_id == old for each in calls):
            self._put(key, [e._replace(span_id=new) if e.span_id == old else e for e in calls])

    def hide(self, denied: PreventedCall, span_id: bytes) -> None:
        """A span is that of a call that was not made."""
        calls = self.of(denied.session)
        known = next((each for each in calls if each.number == denied.number), denied)
        hidden = (*known.hidden, span_id)[-HIDDEN_MAX:]
        others = [each for each in calls if each.number != denied.number]
        self._put(denied.session, [*others, known._replace(hidden=hidden, span_id=b"")])

    def restore(self, key: SessionKey, number: int) -> None:
        """What showed that a denied call was made, or refused, was another call's."""
        calls = self.of(key)
        if any(each.number == number for each in calls):
            self._put(
                key,
                [
                    each._replace(span_id=b"", hidden=()) if each.number == number else each
                    for each in calls
                ],
            )

    def drop(self, key: SessionKey, number: int) -> None:
        """A denied call was right by the time it was made."""
        calls = self.of(key)
        if any(each.number == number for each in calls):
            self._put(key, [each for each in calls if each.number != number])

    def of(self, key: SessionKey) -> tuple[PreventedCall, ...]:
        """The denied calls of a session, the earliest first."""
        return self._sessions.get(key) or ()

    def named(self, session: str, namespace: str | None) -> list[PreventedCall]:
        """The denied calls of the sessions with this id, in one namespace or in any."""
        if namespace is not None:
            return list(self.of(SessionKey(namespace, session)))
        return [
            each
            for calls in self._sessions.values()
            for each in calls
            if each.session.id == session
        ]

    def rename(self, old: SessionKey, new: SessionKey) -> None:
        """One session turned out to be another one."""
        moved = self._sessions.pop(old)
        if moved:
            self._put(new, [*self.of(new), *[each._replace(session=new) for each in moved]])

    def _put(self, key: SessionKey, calls: Iterable[PreventedCall]) -> None:
        kept = tuple(calls)[-CALLS_MAX:]
        if not kept:
            self._sessions.pop(key)
            return
        self._sessions.put(key, kept, key.namespace, sum(map(_size, kept)))


def _size(denied: PreventedCall) -> int:
    texts = (denied.session.id, denied.agent, denied.tool, denied.call_id)
    return CALL_BYTES + sum(map(text_bytes, texts))
