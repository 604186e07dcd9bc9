"""The calls that sessions hold, with their arguments, until no other spec may bind.

Invariant: the bytes that are held stay within their bound. Of tenants that hold too much, the earliest session drops its
calls first; before that, results that nobody has read yet are read, of which little is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from monitor.judging.judging_state import JudgingState
from monitor.records import ToolCall, UnreadResult, result_in
from monitor.session.session import Session
from monitor.weights import call_bytes

__all__ = ["HELD_ALL_MAX", "HELD_MAX", "HeldCalls"]

HELD_MAX: Final = 256
"""Limit of the calls that one session holds, with their arguments, for a late binding."""

HELD_ALL_MAX: Final = 50_000
"""Limit of the calls that all sessions hold together."""


class HeldCalls:
    """Holds calls, and lets them go."""

    def __init__(self, state: JudgingState) -> None:
        self._state = state
        self._bytes = state.held_bytes
        self._bytes_max = state.limits.held_bytes_max
        self._unread: dict[str, OrderedDict[Session, None]] = {}
        """Sessions of each tenant that hold calls whose results were not read."""

    def hold(self, session: Session, call: ToolCall) -> None:
        held = session.held
        if held is None or len(held) >= HELD_MAX or self._state.held >= HELD_ALL_MAX:
            return
        held.append(call)
        self._state.held += 1
        self._weigh(session, call_bytes(call), unread=isinstance(call.returned, UnreadResult))

    def release(self, session: Session) -> list[ToolCall]:
        """Removes and returns the calls that a session holds."""
        held, session.held = session.held or [], None
        self._state.held -= len(held)
        if self._state.holders:
            self._let_go(session)
        return held

    def take_over(self, session: Session) -> None:
        """A session of another process comes with the calls that it holds."""
        for call in session.held or ():
            self._state.held += 1
            self._weigh(session, call_bytes(call))

    def replace(self, session: Session, old: ToolCall, call: ToolCall) -> None:
        """A call that may be held was read again."""
        kept = session.held
        if kept is not None:
            for place, held in enumerate(kept):
                if held.span_id == old.span_id:
                    kept[place] = call
                    self._weigh(
                        session,
                        call_bytes(call) - call_bytes(held),
                        unread=isinstance(call.returned, UnreadResult),
                    )
                    break

    def remove(self, session: Session, call: ToolCall) -> None:
        """A call that may be held is none."""
        for number, held in enumerate(session.held or ()):
            if held.span_id == call.span_id and session.held is not None:
                del session.held[number]
                self._state.held -= 1
                self._weigh(session, -call_bytes(held))
                break

    def _weigh(self, session: Session, size: int, *, unread: bool = False) -> None:
        holdings = self._bytes
        name = self._state.held_under.get(session)
        if name is None:
            name = self._state.held_under[session] = holdings.name(session.key.namespace)
        holders = self._state.holders.setdefault(name, OrderedDict())
        holders[session] = holders.get(session, 0) + size
        if unread:
            self._unread.setdefault(name, OrderedDict())[session] = None
        holdings.add(name, size)
        if holdings.total > self._bytes_max:
            self._make_room(name)

    def _let_go(self, session: Session) -> None:
        name = self._state.held_under.pop(session, None)
        if name is None:
            return
        holders = self._state.holders[name]
        self._bytes.add(name, -holders.pop(session))
        unread = self._unread.get(name)
        if unread is not None:
            unread.pop(session, None)
            if not unread:
                del self._unread[name]
        if not holders:
            del self._state.holders[name]

    def _make_room(self, name: str) -> None:
        """Drops held calls until the rest fits: those of the tenant above its share, earliest session first.

        A spec that binds later does not see the dropped calls.
        """
        while self._bytes.total > self._bytes_max:
            giver = self._bytes.gives_way(name)
            unread = self._unread.get(giver)
            if unread:
                self._lighten(unread.popitem(last=False)[0], giver)
                continue
            self._state.held_given_up += 1
            self.release(next(iter(self._state.holders[giver])))
            if name not in self._state.holders:
                name = self._bytes.most()

    def _lighten(self, session: Session, name: str) -> None:
        """Reads the results of a session's calls, which mostly leaves less of them."""
        held = session.held or []
        for call in held:
            result_in(call.returned)
        holders = self._state.holders[name]
        freed = holders[session] - sum(map(call_bytes, held))
        holders[session] -= freed
        self._bytes.add(name, -freed)
