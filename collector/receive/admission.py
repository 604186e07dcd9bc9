"""Admission: which requests may be read, by the token of their sender and by the room there is.

Idea: both transports ask here before they read a body. Of a refused request nothing is kept, and what still
comes of it is thrown away unread. A request whose body was read whole is answered, so a sender never loses
what was accepted.

A request takes a place with the first byte of its body, not with its head: a head costs its sender nothing.
Where all places are taken, the sender that holds most gives up the oldest of its places that waits for a
body, for a sender that holds fewer. So a flood takes what others leave, never their last place.

Invariants:

- `requests` is the number of places, `bytes` the sum of `Place.bytes`; both are 0 when nothing is in flight.
- `waiting` has the places whose bodies are not whole, oldest first. Only these can be given up.
- A place is given up only to a sender, or a connection of the same sender, that has at least two fewer.

Example: 4 places, all with one client whose bodies trickle in. A second client sends a body: one of the four
places is given up (its request is answered UNAVAILABLE, counted as `crowded_out`), and the second client is let
in. For the next request of the first client there is no room: UNAVAILABLE, retry after 1 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Protocol

from collector.receive.bearer_tokens import Tokens
from collector.receive.memory_guard import MemoryGuard
from collector.receive.rate_limits import RateLimits, SenderLimits
from collector.receive.status import Outcome, Refusal
from collector.telemetry.counters import Reading

__all__ = ["BODY_SECONDS", "HEAD_SECONDS", "REFUSED", "Admission", "Client", "Place"]

RETRY_SECONDS: Final = 1
"""Room is made as fast as bodies arrive."""


HEAD_SECONDS: Final = 10.0
"""From the first byte of a request, or the connection's start, to the end of its headers."""
BODY_SECONDS: Final = 60.0
"""From the end of the headers to the end of the body."""


REFUSED: Final = ("requests", "bytes", "crowded_out", "memory")
"""Why a request finds no room: labels of the counter `requests_refused`. `crowded_out`: it had a place,
and its body was not whole when others needed one who held fewer. `memory`: the process is near its limit."""


class Owner(Protocol):
    """A request that holds a place."""

    def crowd_out(self, refusal: Refusal) -> None:
        """Its place is given to another: it is answered so."""


class Client:
    """The peer of a connection.

    Args:
        address: of its host; "" where it has none, as on a Unix socket.
    """

    __slots__ = ("address", "network")

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.network = _network(address)
        """Who counts as one sender: an IPv4 address, or the /64 of an IPv6 one."""


def _network(address: str) -> str:
    if ":" not in address or "." in address:
        return address  # IPv4, also where it is mapped into IPv6
    groups = address.partition("::")[0].split(":")[:4]
    return ":".join(groups) + "::/64"


def _no_count(*_labels: str) -> None:
    """Nobody asks."""


class Admission:
    """Lets requests in.

    Args:
        max_inflight_bytes: of all bodies that are being read.
        requests_max: that are being read.
        tokens: who may send; None: anyone.
        body_seconds: for one body.
        rate_limits: what each sender with a token may take; None: as much as there is.
        count: counts a refusal: a counter's name and the reason.
        memory: of the process; None: it has no limit.
    """

    def __init__(
        self,
        max_inflight_bytes: int = 256 << 20,
        requests_max: int = 16_384,
        tokens: Tokens | None = None,
        body_seconds: float = BODY_SECONDS,
        rate_limits: RateLimits | None = None,
        count: Callable[..., None] = _no_count,
        memory: MemoryGuard | None = None,
    ) -> None:
        self.memory = memory
        self.bytes = 0
        """Of bodies that are being read now."""
        self.requests = 0
        """Whose bodies are being read now, or judged."""
        self.body_seconds = body_seconds
        self.needs_token = tokens is not None
        """Senders have to show a token."""
        self.beside = 0
        """Bytes that requests take beside their bodies: see `rate_limits.Reservation`."""
        self._max_inflight_bytes = max_inflight_bytes
        self.requests_max = requests_max
        self._tokens = tokens
        self._rate_limits = rate_limits
        self._count = count
        self.waiting: dict[Place, None] = {}
        """Requests that have a place and whose bodies are not whole, the oldest first."""

    def sender(self, authorization: str) -> str | None:
        """Return the name of the sender's token; None where no token is asked for.

        Raises:
            Refusal: UNAUTHENTICATED.
        """
        return None if self._tokens is None else self._tokens.sender(authorization)

    def enter(
        self,
        sender: str | None = None,
        client: Client | None = None,
        owner: Owner | None = None,
    ) -> Place:
        """Let a request in whose head has come; it holds nothing until its body begins.

        Args:
            sender: the name of the token; None where no token is asked for.
            client: the peer of its connection; None: its place is nobody's, and kept to the end.
            owner: told where its place is given to another.

        Raises:
            Refusal: UNAVAILABLE, or THROTTLED where it is the sender's own limit that is used up;
                with the time after which to try again.
        """
        place = Place(self, None, client, owner, sender or "")
        if self.requests >= self.requests_max and not self._victims(place):
            raise self._all_taken()
        if self._rate_limits is not None and sender is not None:
            place.limits = self._rate_limits.of(sender)
            place.limits.enter()
        return place

    def make_room(self, newcomer: Place) -> None:
        """Have others give up places where all are taken.

        Raises:
            Refusal: UNAVAILABLE; nobody holds enough more than the newcomer.
        """
        victims = self._victims(newcomer)
        if not victims:
            raise self._all_taken()
        for each in victims:
            each.crowd_out(self.refused("crowded_out", "others hold fewer places"))

    def _victims(self, newcomer: Place) -> list[Place]:
        """Who gives up a place; none where nobody has two more than the newcomer has.

        The oldest of the connection that has most, of those of the sender that has most. Some more
        of it than are needed, since the next ones would look through all requests again.
        """
        if newcomer.client is None:
            return []
        senders: Counter[str] = Counter(each.sender for each in self.waiting)
        sender, most = senders.most_common(1)[0] if senders else ("", 0)
        clients: Counter[Client | None] = Counter(
            each.client for each in self.waiting if each.sender == sender
        )
        client, _ = clients.most_common(1)[0] if clients else (None, 0)
        if sender == newcomer.sender:
            most, own = clients[client], clients[newcomer.client]
        else:
            own = senders[newcomer.sender]
        count = min((most - own) // 2, 1 + self.requests_max // 64, clients[client])
        if client is None or count < 1:
            return []
        found = (each for each in self.waiting if each.client is client)
        return list(islice((each for each in found if each.sender == sender), count))

    def _all_taken(self) -> Refusal:
        return self.refused("requests", f"{self.requests} requests are being read")

    def refused(self, reason: str, what: str) -> Refusal:
        """Count a request that finds no room; returns what its sender is told."""
        self._count("requests_refused", reason)
        return Refusal(Outcome.UNAVAILABLE, f"busy: {what}; try again", RETRY_SECONDS)

    def readings(self) -> Iterator[Reading]:
        """How full it is, as metrics."""
        held = (("requests", self.requests), ("bytes", self.bytes + self.beside))
        most = (("requests", self.requests_max), ("bytes", self._max_inflight_bytes))
        yield Reading("ingest_queue_length", [((name,), count) for name, count in held])
        yield Reading("ingest_queue_capacity", [((name,), count) for name, count in most])
        if self.memory is not None:
            yield from self.memory.readings()

    def has_room(self, count: int) -> bool:
        return self.bytes + self.beside + count <= self._max_inflight_bytes

    @property
    def max_inflight_bytes(self) -> int:
        """Of all bodies that are being read, and what they become."""
        return self._max_inflight_bytes


class Place:
    """One request that was let in, and what it holds. Left once, by `leave` or as a context.

    Args:
        admission: that let it in.
        limits: of the sender, which pays for bytes.
        client: the peer of its connection.
        owner: the request.
        token: the name of its token; "" where it has none.
    """

    __slots__ = ("_admission", "_has_place", "_owner", "bytes", "client", "limits", "sender")

    def __init__(
        self,
        admission: Admission,
        limits: SenderLimits | None = None,
        client: Client | None = None,
        owner: Owner | None = None,
        token: str = "",
    ) -> None:
        self._admission = admission
        self._owner = owner
        self._has_place = False
        self.limits = limits
        self.client = client
        # Who has no name is one sender with all others at its address.
        self.sender = token or ("" if client is None else client.network)
        self.bytes = 0

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """It is answered."""
        if self._has_place:
            self._has_place = False
            self._admission.requests -= 1
            self._admission.waiting.pop(self, None)
        self.release()

    def keep(self) -> None:
        """Its body is whole: from now on it is answered, whoever else wants a place."""
        self._admission.waiting.pop(self, None)

    def crowd_out(self, refusal: Refusal) -> None:
        """Another takes its place."""
        if self._owner is not None:
            self._owner.crowd_out(refusal)
        self.leave()

    def grow(self, count: int) -> None:
        """Hold so many bytes more; with the first, a place.

        Raises:
            Refusal: UNAVAILABLE or THROTTLED; there is no room for them.
        """
        admission = self._admission
        if not self._has_place:
            if admission.requests >= admission.requests_max:
                admission.make_room(self)
            self._has_place = True
            admission.requests += 1
            admission.waiting[self] = None
        memory = admission.memory
        if memory is not None and not memory.has_room(
            admission.bytes + admission.beside, count
        ):
            raise admission.refused("memory", "memory is scarce")
        if not admission.has_room(count):
            raise admission.refused("bytes", f"{admission.bytes} bytes are being read")
        if self.limits is not None:
            self.limits.grow(count)
        self.bytes += count
        admission.bytes += count

    def release(self) -> None:
        """Hold no bytes any more."""
        self._admission.bytes -= self.bytes
        if self.limits is not None:
            self.limits.held -= self.bytes
        self.bytes = 0
