"""The things that several sessions have in common: who carries each of them, and its last calls.

Idea: a space belongs to one spec and one agent or namespace. A session tells it of its calls on things, and is told
of those of the others (`Visit`). So each session has a thing as all of them together made it, and judges
its own calls alone.

Invariants:

- A call stands in the space as its own session judges it: one that is revised is told of anew, and one that turns out to
  be none is taken back everywhere.
- Things are in the order of their last calls, the longest untouched first. One that is dropped is remembered by a few bits:
  if it comes back, it may be in any state.
- A thing is forgotten some time after its last call. A call that comes later than that may be on a thing in any state.
- Of a thing, the last `CALLS_MAX` calls are kept. Who meets it later knows that there were others.

Example: conversation 1 looks A1 up and refunds it. Conversation 2 carries A1 for the first time, and is told of both calls.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mypy_extensions import mypyc_attr

from monitor.limits import SHARED_LATE_NS
from monitor.session.things.thing_table import is_marked, marked
from monitor.session.things.thing_visit import Visit

if TYPE_CHECKING:
    from monitor.session.session import Session

__all__ = ["CALLS_MAX", "SharedCall", "SharedThing", "SpaceMember", "ThingSpace"]

CALLS_MAX: Final = 16
"""Calls of one thing that are kept, and calls of one space whose values are not known."""

DROPPED_SHARE: Final = 16
"""One thing in so many is dropped at once."""

THING_BYTES: Final = 260
SHARED_CALL_BYTES: Final = 270
MEMBER_BYTES: Final = 40
"""Approximate bytes of a thing without calls, of each call, and of each session that carries it."""

NOBODY: Final = 0
"""Stands for the session of a call that is not known any more."""


class SharedCall(NamedTuple):
    """A call, and which session made it. The first three fields are its place in the order of calls."""

    at_ns: int
    end_ns: int
    span_id: bytes
    owner: int
    token: int | None
    """None stands for calls that are not known any more."""
    is_right: bool
    """True if it is not harmful."""

    def is_of_others(self, number: int) -> bool:
        """True if it was made by another session than this one, or by one that is not known: a session that is not here has 0, too."""
        return self.owner == NOBODY or self.owner != number

    def visit(self, key: bytes | None) -> Visit:
        """The call, as other sessions take it."""
        return Visit(self.at_ns, self.end_ns, self.span_id, key, self.token, self.is_right)


class _Judgement(Protocol):
    """What a space asks of the judgement of a session (`SharedThingsJudgement`)."""

    met: set[bytes]

    def take_visit(self, visit: Visit) -> None: ...

    def drop_visit(self, span_id: bytes, key: bytes | None) -> None: ...

    def is_beyond(self, at_ns: int) -> bool: ...


class SpaceMember(NamedTuple):
    """A live session, and its judgement under the spec."""

    session: Session
    judgement: _Judgement


@mypyc_attr(acyclic=True)
class SharedThing:
    """One thing of a space."""

    __slots__ = ("calls", "members")

    def __init__(self) -> None:
        self.calls: tuple[SharedCall, ...] = ()
        """The last calls, in order."""
        self.members: tuple[int, ...] = ()
        """Numbers of the sessions that carry it; some of them may be live no more."""

    @property
    def held_bytes(self) -> int:
        """What it takes, about."""
        calls, members = len(self.calls), len(self.members)
        return THING_BYTES + SHARED_CALL_BYTES * calls + MEMBER_BYTES * members


@mypyc_attr(acyclic=True)
class ThingSpace:
    """The things of one spec and one agent or namespace.

    While it has members, it and their judgements refer to each other; `leave` breaks this cycle.

    Args:
        within_ns: a thing is forgotten this long after its last call.
        since_ns: calls before this time were not seen; 0 if all were.
    """

    __slots__ = (
        "counted",
        "counted_bytes",
        "forgotten",
        "forgotten_ns",
        "held_bytes",
        "last_number",
        "latest_ns",
        "members",
        "moved",
        "open",
        "open_version",
        "since_ns",
        "things",
        "within_ns",
    )

    def __init__(self, within_ns: int, since_ns: int) -> None:
        self.within_ns = within_ns
        self.since_ns = since_ns
        self.things: dict[bytes, SharedThing] = {}
        self.members: dict[int, SpaceMember] = {}
        self.moved: dict[int, None] = {}
        """Numbers of members that have been told of calls, and have not judged theirs again."""
        self.open: list[SharedCall] = []
        """Calls whose values are not known, in order."""
        self.open_version = 0
        self.last_number = NOBODY
        self.latest_ns = 0
        """The greatest `at` of its calls."""
        self.forgotten: bytes | None = None
        """Bits of the things that were dropped; None while none was."""
        self.forgotten_ns = -1
        """Things whose last call is before this time were forgotten; -1 while none was."""
        self.counted = 0
        """Things of it that count to those of all spaces."""
        self.held_bytes = 0
        """What its things take, about."""
        self.counted_bytes = 0
        """The bytes that count to those of all spaces."""

    # --- members ----------------------------------------------------------------------------------

    def enter(self, session: Session, judgement: _Judgement, number: int) -> int:
        """Adds a live session, under the number that it had here; returns its number."""
        if not number:
            self.last_number += 1
            number = self.last_number
        self.members[number] = SpaceMember(session, judgement)
        return number

    def leave(self, number: int) -> None:
        """Removes a session that is not live any more. Its calls stay."""
        self.members.pop(number, None)
        self.moved.pop(number, None)

    # --- what sessions are told -------------------------------------------------------------------

    def meet(self, key: bytes, number: int, at_ns: int, *, joins: bool) -> list[Visit]:
        """What is known of a thing that a session meets at a time. With `joins`, it is told of further calls."""
        thing = self.things.get(key)
        if thing is None:
            if joins:
                thing = self.things[key] = SharedThing()
                thing.members = (number,)
                self.held_bytes += thing.held_bytes
            if self._is_late(at_ns):
                return [Visit(at_ns, 0, b"", key, None, True)]
            if not is_marked(self.forgotten, key):
                return []
            # So early that calls which come later are behind it, and so late that the thing is not forgotten by then.
            return [Visit(max(0, at_ns - self.within_ns), 0, b"", key, None, True)]
        if joins and number not in thing.members:
            before = thing.held_bytes
            self._add_member(thing, number)
            self.held_bytes += thing.held_bytes - before
        return [call.visit(key) for call in thing.calls if call.is_of_others(number)]

    def unknown_calls(self, number: int) -> list[Visit]:
        """The calls of others whose values are not known."""
        return [call.visit(None) for call in self.open if call.is_of_others(number)]

    # --- what sessions tell -----------------------------------------------------------------------

    def put(self, call: SharedCall, keys: Iterable[bytes]) -> None:
        """Takes note of a call on some things, and tells the sessions that carry them."""
        for key in keys:
            known = self.things.pop(key, None)
            thing = self.things[key] = known or SharedThing()
            before = known.held_bytes if known is not None else 0
            if not thing.calls and self._is_late(call.at_ns):
                thing.calls = (SharedCall(call.at_ns, 0, b"", NOBODY, None, True),)
            thing.calls = _with(thing.calls, call)
            if call.owner not in thing.members:
                self._add_member(thing, call.owner)
            self.held_bytes += thing.held_bytes - before
            for number in thing.members:
                member = self.members.get(number)
                if member is not None and number != call.owner:
                    member.judgement.take_visit(call.visit(key))
                    self.moved[number] = None
        self.latest_ns = max(self.latest_ns, call.at_ns)
        self._forget_until(call.at_ns - self.within_ns - SHARED_LATE_NS)

    def take_back(self, span_id: bytes, owner: int, keys: Iterable[bytes]) -> None:
        """Forgets a call that is none, or is another one."""
        for key in keys:
            thing = self.things.get(key)
            if thing is None:
                continue
            before = thing.held_bytes
            thing.calls = tuple([call for call in thing.calls if call.span_id != span_id])
            self.held_bytes += thing.held_bytes - before
            for number in thing.members:
                member = self.members.get(number)
                if member is not None and number != owner:
                    member.judgement.drop_visit(span_id, key)
                    self.moved[number] = None

    def put_unknown(self, call: SharedCall) -> None:
        """Takes note of a call whose values are not known. Sessions see it with their next call, or now if they have a later one."""
        self.open = [each for each in self.open if each.span_id != call.span_id]
        insort(self.open, call)
        self.open = list(_bounded(self.open))
        self.open_version += 1
        if call.at_ns < self.latest_ns:
            for number, member in self.members.items():
                if number != call.owner and member.judgement.is_beyond(call.at_ns):
                    self.moved[number] = None
        self.latest_ns = max(self.latest_ns, call.at_ns)

    def take_back_unknown(self, span_id: bytes, owner: int) -> None:
        """Forgets a call whose values are known by now, or that is none."""
        self.open = [each for each in self.open if each.span_id != span_id]
        self.open_version += 1
        for number, member in self.members.items():
            if number != owner:
                member.judgement.drop_visit(span_id, None)
                self.moved[number] = None

    # --- bounds -----------------------------------------------------------------------------------

    def _forget_until(self, before_ns: int) -> None:
        """Forgets the things whose last call is too long ago."""
        while self.open and self.open[0].at_ns < before_ns:
            del self.open[0]
        while self.things:
            key = next(iter(self.things))
            calls = self.things[key].calls
            if calls and calls[-1].at_ns >= before_ns:
                return
            self._drop(key)
            self.forgotten_ns = max(self.forgotten_ns, before_ns)

    def _is_late(self, at_ns: int) -> bool:
        """True for the time of a call that came so late that a thing which was known then may be forgotten by now."""
        return self.forgotten_ns >= 0 and at_ns - self.within_ns < self.forgotten_ns

    def drop_some(self) -> int:
        """Drops the things that were longest untouched, as one that comes back is told; returns how many."""
        count = max(1, len(self.things) // DROPPED_SHARE)
        keys = [key for key, _ in zip(self.things, range(count), strict=False)]
        for key in keys:
            self._drop(key)
        self.forgotten = marked(self.forgotten, keys)
        return len(keys)

    def _add_member(self, thing: SharedThing, number: int) -> None:
        """Adds a session to those that carry a thing. Those that are live no more go."""
        live = [each for each in thing.members if each in self.members]
        thing.members = (*live, number)

    def _drop(self, key: bytes) -> None:
        thing = self.things.pop(key)
        self.held_bytes -= thing.held_bytes
        for number in thing.members:
            member = self.members.get(number)
            if member is not None:
                member.judgement.met.discard(key)


def _with(calls: tuple[SharedCall, ...], call: SharedCall) -> tuple[SharedCall, ...]:
    """The calls of a thing with another one."""
    found = [each for each in calls if each.span_id != call.span_id]
    insort(found, call)
    return _bounded(found)


def _bounded(calls: list[SharedCall]) -> tuple[SharedCall, ...]:
    """The last calls; of too many, the first of them stands for all that are not kept."""
    if len(calls) > CALLS_MAX:
        gone = calls[-CALLS_MAX]._replace(span_id=b"", owner=NOBODY, token=None)
        calls = [gone, *calls[1 - CALLS_MAX :]]
    return tuple(calls)
