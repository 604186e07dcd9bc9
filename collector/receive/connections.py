"""The connections of one listener: how many, how old, and whom we wait for.

Idea: a connection is either waiting for us (its request is being judged) or keeps us waiting (idle, or in
the middle of a request). Each that keeps us waiting has a number, `turn`: the smaller, the longer. A full
listener closes the one with the smallest number to make room for a new one.

Invariants:

- `turn` is 0 exactly while the connection waits for us, and such a connection is never closed for another.
- No order of all connections is kept. The 256 that keep us waiting longest are looked for once and used up;
  one whose number has changed meanwhile is passed over.
- `deadline` is looked at once a second (`sweep`), so no connection needs a timer.
- The inbox is one buffer for all listeners. Whoever reads from it copies what is to outlast the call.

Example: 16,384 connections are open, and all but two have been idle since their last request. A new one
arrives: the connection with the smallest `turn` is closed and counted as `crowded`. The two whose requests are
being judged stay. If all waited for us, the new one would be closed and counted as `refused`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from heapq import nsmallest
from typing import Any, Final

from collector.receive.admission import BODY_SECONDS, HEAD_SECONDS, Client
from collector.receive.protocol_detection import Spoken, sentence
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log

__all__ = [
    "COPIED_BYTES",
    "FAILURES",
    "INBOX_BYTES",
    "LINGER_SECONDS",
    "NEVER",
    "Bounds",
    "ConnectionBase",
    "Connections",
    "Data",
    "failure_of",
    "part",
]

Data = bytes | memoryview
"""What has come, which a view shows until the next read."""

SWEEP_SECONDS: Final = 1.0
"""How often slow clients are looked for."""
LONGEST: Final = 256
"""When the listener is full, so many connections may be closed before all are looked at again."""
NEVER: Final = float("inf")
LOG_SECONDS: Final = 60.0
"""A listener's failed handshakes are a line in the log so often at most."""
INBOX_BYTES: Final = 256 << 10
"""Read from a socket at once."""
COPIED_BYTES: Final = 8 << 10
"""What has come is copied up to this: that costs less than looking into the inbox."""
NO_CERTIFICATE: Final = ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED")
PLAIN_TEXT: Final = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER")
"""OpenSSL's words for a handshake that is none."""
FAILURES: Final = (
    *(
        "client_alert",
        "client_certificate",
        "disconnected",
        "plain_text",
        "protocol",
        "timeout",
    ),
)
"""Why handshakes fail. client_alert: the client does not trust our certificate."""
CLOSING_SECONDS: Final = 20.0
"""For a client to read what was written before we closed its connection."""
LINGER_SECONDS: Final = 2.0
"""A refused client that goes on sending is read and not listened to for so long: closed at once, its
kernel would throw the answer away (RFC 9112 9.6)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """On the connections of one listener; times in seconds."""

    connections: int = 16_384
    """Open at once. Beyond it, the one that has kept us waiting longest goes."""
    head: float = HEAD_SECONDS
    """From the first byte of a request, or the connection's start, to the end of its headers."""
    body: float = BODY_SECONDS
    """From the end of the headers to the end of the body."""
    age: float | None = None
    """After it a connection is closed with its next answer, so that load spreads anew."""


class ConnectionBase(ABC):
    """A connection, as `Connections` knows it, and all that an event loop asks of a protocol.

    It is none of asyncio's by descent, which no compiled class can be. Loops that ask for methods
    alone, as uvloop does, read into the listener's inbox, others hand over `bytes`.
    """

    connections: Connections
    transport: asyncio.Transport
    client: Client
    """Its peer, by which admission counts; known once it has joined."""

    deadline = NEVER
    """When we have waited too long, on the loop's clock."""
    idle = False
    """It is no fault of the client's that we wait."""
    turn = 0
    """Since when we wait for it, in the count of `Connections`; 0: it waits for us."""

    @abstractmethod
    def connection_made(self, transport: Any) -> None:
        """It begins."""

    @abstractmethod
    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """The client has sent something."""

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's; ours is larger
        """Where to put what the client sends."""
        return self.connections.inbox

    @abstractmethod
    def buffer_updated(self, count: int) -> None:
        """The client has sent so many bytes, which are in the listener's inbox."""

    def eof_received(self) -> bool | None:
        """The client sends nothing any more: the transport closes."""
        return None

    @abstractmethod
    def pause_writing(self) -> None:
        """The client does not read what we write."""

    @abstractmethod
    def resume_writing(self) -> None:
        """It does again."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """A request has begun and is not answered."""

    @property
    def is_stalled(self) -> bool:
        """It does not read what we have written."""
        return False

    @abstractmethod
    def time_out(self) -> None:
        """The deadline has passed."""

    @abstractmethod
    def shut_down(self) -> None:
        """Closes it when it is not busy."""

    @abstractmethod
    def end(self) -> None:
        """Closes it."""


class Connections:
    """The connections of one listener, and whom we wait for.

    We wait for a client while it is idle or in the middle of a request; the rest of the time it
    waits for us. Since when is a number each member holds: an order of all of them that is kept at
    each request would touch the neighbours, too.

    Args:
        bounds: on the connections.
        stats: where what is not served is counted.
        port: what the log calls the listener; else by what it speaks.
    """

    def __init__(self, bounds: Bounds, stats: Stats, port: str = "") -> None:
        self.bounds = bounds
        self._port = port
        self.open: set[ConnectionBase] = set()
        self.arrivals: dict[ConnectionBase, asyncio.Task[None]] = {}
        """Connections that were accepted and have not begun: in their TLS handshake, mostly."""
        self.tasks: set[asyncio.Task[None]] = set()
        """Requests that are answered beside the loop's turn."""
        self.moved = asyncio.Event()
        """A connection was closed, or will be once its answer has been read."""
        self.inbox = memoryview(b"")
        """Where it arrives; whoever reads takes out what is to be kept."""
        self._turns = 0
        self._longest: list[tuple[int, ConnectionBase]] = []
        """Whom we had waited for longest when it was last looked at, and since when; the first last."""
        self._stats = stats
        self._logged: set[str] = set()
        self._failed: dict[str, int] = {}
        """Handshakes by reason, since the last line of the log about them."""
        self._failed_next = -NEVER
        self._closing: dict[ConnectionBase, float] = {}
        """Since when each was seen that we have closed, and that is not gone."""
        self._log = log

    @property
    def size(self) -> int:
        """How many connections are open, those in their handshake included."""
        return len(self.open) + len(self.arrivals)

    def make_room(self) -> bool:
        """Makes room for one more connection; False where there is none, since all wait for us.

        Where there are too many, the one that kept us waiting longest is closed.
        """
        if self.size < self.bounds.connections:
            return True
        first = self._first()
        if first is None:
            self._stats.count("connections_closed", "refused")
            return False
        self._stats.count("connections_closed", "crowded")
        handshake = self.arrivals.pop(first, None)
        if handshake is not None:
            self.stop_waiting(first)
            handshake.cancel()
        else:
            first.end()
            first.transport.abort()  # a farewell of TLS would wait for its peer
        return True

    def begin_handshake(
        self, connection: ConnectionBase, handshake: asyncio.Task[None]
    ) -> None:
        """One was accepted; it joins when its handshake is over."""
        self.arrivals[connection] = handshake
        self.start_waiting(connection)

    def fail_handshake(self, connection: ConnectionBase, reason: str) -> None:
        """Its handshake failed. Counts it by reason; the log has one line a minute with the numbers."""
        if self.arrivals.pop(connection, None) is None:
            return  # it had joined, or was closed to make room
        self.stop_waiting(connection)
        self._stats.count("tls_handshakes_failed", reason)
        now = asyncio.get_running_loop().time()
        self._failed[reason] = self._failed.get(reason, 0) + 1
        if now >= self._failed_next:
            self._failed_next = now + LOG_SECONDS
            failed, self._failed = self._failed, {}
            self._log.warning("tls_handshakes_failed", listener=self._port, **failed)

    def register(self, connection: ConnectionBase) -> None:
        """One more has begun."""
        if not self.inbox:
            self.inbox = _inbox()
        self.arrivals.pop(connection, None)
        connection.client = Client(_address(connection.transport))
        self.open.add(connection)

    def start_waiting(self, connection: ConnectionBase) -> None:
        """From now on we wait for this client."""
        self._turns += 1
        connection.turn = self._turns

    def stop_waiting(self, connection: ConnectionBase) -> None:
        """It waits for us."""
        connection.turn = 0

    def remove(self, connection: ConnectionBase) -> None:
        """It is gone."""
        self.open.discard(connection)
        self.stop_waiting(connection)
        self.moved.set()

    def _first(self) -> ConnectionBase | None:
        """Whom we wait for longest; looked for among all once for many."""
        while True:
            while self._longest:
                turn, member = self._longest.pop()
                if member.turn == turn:
                    return member
            everyone = (*self.open, *self.arrivals)
            waiting = [(each.turn, each) for each in everyone if each.turn]
            if not waiting:
                return None
            self._longest = nsmallest(LONGEST, waiting, key=_turn)[::-1]

    async def close_all(self, grace_seconds: float) -> None:
        """Closes all, those in the middle of a request after its answer, or after the grace."""
        for handshake in list(self.arrivals.values()):
            handshake.cancel()
        for connection in list(self.open):
            connection.shut_down()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while any(each.is_busy for each in self.open):
                    self.moved.clear()
                    await self.moved.wait()
        for task in list(self.tasks):
            task.cancel()
        for connection in list(self.open):
            connection.end()

    async def sweep(self) -> None:
        """Closes the connections of clients that are idle or too slow, once a second."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            for connection in [
                each for each in self.open if each.turn and now >= each.deadline
            ]:
                if connection.is_stalled:
                    self._stats.count("connections_closed", "stalled")
                elif not connection.idle:
                    self._stats.count("connections_closed", "slow")
                connection.time_out()
            self._abort_closing(now)

    def _abort_closing(self, now: float) -> None:
        """Ends those that we have closed and that do not read the rest of what we wrote."""
        closing = [each for each in self.open if each.transport.is_closing()]
        since = self._closing
        self._closing = {each: since.get(each, now) for each in closing}
        for each, begun in self._closing.items():
            if now >= begun + CLOSING_SECONDS:
                self._stats.count("connections_closed", "stalled")
                each.transport.abort()

    def count_deferred(self) -> None:
        """Counts that some of what a connection sent waits for its next turn."""
        self._stats.count("reads_deferred")

    def count_foreign(self, name: str, here: Spoken) -> None:
        """Counts another protocol on our port; each is logged once, not once a connection."""
        self._stats.count("foreign_protocol", name)
        if name not in self._logged:
            self._logged.add(name)
            reason = sentence(name, here, self._port)
            self._log.warning("foreign_protocol", protocol=name, reason=reason)


@cache
def _inbox() -> memoryview:
    """One for all listeners, since all is read in one thread, and none before the first client."""
    return memoryview(bytearray(INBOX_BYTES))


def _address(transport: asyncio.Transport) -> str:
    """The host of the peer; "" on a Unix socket."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def failure_of(error: BaseException) -> str:
    """Why a handshake failed: a label of the counter `tls_handshakes_failed`."""
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if isinstance(error, ssl.SSLCertVerificationError) or reason in NO_CERTIFICATE:
            return "client_certificate"
        if reason in PLAIN_TEXT:
            return "plain_text"
        if "_ALERT_" in reason:
            return "client_alert"
        if isinstance(error, ssl.SSLEOFError):
            return "disconnected"
        return "protocol"
    if isinstance(error, TimeoutError) or "taking longer" in str(error):
        return "timeout"
    return "disconnected"


def part(data: Data, begin: int, end: int) -> bytes:
    """Some of what has come, to be kept."""
    return data[begin:end] if isinstance(data, bytes) else data[begin:end].tobytes()


def _turn(waiting: tuple[int, ConnectionBase]) -> int:
    return waiting[0]
