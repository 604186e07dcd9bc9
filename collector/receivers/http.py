"""OTLP/HTTP as a bare ASGI application: POST /v1/{traces,metrics,logs}, protobuf or JSON.

Every answer, errors too, is in the request's own media type; where that is neither of the two
(a wrong method, path or type), it is JSON, which people can read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from collector.receivers.door import Door, Ticket
from collector.receivers.encodings import ACCEPTED, inflate
from collector.receivers.export import Answer, Encoding, Export, Signal, proto_answer
from collector.receivers.status import Outcome, Refusal, status_bytes

__all__ = ["HttpApp"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATHS: Final[Mapping[str, Signal]] = {
    "/v1/traces": "traces",
    "/v1/metrics": "metrics",
    "/v1/logs": "logs",
}
MEDIA_TYPES: Final[Mapping[bytes, Encoding]] = {
    b"application/x-protobuf": "proto",
    b"application/json": "json",
}
CONTENT_TYPES: Final[Mapping[Encoding, bytes]] = {
    encoding: media_type for media_type, encoding in MEDIA_TYPES.items()
}
TRANSPORTS: Final[Mapping[Encoding, str]] = {"proto": "http_proto", "json": "http_json"}
PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"authorization, content-encoding, content-type"),
    (b"access-control-max-age", b"7200"),
)
INLINE_BYTES_MAX: Final = 8 << 10
"""Compressed bodies up to this are inflated at once: a thread would take longer. Larger ones would
hold up everyone else, a bomb for a tenth of a second."""
DRAIN_FACTOR: Final = 4
"""Of a body over the limit, this many limits are read and thrown away before the answer: most
clients send all of it before they listen."""


class _Disconnected(Exception):  # noqa: N818 - nobody is there to hear of an error
    """The client left in the middle of its body."""


class _Headers(NamedTuple):
    """The headers this application looks at."""

    encoding: Encoding | None
    """None: no media type, or one that is not ours."""
    media_type: str
    coding: str
    length: int
    """-1 if the body is chunked."""
    expects_continue: bool
    authorization: str
    origin: str
    preflight: bool
    """A browser asks whether a page of the origin may send."""


class _Reply(NamedTuple):
    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]


class HttpApp:
    """The ASGI application.

    Args:
        export: takes the bodies.
        max_body: bytes, before and after decompression.
        door: who is let in.
        origins: of pages whose browsers may send (CORS), as `https://*.example.com`; none by
            default.
    """

    def __init__(
        self,
        export: Export,
        max_body: int = 64 << 20,
        *,
        door: Door | None = None,
        origins: Sequence[str] = (),
    ) -> None:
        self._export = export
        self._max_body = max_body
        self._door = door or Door()
        self._beside = ThreadPoolExecutor(1, "inflate")
        self._origins = tuple(origin.lower() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3)."""
        if scope["type"] != "http":
            return
        headers = _read_headers(scope)
        encoding: Encoding = headers.encoding or "json"
        signal = PATHS.get(scope["path"])
        try:
            reply = await self._reply(scope["method"], signal, headers, receive)
        except Refusal as refusal:
            reply = _refuse(refusal, encoding)
        except _Disconnected:
            self._export.stats.count("client_disconnects", TRANSPORTS[encoding])
            return
        if self._origins:
            reply.headers.extend(self._grant(headers))
        code = str(reply.status)
        self._export.stats.request(TRANSPORTS[encoding], signal or "other", code)
        await _send(send, reply, CONTENT_TYPES[encoding])

    async def _reply(
        self, method: str, signal: Signal | None, headers: _Headers, receive: Receive
    ) -> _Reply:
        if signal is None:
            raise Refusal(Outcome.NOT_FOUND, "no such path; there are " + ", ".join(PATHS))
        if method == "OPTIONS" and headers.preflight and self._origins:
            return _Reply(204, b"", [])
        if method != "POST":
            raise Refusal(Outcome.METHOD_NOT_ALLOWED, f"{method[:20]} is not allowed; use POST")
        if headers.encoding is None:
            raise Refusal(Outcome.UNSUPPORTED_MEDIA, _media_type_message(headers.media_type))
        sender = self._door.sender(headers.authorization)
        with self._door.enter(sender) as ticket:
            raw = await self._body(headers, receive, ticket)
            body = await self._inflated(raw, headers.coding)
            transport = TRANSPORTS[headers.encoding]
            answer = await self._export.take(signal, body, headers.encoding, transport, sender)
        if headers.encoding == "json":
            return _Reply(200, _json_answer(answer), [])
        return _Reply(200, proto_answer(answer), [])

    async def _inflated(self, raw: bytes, coding: str) -> bytes:
        """Undo the coding; of what may become large, beside the loop, and one after another."""
        if not coding or len(raw) <= INLINE_BYTES_MAX:
            return inflate(raw, coding, self._max_body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._beside, inflate, raw, coding, self._max_body)

    def _grant(self, headers: _Headers) -> list[tuple[bytes, bytes]]:
        """What tells a browser that its page may send; nothing for other origins."""
        vary = [(b"vary", b"origin")]
        origin = headers.origin.lower()
        if not origin or not any(fnmatchcase(origin, allowed) for allowed in self._origins):
            return vary
        granted = [(b"access-control-allow-origin", headers.origin.encode("latin-1")), *vary]
        return [*granted, *PREFLIGHT] if headers.preflight else granted

    async def _body(self, headers: _Headers, receive: Receive, ticket: Ticket) -> bytes:
        """Read the body; one over the limit is drained, not kept."""
        limit = self._max_body
        too_large = Refusal(Outcome.TOO_LARGE, f"the body has more than {limit} bytes")
        if headers.length > limit and headers.expects_continue:
            raise too_large  # it has not been sent yet, and need not be
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            piece = message.get("body", b"")
            size += len(piece)
            if size <= limit:
                ticket.grow(len(piece))
                pieces.append(piece)
            else:
                ticket.release()
                pieces.clear()
            if not message.get("more_body", False):
                break
            if size > limit * DRAIN_FACTOR:
                break
        if size > limit:
            raise too_large
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _read_headers(scope: Scope) -> _Headers:
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        found.setdefault(name, value)
    media_type = found.get(b"content-type", b"")
    length = found.get(b"content-length", b"")
    return _Headers(
        encoding=MEDIA_TYPES.get(media_type.split(b";", 1)[0].strip().lower()),
        media_type=media_type.decode("latin-1"),
        coding=found.get(b"content-encoding", b"").decode("latin-1"),
        length=int(length) if length.isdigit() else -1,
        expects_continue=b"expect" in found,
        authorization=found.get(b"authorization", b"").decode("latin-1"),
        origin=found.get(b"origin", b"").decode("latin-1"),
        preflight=b"origin" in found and b"access-control-request-method" in found,
    )


def _media_type_message(media_type: str) -> str:
    found = f"Content-Type {media_type[:80]!r}" if media_type else "no Content-Type"
    return f"{found}; use application/x-protobuf or application/json"


def _json_answer(answer: Answer) -> bytes:
    if not answer.rejected and not answer.message:
        return b"{}"
    # proto3 JSON writes 64-bit integers as strings.
    partial = {"rejectedSpans": str(answer.rejected), "errorMessage": answer.message}
    return json.dumps({"partialSuccess": partial}).encode()


def _refuse(refusal: Refusal, encoding: Encoding) -> _Reply:
    code = refusal.outcome.value
    headers = []
    if refusal.outcome is Outcome.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    if refusal.outcome is Outcome.UNSUPPORTED_MEDIA:
        headers.append((b"accept-encoding", ACCEPTED.encode()))
    if refusal.outcome is Outcome.UNAUTHENTICATED:
        headers.append((b"www-authenticate", b"Bearer"))  # RFC 9110 11.6.1: MUST
    if code.retryable:
        headers.append((b"retry-after", str(refusal.retry_seconds).encode()))
    if refusal.outcome is Outcome.TOO_LARGE:  # some of the body may be unread
        headers.append((b"connection", b"close"))
    if encoding == "proto":
        return _Reply(code.http, status_bytes(refusal), headers)
    body = json.dumps({"code": code.grpc, "message": refusal.message}).encode()
    return _Reply(code.http, body, headers)


async def _send(send: Send, reply: _Reply, content_type: bytes) -> None:
    headers = reply.headers
    if reply.status != 204:  # RFC 9110 8.6: MUST NOT have a length
        length = str(len(reply.body)).encode()
        headers = [(b"content-type", content_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
