"""Calls that were answered and go ahead, and that no session has yet, by the things that several sessions have in common.

Idea: a call that goes ahead counts at once for later questions of its session, which are told of it (`beside`). On a thing of
several sessions it has to count for the questions of the others, too. So it *reserves* its place on the thing until it is
made, or turns out not to be made. For another session's question it is a call in flight (`ThingSlices`).

Invariants:

- A reservation changes no session, no verdict and no sum. It ends with `release`, whatever has become of its call; and at its
  time, if whoever made it is gone.
- No session finds its own calls here: it has them beside it.

Example: conversation 1 asks about `refund(A1)`, which is allowed once an order. Conversation 2 asks about the same refund before
the first one has returned: it finds the first one in flight, and is denied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from monitor.decision import SpaceName, ThingClaim
from monitor.records import SessionKey
from monitor.session.things.lost_calls import LostCalls

__all__ = ["CLAIM_KEY_BYTES", "OtherFlights", "ThingReservation", "ThingReservations"]

CLAIM_KEY_BYTES = 320
"""Approximate bytes of one thing of a reserved call."""


class ThingReservation(NamedTuple):
    """A call that goes ahead."""

    session: SessionKey
    claims: tuple[ThingClaim, ...]
    until_ns: int
    """When it counts no more, though nobody has released it."""


class ThingReservations:
    """All calls of one monitor that go ahead on things of several sessions."""

    __slots__ = ("beside", "by_span", "by_thing", "lost")

    def __init__(self) -> None:
        self.beside: dict[SessionKey, dict[str, Any]] = {}
        """Calls in flight of guards in this process, by session: several may ask about one session."""
        self.lost = LostCalls()
        """Which sessions and spaces have calls in flight that are not known any more."""
        self.by_span: dict[bytes, ThingReservation] = {}
        self.by_thing: dict[SpaceName, dict[bytes | None, dict[bytes, ThingClaim]]] = {}
        """Space -> key of the thing -> span -> claim; None is the key of those that may be of any thing."""

    def __len__(self) -> int:
        return len(self.by_span)

    def reserve(
        self, session: SessionKey, claims: tuple[ThingClaim, ...], until_ns: int
    ) -> None:
        """A call goes ahead. `claims` are those of its decision; behind `until_ns` they do not count."""
        if not claims:
            return
        self._forget_until(claims[0].at_ns)
        self.by_span[claims[0].span_id] = ThingReservation(session, claims, until_ns)
        for claim in claims:
            space = self.by_thing.setdefault(claim.space, {})
            for key in _places(claim):
                space.setdefault(key, {})[claim.span_id] = claim

    def release(self, span_id: bytes) -> None:
        """A call has been made, or counts no more; one that has reserved nothing is fine."""
        found = self.by_span.pop(span_id, None)
        for claim in found.claims if found is not None else ():
            space = self.by_thing[claim.space]
            for key in _places(claim):
                mine = space[key]
                del mine[span_id]
                if not mine:
                    del space[key]
            if not space:
                del self.by_thing[claim.space]

    def move(self, span_id: bytes, session: SessionKey) -> None:
        """A call belongs to another session from now on."""
        found = self.by_span.get(span_id)
        if found is not None:
            self.by_span[span_id] = found._replace(session=session)

    def others(self, space: SpaceName, session: SessionKey, now: int) -> OtherFlights | None:
        """The calls of other sessions in a space, at a time; None if there are none at all."""
        return OtherFlights(self, space, session, now) if space in self.by_thing else None

    def _forget_until(self, now: int) -> None:
        """Forgets those that whoever made them should have released, the earliest first."""
        while self.by_span:
            span_id = next(iter(self.by_span))
            if self.by_span[span_id].until_ns > now:
                return
            self.release(span_id)


class OtherFlights:
    """The reserved calls in one space, as a session sees them.

    Args:
        reservations: of the monitor.
        space: that the session is in.
        session: whose own calls are left out.
        now: those whose time was over by then are left out, too.
    """

    __slots__ = ("_by_thing", "_now", "_reservations", "_session")

    def __init__(
        self,
        reservations: ThingReservations,
        space: SpaceName,
        session: SessionKey,
        now: int,
    ) -> None:
        self._reservations = reservations
        self._by_thing = reservations.by_thing[space]
        self._session = session
        self._now = now

    def of(self, key: bytes | None) -> list[ThingClaim]:
        """The calls on a thing, and those that may be on it, in order; with None those that may be on any thing."""
        found = {**self._by_thing.get(None, {}), **self._by_thing.get(key, {})}
        return sorted(claim for claim in found.values() if self._is_other(claim.span_id))

    def keys(self, known: Iterable[bytes]) -> Iterator[bytes]:
        """Those of some things that have such a call of their own."""
        for key in known:
            if any(map(self._is_other, self._by_thing.get(key, ()))):
                yield key

    @property
    def is_empty(self) -> bool:
        """True if all of them are the session's own."""
        return not any(
            self._is_other(span) for mine in self._by_thing.values() for span in mine
        )

    def _is_other(self, span_id: bytes) -> bool:
        found = self._reservations.by_span[span_id]
        return found.session != self._session and found.until_ns > self._now


def _places(claim: ThingClaim) -> tuple[bytes | None, ...]:
    return (*claim.keys, None) if claim.is_open else claim.keys
