"""The bounded map of sessions: live ones, recently ended ones, and which is evicted next."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Final

from monitor.limits import SESSION_BYTES_MAX as BYTES_MAX
from monitor.records import SessionKey
from monitor.session.arguments_eviction import ShownArguments
from monitor.session.dropped_sessions import DroppedSessions, mark_of
from monitor.session.session import Session, TenantSessions
from monitor.tenants import Holdings
from monitor.visibility.cause import OF_ONE_SESSION

__all__ = ["Table"]

TOMBSTONES_SHARE: Final = 10
"""One ended session is remembered for each ten that may be live."""

SPARE_SHARE: Final = 16
"""Part of the bound that is freed at once when arguments are given up."""

NEAR: Final = 4_096
"""Live sessions found by the identity of their keys, where no other has taken the place: a power of two."""


class _Chains:
    """A chain of live sessions for each tenant, with the sessions and bytes that each holds."""

    __slots__ = ("bytes", "chains", "sessions")

    def __init__(self) -> None:
        self.chains: dict[str, TenantSessions] = {}
        self.sessions = Holdings()
        self.bytes = Holdings()

    def add(self, session: Session) -> None:
        name = self.sessions.name(session.key.namespace)
        chain = self.chains.get(name)
        if chain is None:
            chain = self.chains[name] = TenantSessions(name)
        chain.link(session)
        self.sessions.add(name, 1)
        self.bytes.add(name, session.weight)

    def remove(self, session: Session) -> None:
        chain = session.chain
        assert chain is not None
        chain.unlink(session)
        session.chain = None
        self.sessions.add(chain.name, -1)
        self.bytes.add(chain.name, -session.weight)
        if chain.newest is None:
            del self.chains[chain.name]

    def weigh(self, session: Session, weight: int) -> None:
        """Sets the bytes of a session."""
        assert session.chain is not None
        self.bytes.add(session.chain.name, weight - session.weight)
        session.weight = weight

    def latest(self) -> Iterator[Session]:
        """All sessions, most recently active first, without a copy. The caller must not await in between."""
        chains = [chain.latest() for chain in self.chains.values()]
        return chains[0] if len(chains) == 1 else merge(*chains, key=_last_touch)

    def oldest(self) -> Session | None:
        """The least recently active of all."""
        found: Session | None = None
        for chain in self.chains.values():
            oldest = chain.oldest
            if oldest is not None and (found is None or oldest.touched_ns < found.touched_ns):
                found = oldest
        return found

    def excess(self, held: Holdings, new: Session | None) -> Session | None:
        """The session to evict: the oldest of the tenant above its share, but never the one that needs room."""
        own = new.chain.name if new is not None and new.chain is not None else held.most()
        oldest = self.chains[held.gives_way(own)].oldest
        if oldest is not new:
            return oldest
        return next((c.oldest for c in self.chains.values() if c.oldest is not new), None)


class _Ended:
    """Ended sessions, in the order in which they ended. They are in no chain, so in no cycle."""

    __slots__ = ("_by_tenant", "_tenants", "bytes", "count", "sessions")

    def __init__(self) -> None:
        self.sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        self.count = Holdings()
        self.bytes = Holdings()
        self._tenants: dict[SessionKey, str] = {}
        self._by_tenant: dict[str, OrderedDict[SessionKey, None]] = {}

    def add(self, session: Session) -> None:
        key, name = session.key, self.count.name(session.key.namespace)
        self.sessions[key] = session
        self._tenants[key] = name
        self._by_tenant.setdefault(name, OrderedDict())[key] = None
        self.count.add(name, 1)
        self.bytes.add(name, session.weight)

    def remove(self, key: SessionKey) -> Session | None:
        if key not in self.sessions:
            return None
        session, name = self.sessions.pop(key), self._tenants.pop(key)
        order = self._by_tenant[name]
        del order[key]
        if not order:
            del self._by_tenant[name]
        self.count.add(name, -1)
        self.bytes.add(name, -session.weight)
        return session

    def until(self, before: int) -> Iterator[Session]:
        """Removes sessions from the front that were last touched at or before `before`."""
        while self.sessions:
            key, session = next(iter(self.sessions.items()))
            if session.touched_ns > before:
                return
            self.remove(key)
            yield session

    def crowded_out(self, held: Holdings, new: SessionKey) -> SessionKey:
        """The session to forget for a new one: the first ended one of the tenant above its share."""
        name = held.gives_way(self._tenants[new])
        return next(iter(self._by_tenant[name]))


def _last_touch(session: Session) -> int:
    return -session.touched_ns


class Table:
    """Live sessions by last activity, and the ended ones that are still shown or remembered.

    Each tenant has a share of both, see `monitor.tenants`.

    Args:
        sessions_max: limit of live sessions.
        bytes_max: limit of their bytes, about. Ended sessions may take a tenth of it in addition,
            and those that are remembered without their steps another tenth.
        fold: False keeps the steps of all sessions.
    """

    def __init__(
        self, sessions_max: int, bytes_max: int = BYTES_MAX, *, fold: bool = True
    ) -> None:
        self.fold = fold
        self.sessions_max = sessions_max
        self.bytes_max = bytes_max
        self.tombstones_max = max(100, sessions_max // TOMBSTONES_SHARE)
        self._live: dict[SessionKey, Session] = {}
        self._active = _Chains()
        self._ended = _Ended()
        self._remembered = _Ended()
        """Ended sessions that are not shown any more, without their steps: they may go on."""
        self._forgotten = DroppedSessions()
        self._shown = ShownArguments()
        """Live sessions with arguments to be shown."""
        self._near: list[Session | None] = [None] * NEAR
        """Live sessions, each at a place that its key gives by what it is: each span asks, and to
        look a key up by what it says costs five times as much."""

    def __del__(self) -> None:
        """Breaks the cycles of sessions: compiled objects are not tracked by the garbage collector."""
        for session in list(self.latest()):
            session.older = session.newer = session.chain = None
            for judgement in session.judgements:
                judgement.pair = None

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterator[Session]:
        """Live sessions, least recently active first, then the ended ones."""
        yield from list(self.latest())[::-1]
        yield from list(self._ended.sessions.values())

    def recent(self) -> Iterator[Session]:
        """Live sessions, most recently active first, then the ended ones: each once, as they are at the first one."""
        live, ended = list(self.latest()), list(reversed(self._ended.sessions.values()))
        yield from live
        yield from ended

    def latest(self) -> Iterator[Session]:
        """Live sessions, most recently active first, without a copy. The caller must not await in between."""
        return self._active.latest()

    @property
    def bytes(self) -> int:
        """Approximate bytes of live sessions."""
        return self._active.bytes.total

    @property
    def ended_bytes(self) -> int:
        """Approximate bytes of ended sessions, which may go on."""
        return self._ended.bytes.total + self._remembered.bytes.total

    @property
    def touched_ns(self) -> int:
        """The latest receipt of a call of a live session, Unix nanoseconds."""
        chains = self._active.chains.values()
        return max((c.newest.touched_ns for c in chains if c.newest is not None), default=0)

    def named(self, id_: str, namespace: str | None = None) -> Iterator[Session]:
        """Sessions with this id: in O(1) in one namespace, by a search of all if `namespace` is None."""
        if namespace is None:
            return (session for session in self if session.key.id == id_)
        found = self.find(SessionKey(namespace, id_))
        return iter(() if found is None else (found,))

    def live(self, key: SessionKey) -> Session | None:
        place = (id(key) >> 4) & (NEAR - 1)  # objects begin at multiples of 16
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
        return self._ended.sessions.get(key) if session is None else session

    def kept(self, key: SessionKey) -> Session | None:
        """The session whose state is kept: live, ended or remembered."""
        return self.find(key) or self._remembered.sessions.get(key)

    def add(self, session: Session) -> None:
        self._live[session.key] = session
        self._active.add(session)

    def touch(self, key: SessionKey) -> Session | None:
        """The live session with this key, which becomes the most recently active one of its tenant."""
        session = self.live(key)
        if session is not None:
            chain = session.chain
            if chain is not None and chain.newest is not session:
                chain.unlink(session)
                chain.link(session)
        return session

    def hold_arguments(self, session: Session, size: int) -> None:
        """A live session holds so many bytes more, of arguments to be shown."""
        if session.chain is not None:
            self._active.weigh(session, session.weight + size)
            self._shown.keep(session, session.chain.name)

    def give_up_arguments(self, bytes_max: int, new: Session | None = None) -> int:
        """Drops shown arguments while live sessions are over a bound, the oldest ones; returns of how many calls.

        Some more go than must, so that not each call has to make room.
        """
        held, calls = self._active.bytes, 0
        if held.total <= bytes_max:
            return 0
        least = bytes_max - bytes_max // SPARE_SHARE
        own = new.chain.name if new is not None and new.chain is not None else ""
        while held.total > least and len(self._shown):
            session = self._shown.oldest(held.gives_way(own or held.most()))
            if session is None:  # sessions of that tenant go instead
                break
            dropped = _drop_arguments(session, held.total - least)
            calls += dropped
            self.weigh(session)
            if not dropped:
                self._shown.forget(session)
        return calls

    def weigh(self, session: Session) -> None:
        """Updates the bytes of a live session."""
        if session.chain is not None and session.ended is None:
            self._active.weigh(session, session.size())

    def wake(self, key: SessionKey) -> Session | None:
        """Makes an ended session live again, with its state; None if it is forgotten.

        One that an operator has ended is forgotten now: what goes on under its id is another session.
        """
        session = self._ended.remove(key) or self._remembered.remove(key)
        if session is None:
            return None
        if session.ended == "operator":
            self.drop_marks([session.mark()])
            return None
        session.ended = None
        self.add(session)
        return session

    def rename(self, old: SessionKey, new: SessionKey) -> None:
        """Gives a live session its real id."""
        session = self.drop(old)
        assert session is not None
        session.rename(new)
        self.add(session)

    def drop(self, key: SessionKey) -> Session | None:
        """Removes a live session without remembering its key."""
        session = self._live.pop(key, None)
        if session is not None:
            if len(self._shown):
                self._shown.forget(session)
            place = (id(session.key) >> 4) & (NEAR - 1)
            if self._near[place] is session:
                self._near[place] = None
            self._active.remove(session)
        return session

    def hand_over(self, session: Session) -> None:
        """Removes a session whose state another process has from now on: here it is remembered as dropped."""
        key = session.key
        if self.drop(key) is None:
            self._ended.remove(key) or self._remembered.remove(key)
        self.drop_marks([session.mark()])

    def bury(self, session: Session) -> None:
        """Moves a session to the ended ones. At their limit, one of those is no longer shown."""
        self.drop(session.key)
        for gone in self._put(self._ended, session):
            self.remember(gone)

    def remember(self, session: Session) -> None:
        """Stops showing an ended session, but keeps its state in case it goes on."""
        if self.fold:
            session.condense()
        for gone in self._put(self._remembered, session):
            self._forgotten.add(gone.key)

    def _put(self, ended: _Ended, session: Session) -> list[Session]:
        """Adds an ended session; returns those that must go for it, which may include itself."""
        session.weight = session.size()
        ended.add(session)
        gone: list[Session] = []
        bytes_max = self.bytes_max // TOMBSTONES_SHARE
        while session.key in ended.sessions:
            if ended.count.total > self.tombstones_max:
                held = ended.count
            elif ended.bytes.total > bytes_max and ended.count.total > 1:
                held = ended.bytes
            else:
                break
            old = ended.remove(ended.crowded_out(held, session.key))
            if old is not None:
                gone.append(old)
        return gone

    def excess(self, new: Session | None = None) -> Session | None:
        """The session to evict while a limit is exceeded; None if none is.

        Args:
            new: the session that needs room.

        Returns:
            The least recently active session of a tenant that holds more than its share.
        """
        active = self._active
        if len(self._live) > self.sessions_max:
            return active.excess(active.sessions, new)
        if active.bytes.total > self.bytes_max:
            return active.excess(active.bytes, new)
        return None

    def idle(self, before: int) -> Session | None:
        """The least recently active session if it was last touched at or before `before`."""
        session = self._active.oldest()
        return session if session is not None and session.touched_ns <= before else None

    def forget(self, shown: int, remembered: int) -> None:
        """Drops ended sessions by the time of their last activity, Unix nanoseconds.

        Args:
            shown: sessions up to this time are no longer shown, and their steps are dropped.
            remembered: the state of sessions up to this time is dropped, too.
        """
        for session in self._ended.until(shown):
            self.remember(session)
        for session in self._remembered.until(remembered):
            self._forgotten.add(session.key)

    def knows(self, key: SessionKey) -> bool:
        """True for a session whose state is kept: live, ended or remembered."""
        return self.find(key) is not None or key in self._remembered.sessions

    def was_known(self, key: SessionKey) -> bool:
        """True for a session whose state was dropped."""
        return key in self._forgotten

    def keys(self) -> list[SessionKey]:
        """The keys of all sessions whose state is kept."""
        return [*self._live, *self._ended.sessions, *self._remembered.sessions]

    def marks(self, keys: Iterable[SessionKey]) -> Iterator[int]:
        """The marks of some sessions, then those of all that were dropped."""
        for key in keys:
            session = self.kept(key)
            yield mark_of(key) if session is None else session.mark()
        yield from self._forgotten.marks()

    def drop_marks(self, marks: Iterable[int]) -> None:
        """Sessions with these marks were known, and their state was dropped."""
        lost = self._forgotten.lost
        for mark in marks:
            self._forgotten.add_mark(mark)
        self._forgotten.lost = lost

    @property
    def lost(self) -> int:
        """The number of sessions whose keys are forgotten, too, so that they would pass as new."""
        return self._forgotten.lost

    @lost.setter
    def lost(self, count: int) -> None:
        self._forgotten.lost = count

    def shift(self, by: int) -> None:
        """Shifts all times after a jump of the clock, so that no session gets older or younger."""
        ended = (self._ended.sessions.values(), self._remembered.sessions.values())
        for session in itertools.chain(self.latest(), *ended):
            session.touched_ns += by
            session.opened_ns += by
            if session.gaps:
                session.gaps = tuple(
                    gap if gap.cause in OF_ONE_SESSION else gap.shifted(by)
                    for gap in session.gaps
                )
                session.carried = tuple(gap.shifted(by) for gap in session.carried)
                session.ledger_version = -1  # what its judgements allow for follows


def _drop_arguments(session: Session, least: int) -> int:
    """Drops shown arguments of the earliest calls, until about so many bytes are free; returns how many calls.

    Under several specs the same arguments are held by each, so all of them drop theirs.
    """
    logs = [each.log for each in session.judgements]
    return max((each.drop_arguments(least // len(logs)) for each in logs), default=0)
