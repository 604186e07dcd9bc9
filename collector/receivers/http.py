"""OTLP/HTTP as a bare ASGI application: POST /v1/{traces,metrics,logs}, protobuf or JSON.

Every answer, errors too, is in the request's own media type; where that is neither of the two
(a wrong method, path or type), it is JSON, which people can read.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, NamedTuple

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


class _Reply(NamedTuple):
    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]


class HttpApp:
    """The ASGI application.

    Args:
        export: takes the bodies.
        max_body: bytes, before and after decompression.
    """

    def __init__(self, export: Export, max_body: int = 64 << 20) -> None:
        self._export = export
        self._max_body = max_body

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
        code = str(reply.status)
        self._export.stats.request(TRANSPORTS[encoding], signal or "other", code)
        await _send(send, reply, CONTENT_TYPES[encoding])

    async def _reply(
        self, method: str, signal: Signal | None, headers: _Headers, receive: Receive
    ) -> _Reply:
        if signal is None:
            raise Refusal(Outcome.NOT_FOUND, "no such path; there are " + ", ".join(PATHS))
        if method != "POST":
            raise Refusal(Outcome.METHOD_NOT_ALLOWED, f"{method[:20]} is not allowed; use POST")
        if headers.encoding is None:
            raise Refusal(Outcome.UNSUPPORTED_MEDIA, _media_type_message(headers.media_type))
        raw = await self._body(headers, receive)
        body = inflate(raw, headers.coding, self._max_body)
        answer = self._export.take(signal, body, headers.encoding, TRANSPORTS[headers.encoding])
        if headers.encoding == "json":
            return _Reply(200, _json_answer(answer), [])
        return _Reply(200, proto_answer(answer), [])

    async def _body(self, headers: _Headers, receive: Receive) -> bytes:
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
                pieces.append(piece)
            else:
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
    if code.retryable:
        headers.append((b"retry-after", str(refusal.retry_seconds).encode()))
    if refusal.outcome is Outcome.TOO_LARGE:  # some of the body may be unread
        headers.append((b"connection", b"close"))
    if encoding == "proto":
        return _Reply(code.http, status_bytes(refusal), headers)
    body = json.dumps({"code": code.grpc, "message": refusal.message}).encode()
    return _Reply(code.http, body, headers)


async def _send(send: Send, reply: _Reply, content_type: bytes) -> None:
    headers = [
        (b"content-type", content_type),
        (b"content-length", str(len(reply.body)).encode()),
        *reply.headers,
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
