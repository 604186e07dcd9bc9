"""Kept connections of a proxy to its server.

A request has its connection to itself, and is cancelled where its client leaves. httpcore's pool loses a place where
that happens while a connection is handed out or given back, and its server goes on with a stream that nobody reads.
So there is no pool: a connection that is not idle after its request is closed, whatever became of the request.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpcore

__all__ = ["ServerConnections"]

KEPT_MAX: Final = 64
"""Idle connections that are kept."""
CONNECT_SECONDS: Final = 10.0


class ServerConnections:
    """Connections to one server.

    Args:
        origin: of the server.
        context: trust in it, for https.
    """

    def __init__(self, origin: httpcore.Origin, context: ssl.SSLContext | None) -> None:
        self._origin = origin
        self._context = context
        self._idle: list[httpcore.AsyncHTTPConnection] = []
        self._closing: set[asyncio.Future[None]] = set()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: bytes,
        headers: list[tuple[bytes, bytes]],
        content: bytes | None,
    ) -> AsyncIterator[httpcore.Response]:
        """Sends a request, and gives the response to it as it comes.

        Raises:
            httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError: the
                server cannot be reached, or what it answers is no HTTP.
        """
        connection = self._take()
        try:
            async with connection.stream(
                method,
                url,
                headers=headers,
                content=content,
                extensions={"timeout": {"connect": CONNECT_SECONDS}},
            ) as response:
                yield response
        finally:
            is_free = connection.is_idle() and not connection.is_closed()
            if is_free and len(self._idle) < KEPT_MAX:
                self._idle.append(connection)
            else:
                self._close(connection)

    def _take(self) -> httpcore.AsyncHTTPConnection:
        """An idle connection, or a new one; those that their server has closed meanwhile are closed here, too."""
        idle, self._idle = self._idle, []
        for connection in idle:
            if connection.has_expired():
                self._close(connection)
            else:
                self._idle.append(connection)
        if self._idle:
            return self._idle.pop()
        return httpcore.AsyncHTTPConnection(self._origin, self._context)

    def _close(self, connection: httpcore.AsyncHTTPConnection) -> None:
        """Closes a connection in a task of its own, which is cancelled with no request."""
        task = asyncio.ensure_future(connection.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closed)

    def _closed(self, task: asyncio.Future[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled():
            task.exception()  # of a connection that is gone anyway

    async def aclose(self) -> None:
        """Closes the idle ones."""
        while self._idle:
            self._close(self._idle.pop())
        if self._closing:
            await asyncio.wait(self._closing)
