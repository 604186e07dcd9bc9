"""The connections of one listener: bounds their number, age and waiting time.

Idea: at each moment, either the client waits for the service (its request is being judged) or the service waits
for the client (the connection is idle, or a request is incomplete). In the second case the connection has a number,
`turn`, which grows with time: the smallest has kept the service waiting longest. A full listener closes the
connection with the smallest number to make room for a new one.

Invariants:

- `turn` is 0 exactly while the client waits. Such a connection is never closed for another.
- Connections are not kept sorted. The 256 smallest numbers are collected at once and used one by one. A connection
  whose number has changed since is skipped.
- `deadline` is checked once a second (`sweep`), so no connection needs a timer.
- The inbox is one buffer for all listeners. A reader copies what it keeps after the call.

Example: 16,384 connections are open, and all but two have been idle since their last request. A new one
arrives: the connection with the smallest `turn` is closed and counted as `crowded`. The two whose requests are
being judged stay. If all clients were waiting, the new connection would be closed and counted as `refused`.
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
from collector.receive.listener.protocol_detection import Spoken, sentence
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log

__all__ = [
    "COPIED_BYTES",
    "FAILURES",
    "INBOX_BYTES",
    "LINGER_SECONDS",
    "NEVER",
    "ConnectionBase",
    "ConnectionBounds",
    "Connections",
    "Data",
    "failure_of",
    "part",
]

Data = bytes | memoryview
"""Received bytes. A view is valid until the next read."""

SWEEP_SECONDS: Final = 1.0
"""Interval at which deadlines are checked."""
LONGEST: Final = 256
"""Connections collected at once as candidates for closing, when the listener is full."""
NEVER: Final = float("inf")
LOG_SECONDS: Final = 60.0
"""Shortest interval between log lines about a listener's failed handshakes."""
INBOX_BYTES: Final = 256 << 10
"""Greatest read from a socket."""
COPIED_BYTES: Final = 8 << 10
"""Reads up to this size are copied out of the inbox: that costs less than a view of it."""
NO_CERTIFICATE: Final = ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED")
PLAIN_TEXT: Final = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER")
"""OpenSSL's reasons if a client does not speak TLS."""
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
"""Time for a client to read the last response after its connection was closed."""
LINGER_SECONDS: Final = 2.0
"""Time for which the input of a refused client is read and discarded. If the connection were closed at
once, the client's kernel would discard the response (RFC 9112 9.6)."""


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """Bounds on the connections of one listener; times in seconds."""

    connections: int = 16_384
    """Open connections. Beyond it, the one that has kept the service waiting longest is closed."""
    head: float = HEAD_SECONDS
    """Time from the first byte of a request, or the connection's start, to the end of its headers."""
    body: float = BODY_SECONDS
    """Time from the end of the headers to the end of the body."""
    age: float | None = None
    """A connection of this age is closed with its next response, so that load spreads over replicas."""


class ConnectionBase(ABC):
    """A connection for `Connections`, with the methods that an event loop calls of a protocol.

    It does not inherit from asyncio's protocols, because a compiled class cannot. Loops that check only for
    methods, such as uvloop, read into the listener's inbox; others pass `bytes`.
    """

    connections: Connections
    transport: asyncio.Transport
    client: Client
    """Peer by which admission counts places; set by `register`."""

    deadline = NEVER
    """When the service has waited too long, on the loop's clock."""
    idle = False
    """True if the wait is no fault of the client: it is between two requests."""
    turn = 0
    """The number in `Connections` since which the service waits for the client; 0 while the client waits."""

    @abstractmethod
    def connection_made(self, transport: Any) -> None:
        """The connection is open."""

    @abstractmethod
    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""

    @abstractmethod
    def data_received(self, data: bytes) -> None:
        """The client has sent `data`."""

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's; ours is larger
        """The buffer for what the client sends."""
        return self.connections.inbox

    @abstractmethod
    def buffer_updated(self, count: int) -> None:
        """The client has sent `count` bytes, which are in the listener's inbox."""

    def eof_received(self) -> bool | None:
        """The client has closed its sending half: the transport closes."""
        return None

    @abstractmethod
    def pause_writing(self) -> None:
        """The client does not read responses: the write buffer is full."""

    @abstractmethod
    def resume_writing(self) -> None:
        """The client reads again."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """True while a request has begun and is not answered."""

    @property
    def is_stalled(self) -> bool:
        """True while the client does not read responses."""
        return False

    @abstractmethod
    def time_out(self) -> None:
        """The deadline has passed."""

    @abstractmethod
    def shut_down(self) -> None:
        """Closes the connection once it is not busy."""

    @abstractmethod
    def end(self) -> None:
        """Closes it."""


class Connections:
    """The connections of one listener.

    Each connection holds its own number `turn`. A linked list in the same order would touch the
    neighbours with each request.

    Args:
        bounds: on the connections.
        stats: counts connections that are not served.
        port: name of the listener in the log; "": its protocol.
    """

    def __init__(self, bounds: ConnectionBounds, stats: Stats, port: str = "") -> None:
        self.bounds = bounds
        self._port = port
        self.open: set[ConnectionBase] = set()
        self.arrivals: dict[ConnectionBase, asyncio.Task[None]] = {}
        """Accepted connections that are not open yet, mostly in their TLS handshake."""
        self.tasks: set[asyncio.Task[None]] = set()
        """Requests that are answered in tasks of their own."""
        self.moved = asyncio.Event()
        """Set when a connection was closed, or will be once its response has been read."""
        self.inbox = memoryview(b"")
        """The buffer into which sockets are read. A reader copies what it keeps."""
        self._turns = 0
        self._longest: list[tuple[int, ConnectionBase]] = []
        """Candidates for closing with their `turn`: the smallest last."""
        self._stats = stats
        self._logged: set[str] = set()
        self._failed: dict[str, int] = {}
        """Failed handshakes by reason, since the last log line about them."""
        self._failed_next = -NEVER
        self._closing: dict[ConnectionBase, float] = {}
        """Closing connections that are not gone -> when they were first seen so."""
        self._log = log

    @property
    def size(self) -> int:
        """Number of open connections, including those in their handshake."""
        return len(self.open) + len(self.arrivals)

    def make_room(self) -> bool:
        """Makes room for one more connection; False if there is none, because all clients wait.

        If the listener is full, the connection that has kept it waiting longest is closed.
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
            first.transport.abort()  # closing TLS properly would wait for the peer
        return True

    def begin_handshake(
        self, connection: ConnectionBase, handshake: asyncio.Task[None]
    ) -> None:
        """Notes an accepted connection, which `register` opens after its handshake."""
        self.arrivals[connection] = handshake
        self.start_waiting(connection)

    def fail_handshake(self, connection: ConnectionBase, reason: str) -> None:
        """Counts a failed handshake by reason; logs the counts once a minute."""
        if self.arrivals.pop(connection, None) is None:
            return  # it was opened before, or closed to make room
        self.stop_waiting(connection)
        self._stats.count("tls_handshakes_failed", reason)
        now = asyncio.get_running_loop().time()
        self._failed[reason] = self._failed.get(reason, 0) + 1
        if now >= self._failed_next:
            self._failed_next = now + LOG_SECONDS
            failed, self._failed = self._failed, {}
            self._log.warning("tls_handshakes_failed", listener=self._port, **failed)

    def register(self, connection: ConnectionBase) -> None:
        """Adds an open connection."""
        if not self.inbox:
            self.inbox = _inbox()
        self.arrivals.pop(connection, None)
        connection.client = Client(_address(connection.transport))
        self.open.add(connection)

    def start_waiting(self, connection: ConnectionBase) -> None:
        """The service waits for this client from now on."""
        self._turns += 1
        connection.turn = self._turns

    def stop_waiting(self, connection: ConnectionBase) -> None:
        """The client waits for the service."""
        connection.turn = 0

    def remove(self, connection: ConnectionBase) -> None:
        """Removes a closed connection."""
        self.open.discard(connection)
        self.stop_waiting(connection)
        self.moved.set()

    def _first(self) -> ConnectionBase | None:
        """The connection that has kept the service waiting longest; None if all clients wait."""
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
        """Closes all connections. Busy ones are closed after their response, or after the grace time."""
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
        """Aborts closing connections whose clients do not read the rest of their responses."""
        closing = [each for each in self.open if each.transport.is_closing()]
        since = self._closing
        self._closing = {each: since.get(each, now) for each in closing}
        for each, begun in self._closing.items():
            if now >= begun + CLOSING_SECONDS:
                self._stats.count("connections_closed", "stalled")
                each.transport.abort()

    def count_deferred(self) -> None:
        """Counts a connection whose input waits for its next turn."""
        self._stats.count("reads_deferred")

    def count_foreign(self, name: str, here: Spoken) -> None:
        """Counts a client of another protocol. Each protocol is logged once."""
        self._stats.count("foreign_protocol", name)
        if name not in self._logged:
            self._logged.add(name)
            reason = sentence(name, here, self._port)
            self._log.warning("foreign_protocol", protocol=name, reason=reason)


@cache
def _inbox() -> memoryview:
    """One buffer for all listeners, as one thread reads all sockets; allocated with the first client."""
    return memoryview(bytearray(INBOX_BYTES))


def _address(transport: asyncio.Transport) -> str:
    """The host of the peer; "" on a Unix socket."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def failure_of(error: BaseException) -> str:
    """The reason of a failed handshake: a label of the counter `tls_handshakes_failed`."""
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
    """A copy of a part of the received bytes."""
    return data[begin:end] if isinstance(data, bytes) else data[begin:end].tobytes()


def _turn(waiting: tuple[int, ConnectionBase]) -> int:
    return waiting[0]
