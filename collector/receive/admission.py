"""Admission: decides which requests may be read, by the token of their sender and by free capacity.

Idea: both transports ask here before they read a body. Nothing is kept of a refused request: the rest of its
body is discarded. A request whose body was read whole is always answered, so a sender never loses what was
accepted.

A request takes a place with the first byte of its body, not with its head, because a head costs its sender
nothing. If all places are taken and a sender with fewer places needs one, the sender that holds most gives up
the oldest of its places whose body is incomplete. So a flood uses free capacity, never another sender's last place.

Invariants:

- `requests` is the number of places, `bytes` the sum of `AdmissionPlace.bytes`. Both are 0 when nothing is in flight.
- `waiting` holds the places with incomplete bodies, oldest first. Only these can be given up.
- A place is given up only to a sender, or to a connection of the same sender, that has at least two fewer.

Example: there are 4 places, and one client with slow bodies holds all of them. A second client sends a body. One
of the four places is given up: its request is answered UNAVAILABLE and counted as `crowded_out`, and the second
client is admitted. The next request of the first client is refused: UNAVAILABLE, retry after 1 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Protocol

from collector.receive.bearer_tokens import Tokens
from collector.receive.memory_guard import MemoryGuard
from collector.receive.rate_limits import RateLimits, SenderLimits
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import MetricReading

__all__ = ["BODY_SECONDS", "HEAD_SECONDS", "REFUSED", "Admission", "AdmissionPlace", "Client"]

RETRY_SECONDS: Final = 1
"""Time after which a refused sender may retry. Bodies usually arrive faster than that."""


HEAD_SECONDS: Final = 10.0
"""Time from the first byte of a request, or the connection's start, to the end of its headers."""
BODY_SECONDS: Final = 60.0
"""Time from the end of the headers to the end of the body."""


REFUSED: Final = ("requests", "bytes", "crowded_out", "memory", "next_hop")
"""Why a request is refused: labels of the counter `requests_refused`. `crowded_out`: its body was incomplete,
and its place was given to a sender with fewer places. `memory`: the process is near its memory limit.
`next_hop`: a next hop to which it must go has no room for it, or does not take it now."""


class PlaceOwner(Protocol):
    """A request that holds a place."""

    def crowd_out(self, refusal: Refusal) -> None:
        """Answers the request with the refusal: its place was given to another."""


class Client:
    """The peer of a connection.

    Args:
        address: of its host; "" if it has none, as on a Unix socket.
    """

    __slots__ = ("address", "network")

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.network = _network(address)
        """The network that counts as one sender: an IPv4 address, or the /64 of an IPv6 address."""


def _network(address: str) -> str:
    if ":" not in address or "." in address:
        return address  # IPv4, or IPv4 mapped into IPv6
    groups = address.partition("::")[0].split(":")[:4]
    return ":".join(groups) + "::/64"


def _no_count(*_labels: str) -> None:
    """Counts nothing."""


class Admission:
    """Admits requests.

    Args:
        max_inflight_bytes: bound on the bytes of all bodies that are being read.
        requests_max: bound on the requests that are being read.
        tokens: accepted tokens; None: any sender is accepted.
        body_seconds: time for one body.
        rate_limits: limits of each sender with a token; None: no limits.
        count: counts a refusal: a counter's name and the reason.
        memory: guards the memory of the process; None: no limit.
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
        """Bytes of bodies that are being read."""
        self.requests = 0
        """Requests whose bodies are being read or judged."""
        self.body_seconds = body_seconds
        self.needs_token = tokens is not None
        """True if senders need a token."""
        self.beside = 0
        """Bytes that requests take in addition to their bodies: see `rate_limits.Reservation`."""
        self._max_inflight_bytes = max_inflight_bytes
        self.requests_max = requests_max
        self._tokens = tokens
        self._rate_limits = rate_limits
        self._count = count
        self.waiting: dict[AdmissionPlace, None] = {}
        """Places whose bodies are incomplete, oldest first."""

    def sender(self, authorization: str) -> str | None:
        """The name of the sender's token; None if no token is required.

        Raises:
            Refusal: UNAUTHENTICATED.
        """
        return None if self._tokens is None else self._tokens.sender(authorization)

    def enter(
        self,
        sender: str | None = None,
        client: Client | None = None,
        owner: PlaceOwner | None = None,
    ) -> AdmissionPlace:
        """Admits a request whose head has arrived. It holds no place until its body begins.

        Args:
            sender: the name of the token; None if no token is required.
            client: the peer of its connection; None: its place is never given up.
            owner: is called if its place is given to another.

        Raises:
            Refusal: UNAVAILABLE, or THROTTLED if the sender's own limit is used up; with the time
                after which to retry.
        """
        place = AdmissionPlace(self, client, owner, sender or "")
        if self.requests >= self.requests_max and not self._victims(place):
            raise self._all_taken()
        if self._rate_limits is not None and sender is not None:
            place.limits = self._rate_limits.of(sender)
            place.limits.enter()
        return place

    def make_room(self, newcomer: AdmissionPlace) -> None:
        """Has others give up places, when all are taken.

        Raises:
            Refusal: UNAVAILABLE; no sender holds at least two places more than the newcomer.
        """
        victims = self._victims(newcomer)
        if not victims:
            raise self._all_taken()
        for each in victims:
            each.crowd_out(self.refused("crowded_out", "others hold fewer places"))

    def _victims(self, newcomer: AdmissionPlace) -> list[AdmissionPlace]:
        """The places to give up; empty if no sender has at least two more than the newcomer.

        Chosen are the oldest places of the busiest connection of the busiest sender. More than one is given
        up at a time, since each search reads all waiting requests.
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
        """Counts a refused request; returns the refusal for its sender."""
        self._count("requests_refused", reason)
        return Refusal(ExportStatus.UNAVAILABLE, f"busy: {what}; try again", RETRY_SECONDS)

    def readings(self) -> Iterator[MetricReading]:
        """Held and greatest numbers of requests and bytes, as metrics."""
        held = (("requests", self.requests), ("bytes", self.bytes + self.beside))
        most = (("requests", self.requests_max), ("bytes", self._max_inflight_bytes))
        yield MetricReading("ingest_queue_length", [((name,), count) for name, count in held])
        yield MetricReading("ingest_queue_capacity", [((name,), count) for name, count in most])
        if self.memory is not None:
            yield from self.memory.readings()

    def has_room(self, count: int) -> bool:
        return self.bytes + self.beside + count <= self._max_inflight_bytes

    @property
    def max_inflight_bytes(self) -> int:
        """Bound on the bytes of all bodies that are being read, and of what they become."""
        return self._max_inflight_bytes


class AdmissionPlace:
    """One admitted request and what it holds. Freed once, by `leave` or as a context manager.

    Args:
        admission: that admitted it.
        client: the peer of its connection.
        owner: the request.
        token: the name of its token; "" if it has none.
    """

    __slots__ = ("_admission", "_has_place", "_owner", "bytes", "client", "limits", "sender")

    def __init__(
        self,
        admission: Admission,
        client: Client | None = None,
        owner: PlaceOwner | None = None,
        token: str = "",
    ) -> None:
        self._admission = admission
        self._owner = owner
        self._has_place = False
        self.limits: SenderLimits | None = None
        """Limits of the sender, charged for its bytes."""
        self.client = client
        # Without a token name, all clients at one address count as one sender.
        self.sender = token or ("" if client is None else client.network)
        self.bytes = 0

    def __enter__(self) -> AdmissionPlace:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Frees the place and its bytes: the request is answered."""
        if self._has_place:
            self._has_place = False
            self._admission.requests -= 1
            self._admission.waiting.pop(self, None)
        self.release()

    def keep(self) -> None:
        """Marks the body as complete: from now on the place is not given up."""
        self._admission.waiting.pop(self, None)

    def crowd_out(self, refusal: Refusal) -> None:
        """Gives the place up to another request."""
        if self._owner is not None:
            self._owner.crowd_out(refusal)
        self.leave()

    def grow(self, count: int) -> None:
        """Holds `count` more bytes. The first call takes a place.

        Raises:
            Refusal: UNAVAILABLE or THROTTLED; a bound is reached.
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
        """Frees the held bytes."""
        self._admission.bytes -= self.bytes
        if self.limits is not None:
            self.limits.held -= self.bytes
        self.bytes = 0
