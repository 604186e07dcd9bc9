"""MCP over streamable HTTP: an ASGI application before a server, which asks for each call of a tool.

Requests and responses go on as they came, streams part by part, but for the headers that are one
connection's.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore

from offrails_guard.awaiting_outcome.decision_ids import DecisionIds
from offrails_guard.mcp.gate import Gate
from offrails_guard.mcp.messages import traceparent
from offrails_guard.mcp.server_connections import ServerConnections

__all__ = ["HttpProxy"]

BODY_BYTES_MAX: Final = 16 << 20
"""Bytes of a request."""

SEEN_BYTES_MAX: Final = 1 << 20
"""Bytes of a response's body or of one of its events; a call with a longer result is settled by
spans."""

OF_A_CONNECTION: Final = frozenset(
    b"connection host keep-alive proxy-authenticate proxy-authorization te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers that do not go on."""

OF_THE_BODY: Final = frozenset((b"content-length", b"accept-encoding"))
"""Headers of a request that are made anew. Responses come uncompressed, so that their results can
be read."""

_SESSION: Final = b"mcp-session-id"
_CHARSET: Final = re.compile(rb"""charset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class HttpProxy:
    """The application.

    Args:
        gate: decides which requests go on.
        origin: of the server, `http://HOST:PORT` or `https://HOST:PORT`; paths are the client's.

    Raises:
        ValueError: the origin is none.
    """

    def __init__(self, gate: Gate, origin: str) -> None:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"{origin!r}: expected http://HOST:PORT, without a path")
        self._gate = gate
        self._origin = origin.rstrip("/").encode()
        self._host = parts.netloc.rpartition("@")[2].encode()
        context = ssl.create_default_context() if parts.scheme == "https" else None
        self._connections = ServerConnections(httpcore.URL(self._origin).origin, context)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serves one request."""
        body = await _body(receive)
        if body is None:
            await _answer(send, 413, b'{"error":"the request is too long"}')
            return
        going = asyncio.ensure_future(self._serve(scope, body, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        await asyncio.wait((going, gone), return_when=asyncio.FIRST_COMPLETED)
        for each in (going, gone):
            each.cancel()
        with suppress(asyncio.CancelledError):
            await going

    async def _serve(self, scope: Message, body: bytes, send: Send) -> None:
        """Asks for what a request calls, and passes it on."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        awaiting = DecisionIds()
        if body:
            if not _is_plain(headers):
                await _answer(send, 415, b'{"error":"expected UTF-8 without Content-Encoding"}')
                return
            incoming = self._gate.read(body)
            if isinstance(incoming, bytes):
                await _answer(send, 400, incoming)
                return
            session = headers.get(_SESSION, b"").decode("latin-1")
            trace_id, _ = traceparent(headers.get(b"traceparent", b"").decode("latin-1"))
            denied = await self._gate.ask(incoming, awaiting, session, trace_id)
            if denied is not None:
                await _answer(send, 200 if denied else 403, denied)
                return
        await self._forward(scope, body, awaiting, send)

    async def aclose(self) -> None:
        """Closes the connections to the server."""
        await self._connections.aclose()

    async def _forward(
        self, scope: Message, body: bytes, awaiting: DecisionIds, send: Send
    ) -> None:
        target = self._origin + scope["raw_path"]
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        kept = [each for each in _kept(scope["headers"]) if each[0].lower() not in OF_THE_BODY]
        headers = [(b"host", self._host), *kept]
        begun = False
        try:
            async with self._connections.stream(
                scope["method"], target, headers, body or None
            ) as response:
                begun = True
                self._note_session(scope, response)
                start = {"type": "http.response.start", "status": response.status}
                await send({**start, "headers": _kept(response.headers)})
                await self._pass_on(response, awaiting, send)
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.TimeoutException,
            OSError,
        ):
            self._gate.fail(awaiting)
            if begun:
                raise
            await _answer(send, 502, b'{"error":"the server cannot be reached"}')

    def _note_session(self, scope: Message, response: httpcore.Response) -> None:
        """A server names a session in its answer to the first request of it."""
        if _SESSION not in {each.lower() for each, _ in scope["headers"]}:
            for each, value in response.headers:
                if each.lower() == _SESSION:
                    self._gate.begin(value.decode("latin-1"))

    async def _pass_on(
        self, response: httpcore.Response, awaiting: DecisionIds, send: Send
    ) -> None:
        answer = _Answer(self._gate, awaiting, dict(response.headers))
        try:
            async for part in response.aiter_stream():
                answer.add(part)
                await send({"type": "http.response.body", "body": part, "more_body": True})
                # A server that is never short of parts would keep others waiting, and a client's end from being seen.
                await asyncio.sleep(0)
        finally:
            answer.end()  # also where the client has its result, and leaves before the end
        await send({"type": "http.response.body", "body": b""})


class _Answer:
    """Settles calls by a response, as it passes: by each of its events, or by the whole body."""

    def __init__(self, gate: Gate, awaiting: DecisionIds, headers: dict[bytes, bytes]) -> None:
        kind = {name.lower(): value for name, value in headers.items()}.get(
            b"content-type", b""
        )
        self._gate = gate
        self._awaiting = awaiting
        self._has_events = kind.startswith(b"text/event-stream")
        self._seen = bytearray()
        """What is not read yet."""
        self._too_long = False

    def add(self, part: bytes) -> None:
        """A part of the body."""
        if self._too_long or not len(self._awaiting):
            return
        self._seen += part
        if self._has_events:
            *lines, rest = self._seen.split(b"\n")
            self._seen = rest
            for line in lines:
                if line.startswith(b"data:"):
                    self._gate.settle(bytes(line.removeprefix(b"data:")), self._awaiting)
        if len(self._seen) > SEEN_BYTES_MAX:
            self._too_long = True
            self._seen.clear()

    def end(self) -> None:
        """The end of the body."""
        if not self._has_events and self._seen:
            self._gate.settle(bytes(self._seen), self._awaiting)


def _is_plain(headers: dict[bytes, bytes]) -> bool:
    """False for a body that the server would decode before it reads it: its calls could not be seen."""
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        return False
    found = _CHARSET.search(headers.get(b"content-type", b""))
    return found is None or found[1].lower() in (b"utf-8", b"utf8", b"us-ascii")


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None where it is too long."""
    found = bytearray()
    while True:
        message = await receive()
        found += message.get("body", b"")
        if len(found) > BODY_BYTES_MAX:
            return None
        if not message.get("more_body"):
            return bytes(found)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _kept(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() not in OF_A_CONNECTION]


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
