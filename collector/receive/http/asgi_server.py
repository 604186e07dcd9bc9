"""ASGI applications on our connections: what is not on the hot path is written as such."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import unquote

import httptools

from collector.receive.http.connection import Exchange, HttpConnection
from collector.receive.http.responses import head_of
from collector.receive.listener.connections import Connections
from collector.telemetry.logs import log

__all__ = ["WebApp"]

Message = MutableMapping[str, Any]
Application = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[Message]],
        Callable[[Message], Awaitable[None]],
    ],
    Awaitable[None],
]
WAITING_BYTES_MAX: Final = 64 << 10
"""Bytes of a body that the application has not asked for; more is not read."""
NO_BODY: Final = frozenset((204, 304))
FAILED: Final = head_of(500, [(b"content-length", b"0"), (b"connection", b"close")])


class ClientGoneError(Exception):
    """Nobody is there to be sent anything."""


class WebApp:
    """Serves an ASGI 3 application; its lifespan events are not sent."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.log = log

    def __call__(self, connections: Connections) -> HttpConnection:
        return HttpConnection(self._start, connections)

    def _start(self, connection: HttpConnection) -> Exchange:
        return _Exchange(connection, self)


class _Exchange(Exchange):
    """One request, answered by a task of its own."""

    def __init__(self, connection: HttpConnection, web: WebApp) -> None:
        super().__init__(connection)
        self._web = web
        self._headers: list[tuple[bytes, bytes]] = []
        """Headers as received."""
        self._scope: dict[str, Any] = {}
        self._body = bytearray()
        self._news = asyncio.Event()
        """Set by a part of the body, its end, or the client's leaving."""
        self._is_gone = False
        self._is_chunked = False

    def header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def headers_of(self, names: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
        return [header for header in self._headers if header[0] in names]

    def route(self) -> None:
        target: Any = httptools.parse_url(self.url)  # whose parts may be None
        raw_path = target.path or b"/"
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": self.version,
            "method": self.method.decode("ascii"),
            "scheme": "http",
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "query_string": target.query or b"",
            "headers": self._headers,
            "client": (self.connection.client.address, 0),
        }

    def begin(self) -> None:
        task = asyncio.get_running_loop().create_task(self._run())
        self.connection.connections.tasks.add(task)
        task.add_done_callback(self.connection.connections.tasks.discard)

    def piece(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > WAITING_BYTES_MAX:
            self.connection.take_no_body(is_paused=True)
        self._news.set()

    def complete(self) -> None:
        self._news.set()

    def lost(self) -> None:
        self._is_gone = True
        self._news.set()

    async def _run(self) -> None:
        try:
            await self._web.app(self._scope, self._receive, self._send)
        except ClientGoneError:
            return
        except asyncio.CancelledError:
            if not (self.is_answered or self._is_gone):
                self.connection.end()
                self.connection.transport.abort()  # who does not read would keep it open
            raise
        except Exception as error:  # noqa: BLE001 - anything may go wrong in an application
            self._report(error)
        if not self.is_answered and not self._is_gone:
            if not self.is_begun:
                self.write(FAILED + b"\r\n")
            self.keep_alive = False
            self.connection.answered(self)

    def _report(self, error: Exception) -> None:
        self._web.log.error("a request could not be answered", exc_info=error)

    async def _receive(self) -> Message:
        self.go_on(dict(self._headers).get(b"expect", b""))
        if not self._is_gone and not self.is_answered:
            self.connection.take_no_body(is_paused=False)
            await self._news.wait()
            self._news.clear()
        if self._is_gone or self.is_answered:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": not self.is_whole}

    async def _send(self, message: Message) -> None:
        await self.connection.writable.wait()
        if self._is_gone:
            raise ClientGoneError
        if message["type"] == "http.response.start":
            self._begin_answer(message["status"], list(message.get("headers", ())))
        else:
            self._go_on_answering(message.get("body", b""), message.get("more_body", False))

    def _begin_answer(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        has_length = any(name == b"content-length" for name, _ in headers)
        self._is_chunked = not (has_length or self.method == b"HEAD" or status in NO_BODY)
        if self._is_chunked:
            headers.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        self.write(head_of(status, headers) + b"\r\n")

    def _go_on_answering(self, body: bytes, more: bool) -> None:
        if self.method == b"HEAD":
            body = b""
        if self._is_chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (
                b"" if more else b"0\r\n\r\n"
            )
        if body:
            self.write(body)
        if not more:
            self.connection.answered(self)
            self._news.set()
