"""A server on one address, in the running event loop.

Connections are accepted here and not by asyncio's server, which sets no bound on connections in their TLS
handshake and does not report failed handshakes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

from collector.receive.listener.address import Address, bind, parse_address
from collector.receive.listener.connections import (
    LINGER_SECONDS,
    ConnectionBase,
    ConnectionBounds,
    Connections,
    failure_of,
)
from collector.receive.listener.tls import Certificates
from collector.telemetry.counters import Stats

__all__ = ["Listener"]

BACKLOG: Final = 1024
"""Connections that the kernel queues until they are accepted: enough for many senders that start at once."""
SEND_BUFFER_BYTES: Final = 128 << 10
"""Kernel send buffer of a connection. Without it, a client that reads nothing costs megabytes."""
ACCEPTED_MAX: Final = 64
"""Connections accepted in one turn of the loop."""
NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
NO_ROOM_SECONDS: Final = 0.5
"""Pause after one of these errors, if no spare descriptor is left."""


class Listener:
    """Serves on one address.

    Args:
        connect: makes the protocol of a new connection.
        address: as `parse_address` reads it.
        certificates: if given, only TLS is accepted.
        bounds: on connections.
        stats: counts connections that are not served.
        name: of the listener in the log; "": its protocol.
        socket_mode: permissions of a Unix socket; None: as the process's mask has it.
    """

    protocols: Sequence[str] = ("http/1.1",)
    """Protocols offered by ALPN in the TLS handshake."""

    def __init__(
        self,
        connect: Callable[[Connections], ConnectionBase],
        address: str,
        *,
        certificates: Certificates | None = None,
        bounds: ConnectionBounds | None = None,
        stats: Stats | None = None,
        name: str = "",
        socket_mode: int | None = None,
    ) -> None:
        self._socket_mode = socket_mode
        self._connect_one = connect
        self._address = parse_address(address)
        self._certificates = certificates
        self.name = name
        self._connections = Connections(bounds or ConnectionBounds(), stats or Stats(), name)
        self._sweeper: asyncio.Task[None] | None = None
        self._stats = stats or Stats()
        self._socket: socket.socket | None = None
        self._tls: ssl.SSLContext | None = None
        self._is_open = False
        self._spare = -1
        """A spare file descriptor: released when none is left, to accept a connection and close it."""

    @property
    def connections(self) -> int:
        """Number of open connections, including those in their handshake."""
        return self._connections.size

    @property
    def capacity(self) -> int:
        """Greatest number of open connections."""
        return self._connections.bounds.connections

    @property
    def certificates(self) -> Certificates | None:
        """Of TLS; None if it is off."""
        return self._certificates

    async def start(self) -> str:
        """Bind, accept connections, and return the bound address.

        Raises:
            AddressInUse: another process listens there.
            OSError: the address cannot be bound, or the certificates cannot be used.
        """
        self._tls = self._certificates.context(self.protocols) if self._certificates else None
        self._socket = bind(self._address, self._socket_mode)
        if not self._address.path:
            host, port = self._socket.getsockname()[:2]
            self._address = Address(host=host, port=port)
        self._socket.setblocking(False)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            self._socket.listen(BACKLOG)
        except OSError:
            self._release()
            raise
        self._take_spare()
        self._is_open = True
        self._listen()
        self._sweeper = asyncio.create_task(self._connections.sweep())
        return str(self._address)

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, let requests in flight end, and return.

        Requests that take longer than `grace_seconds` are cancelled.
        """
        if not self._is_open or self._socket is None:
            return
        self._is_open = False
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        await self._connections.close_all(grace_seconds)
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
        self._release()

    # --- accepting ------------------------------------------------------------------------------

    def _listen(self) -> None:
        if self._is_open and self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        """Accepts waiting connections; the loop calls it while there are any."""
        assert self._socket is not None
        # Connections that are closed to make room keep their descriptors until the next turn.
        for _ in range(min(ACCEPTED_MAX, 1 + self.capacity // 8)):
            try:
                accepted, _ = self._socket.accept()
            except OSError as error:
                # Other errors mean that no connection waits any more.
                if error.errno in NO_ROOM:
                    self._stats.count("connections_closed", "no_descriptor")
                    self._turn_away()
                return
            if self._connections.make_room():
                self._begin(accepted)
            else:
                accepted.close()

    def _turn_away(self) -> None:
        """No descriptor is left: accepts and closes the first waiting connection, or pauses."""
        assert self._socket is not None
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
            with contextlib.suppress(OSError):
                self._socket.accept()[0].close()
            self._take_spare()
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        loop.call_later(NO_ROOM_SECONDS, self._retry)

    def _retry(self) -> None:
        self._take_spare()
        self._listen()

    def _take_spare(self) -> None:
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _begin(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        if not self._address.path:
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._connect_one(self._connections)
        task = asyncio.get_running_loop().create_task(self._handshake(connection, accepted))
        self._connections.begin_handshake(connection, task)

    async def _handshake(self, connection: ConnectionBase, accepted: socket.socket) -> None:
        """Starts the connection, after its handshake if TLS is on."""
        loop, tls = asyncio.get_running_loop(), self._tls
        factory = cast(Callable[[], asyncio.Protocol], lambda: connection)
        try:
            if tls is None:
                await loop.connect_accepted_socket(factory, accepted)
            else:
                await loop.connect_accepted_socket(
                    factory,
                    accepted,
                    ssl=tls,
                    ssl_handshake_timeout=self._connections.bounds.head,
                    ssl_shutdown_timeout=LINGER_SECONDS,
                )
        except asyncio.CancelledError:
            if (
                connection in self._connections.open
            ):  # it had begun, and no loop reports its end
                connection.connection_lost(None)
        except OSError as error:  # the loop has closed it, as it does where this is cancelled
            self._connections.fail_handshake(connection, failure_of(error))

    def _release(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        if self._socket is not None:
            self._socket.close()
        if self._address.path:
            Path(self._address.path).unlink(missing_ok=True)
