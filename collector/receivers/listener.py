"""An HTTP server for any ASGI application, in the running event loop."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from collector.receivers.address import Address, bind, parse_address

__all__ = ["Listener"]

BACKLOG: Final = 1024
"""Connections waiting to be accepted; a burst of senders that start together must fit."""
IDLE_SECONDS_MAX: Final = 75
"""Keep-alive. Exporters send every few seconds; a connection is dear to them."""
HEADER_BYTES_MAX: Final = 256 << 10
"""Of one request. Generous: one read of the socket may bring that much at once."""
HEADERS_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\nconnection: close\r\ncontent-length: 47\r\n\r\n"
    b'{"code": 8, "message": "headers are too large"}'
)


class Listener:
    """Serves one ASGI application on one address.

    Args:
        app: the application; its lifespan events are not sent.
        address: as `parse_address` reads it.
    """

    def __init__(self, app: Any, address: str) -> None:
        self._app = app
        self._address = parse_address(address)
        self._server: uvicorn.Server | None = None
        self._socket: socket.socket | None = None

    async def start(self) -> str:
        """Bind, accept connections, and return the bound address.

        Raises:
            AddressInUse: another process listens there.
            OSError: the address cannot be bound.
        """
        self._socket = bind(self._address)
        if not self._address.path:
            host, port = self._socket.getsockname()[:2]
            self._address = Address(host=host, port=port)
        self._server = self._build()
        # startup and shutdown without serve(): its main loop wakes ten times a second for what
        # we do not use, and it takes over the process' signals.
        await self._server.startup(sockets=[self._socket])
        return str(self._address)

    def _build(self) -> uvicorn.Server:
        config = uvicorn.Config(
            self._app,
            loop="none",
            http=_Protocol,
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
        self._release()

    def _release(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._address.path:
            Path(self._address.path).unlink(missing_ok=True)


class _Protocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with a bound on the request head, which it leaves open."""

    _head_bytes = 0
    _in_head = False

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEADER_BYTES_MAX and not self.transport.is_closing():
                self.transport.write(HEADERS_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()
