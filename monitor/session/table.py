"""The bounded map of sessions: who is live, who has ended lately, who is next to go."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from monitor.records import SessionKey
from monitor.session.session import Session

__all__ = ["Table"]

TOMBSTONES_SHARE: Final = 10
"""One ended session is remembered for so many that may be live."""

NEAR: Final = 4_096
"""Live sessions found by the identity of their keys, where no other has taken the place: a power of two."""


class Table:
    """Live sessions by last activity, and the ended ones that may still be asked for.

    The live ones are a chain: an `OrderedDict` costs each of them 80 bytes more.
    """

    def __init__(self, sessions_max: int) -> None:
        self.sessions_max = sessions_max
        self.tombstones_max = max(100, sessions_max // TOMBSTONES_SHARE)
        self._live: dict[SessionKey, Session] = {}
        self._oldest: Session | None = None
        self._newest: Session | None = None
        self._ended: OrderedDict[SessionKey, Session] = OrderedDict()
        self._near: list[Session | None] = [None] * NEAR
        """Live sessions, each at a place that its key gives by what it is: each span asks, and to
        look a key up by what it says costs five times as much."""

    def __del__(self) -> None:
        """Breaks what live sessions are in, since compiled nobody looks for garbage among them."""
        for session in list(self.latest()):
            session.older = session.newer = None
            for judgement in session.judgements:
                judgement.pair = None

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Session]:
        """Live sessions, least recently active first, then the ended ones."""
        yield from list(self.latest())[::-1]
        yield from list(self._ended.values())

    def recent(self) -> Iterator[Session]:
        """Live sessions, most recently active first, then the ended ones."""
        yield from list(self.latest())
        yield from list(reversed(self._ended.values()))

    def latest(self) -> Iterator[Session]:
        """Live sessions, most recently active first, without a copy: do not await in between."""
        session = self._newest
        while session is not None:
            yield session
            session = session.older

    def named(self, id_: str, namespace: str | None = None) -> Iterator[Session]:
        """Sessions with this id: at once in one namespace, by looking at all where it is None."""
        if namespace is None:
            return (session for session in self if session.key.id == id_)
        found = self.find(SessionKey(namespace, id_))
        return iter(() if found is None else (found,))

    def live(self, key: SessionKey) -> Session | None:
        place = _place(key)
        near = self._near[place]
        if near is not None and near.key is key:
            return near
        session = self._live.get(key)
        if session is not None and session.key is key:
            self._near[place] = session
        return session

    def find(self, key: SessionKey) -> Session | None:
        """The session, live or ended."""
        session = self.live(key)
        return self._ended.get(key) if session is None and self._ended else session

    def add(self, session: Session) -> None:
        self._live[session.key] = session
        self._link(session)

    def touch(self, key: SessionKey) -> Session | None:
        """The live session with this key, from now on the most recently active one."""
        session = self.live(key)
        if session is not None and session is not self._newest:
            self._unlink(session)
            self._link(session)
        return session

    def wake(self, key: SessionKey) -> Session | None:
        """An ended session becomes live again, with all it knew; None if it is forgotten."""
        session = self._ended.pop(key, None) if self._ended else None
        if session is not None:
            session.ended = None
            self.add(session)
        return session

    def rename(self, old: SessionKey, new: SessionKey) -> None:
        """A live session gets its real id."""
        session = self.drop(old)
        assert session is not None
        session.key = new
        self.add(session)

    def drop(self, key: SessionKey) -> Session | None:
        """Takes a live session out without a tombstone."""
        session = self._live.pop(key, None)
        if session is not None:
            place = _place(session.key)
            if self._near[place] is session:
                self._near[place] = None
            self._unlink(session)
        return session

    def bury(self, session: Session) -> None:
        """Moves a session to the ended ones; the oldest of those is forgotten at the bound."""
        self.drop(session.key)
        self._ended[session.key] = session
        if len(self._ended) > self.tombstones_max:
            self._ended.popitem(last=False)

    def excess(self) -> Session | None:
        """The least recently active session while there are more than the bound."""
        return self._oldest if len(self._live) > self.sessions_max else None

    def idle(self, before: int) -> Session | None:
        """The least recently active session if it was last touched at or before `before`."""
        session = self._oldest
        return session if session is not None and session.touched_ns <= before else None

    def forget(self, before: int) -> None:
        """Forgets ended sessions that were last touched at or before `before`."""
        while self._ended:
            session = next(iter(self._ended.values()))
            if session.touched_ns > before:
                return
            del self._ended[session.key]

    def _link(self, session: Session) -> None:
        """The session goes to the end of the chain."""
        last = self._newest
        session.older = last
        if last is None:
            self._oldest = session
        else:
            last.newer = session
        self._newest = session

    def _unlink(self, session: Session) -> None:
        older, newer = session.older, session.newer
        if older is None:
            self._oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self._newest = older
        else:
            newer.older = older
        session.older = session.newer = None


def _place(key: SessionKey) -> int:
    return (id(key) >> 4) & (NEAR - 1)  # objects begin at multiples of 16
