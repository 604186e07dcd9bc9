"""An HTTP server for any ASGI application, in the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from collector.logs import log
from collector.receivers.address import Address, bind, parse_address
from collector.receivers.door import BODY_SECONDS, HEAD_SECONDS
from collector.receivers.tls import Certificates
from collector.stats import Stats

__all__ = ["Bounds", "Listener"]

BACKLOG: Final = 1024
"""Connections waiting to be accepted; a burst of senders that start together must fit."""
IDLE_SECONDS_MAX: Final = 75
"""Keep-alive. Exporters send every few seconds; a connection is dear to them."""
HEADER_BYTES_MAX: Final = 256 << 10
"""Of one request. Generous: one read of the socket may bring that much at once."""
LINGER_SECONDS: Final = 2.0
"""A refused client that goes on sending is read and not listened to for so long: closed at once, its
kernel would throw the answer away (RFC 9112 9.6)."""
SWEEP_SECONDS: Final = 1.0
"""How often slow clients are looked for."""
GREETINGS: Final = {
    b"PRI * HTTP/2": ("http2", "HTTP/2 or gRPC was spoken on the HTTP port"),
    b"\x16\x03": ("tls", "TLS was spoken on a port without TLS"),
}
"""How other protocols begin, their names in the counter, and the sentence in the log."""
NO_HTTP: Final = ("other", "something that is not HTTP was spoken on the HTTP port")


def _last_words(status: str, code: int, message: str, *headers: str) -> bytes:
    """A whole answer before the connection closes; the body is a google.rpc.Status in JSON."""
    body = f'{{"code": {code}, "message": "{message}"}}'
    lines = (
        f"HTTP/1.1 {status}",
        "content-type: application/json",
        "connection: close",
        f"content-length: {len(body)}",
        *headers,
    )
    return "\r\n".join([*lines, "", body]).encode()


HEADERS_TOO_LARGE: Final = _last_words(
    "431 Request Header Fields Too Large", 8, "headers are too large"
)
TOO_SLOW: Final = _last_words("408 Request Timeout", 4, "the request did not arrive in time")
NOT_HTTP: Final = _last_words("400 Bad Request", 3, "not an HTTP/1.1 request")


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


class Listener:
    """Serves one ASGI application on one address.

    Args:
        app: the application; its lifespan events are not sent.
        address: as `parse_address` reads it.
        certificates: with them TLS is spoken, and nothing else.
        bounds: on connections.
        stats: where what is not served is counted.
    """

    def __init__(
        self,
        app: Any,
        address: str,
        *,
        certificates: Certificates | None = None,
        bounds: Bounds | None = None,
        stats: Stats | None = None,
    ) -> None:
        self._app = app
        self._address = parse_address(address)
        self._certificates = certificates
        self._crowd = _Crowd(bounds or Bounds(), stats or Stats())
        self._sweeper: asyncio.Task[None] | None = None
        self._server: uvicorn.Server | None = None
        self._socket: socket.socket | None = None

    async def start(self) -> str:
        """Bind, accept connections, and return the bound address.

        Raises:
            AddressInUse: another process listens there.
            OSError: the address cannot be bound, or the certificates cannot be used.
        """
        tls = self._certificates.context() if self._certificates else None
        self._socket = bind(self._address)
        if not self._address.path:
            host, port = self._socket.getsockname()[:2]
            self._address = Address(host=host, port=port)
        self._server = self._build()
        self._server.config.ssl = tls
        # startup and shutdown without serve(): its main loop wakes ten times a second for what
        # we do not use, and it takes over the process' signals.
        await self._server.startup(sockets=[self._socket])
        self._sweeper = asyncio.create_task(self._crowd.sweep())
        return str(self._address)

    def _build(self) -> uvicorn.Server:
        config = uvicorn.Config(
            self._app,
            loop="none",
            http=type("_Bounded", (_Protocol,), {"crowd": self._crowd}),
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=IDLE_SECONDS_MAX,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        return server

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, let requests in flight end, and return.

        Requests that take longer than `grace_seconds` are cancelled.
        """
        server, self._server = self._server, None
        if server is None:
            return
        for accepting in server.servers:
            accepting.close()
        for connection in list(server.server_state.connections):
            connection.shutdown()  # an idle one now, a busy one after its answer
        if server.server_state.tasks:
            await asyncio.wait(server.server_state.tasks, timeout=grace_seconds)
        for task in list(server.server_state.tasks):
            task.cancel()
        for connection in list(server.server_state.connections):
            connection.transport.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
        self._release()

    def _release(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._address.path:
            Path(self._address.path).unlink(missing_ok=True)


class _Crowd:
    """The connections of one listener, and whom we wait for.

    We wait for a client while it is idle or in the middle of a request; the rest of the time it
    waits for us. `waiting` is in order of since when.
    """

    def __init__(self, bounds: Bounds, stats: Stats) -> None:
        self.bounds = bounds
        self.waiting: OrderedDict[_Protocol, None] = OrderedDict()
        self._stats = stats
        self._told: set[str] = set()
        self._log = log

    def make_room(self, connections: int) -> None:
        """One more has come: where that is too many, who kept us waiting longest goes."""
        if connections > self.bounds.connections and self.waiting:
            first = next(iter(self.waiting))
            self._stats.count("connections_closed", "crowded")
            first.end()

    def await_(self, connection: _Protocol) -> None:
        """From now on we wait for this client."""
        self.waiting[connection] = None
        self.waiting.move_to_end(connection)

    def leave(self, connection: _Protocol) -> None:
        self.waiting.pop(connection, None)

    async def sweep(self) -> None:
        """Closes the connections of clients that are too slow, once a second."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            for connection in [each for each in self.waiting if each.is_late(now)]:
                self._stats.count("connections_closed", "slow")
                connection.end(TOO_SLOW)

    def no_http(self, greeting: bytes) -> None:
        """Counts another protocol on our port; each is told of once, not once a connection."""
        found = (named for begins, named in GREETINGS.items() if greeting.startswith(begins))
        name, sentence = next(found, NO_HTTP)
        self._stats.count("foreign_protocol", name)
        if name not in self._told:
            self._told.add(name)
            self._log.warning("foreign_protocol", protocol=name, reason=sentence)


class _Protocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol, with bounds on size and time of what a client sends."""

    crowd: ClassVar[_Crowd]
    _head_bytes = 0
    _in_head = False
    _requests = 0
    _greeting = b""
    _born = 0.0
    _lingering = False
    """It has been refused; what it still sends is thrown away."""
    _late = float("inf")
    """When we have waited too long, on the loop's clock."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._born = self.loop.time()
        self._late = self._born + self.crowd.bounds.head
        self.crowd.make_room(len(self.connections))
        self.crowd.await_(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.crowd.leave(self)
        super().connection_lost(exc)

    def is_late(self, now: float) -> bool:
        return now >= self._late

    def end(self, words: bytes = b"") -> None:
        """Closes the connection, with an answer unless there was one."""
        self.crowd.leave(self)
        begun = self._in_head or (self.cycle is not None and not self.cycle.response_started)
        if words and begun and not self._lingering and not self.transport.is_closing():
            self.transport.write(words)
        self.transport.close()

    def refuse(self, words: bytes) -> None:
        """Says the last words, and closes once the client has had a chance to read them."""
        self.transport.write(words)
        if self.transport.is_closing() or not self.transport.can_write_eof():
            self.transport.close()
            return
        self._lingering = True
        self._in_head = False
        self._late = self.loop.time() + LINGER_SECONDS
        self.crowd.await_(self)
        self.transport.write_eof()

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        if not self._requests:
            self._greeting = data[:24]
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEADER_BYTES_MAX and not self.transport.is_closing():
                self.refuse(HEADERS_TOO_LARGE)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - ours says it as a Status
        if not self._requests:
            self.crowd.no_http(self._greeting)
        self.refuse(NOT_HTTP)

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        self._late = self.loop.time() + self.crowd.bounds.head
        self.crowd.await_(self)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._requests += 1
        now = self.loop.time()
        self._late = now + self.crowd.bounds.body
        super().on_headers_complete()
        age = self.crowd.bounds.age
        if age is not None and now - self._born >= age:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self.cycle.response_complete:
            # It was answered before its end; uvicorn has forgotten to bound its idleness.
            self._late = self.loop.time() + IDLE_SECONDS_MAX
            self.crowd.await_(self)
        else:
            # The client waits for us until its answer; then uvicorn bounds its idleness.
            self._late = float("inf")
            self.crowd.leave(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._late == float("inf") and not self.transport.is_closing():
            self.crowd.await_(self)
