"""OTLP/HTTP: POST /v1/{traces,metrics,logs}, protobuf or JSON.

Every answer, errors too, is in the request's own media type; where that is neither of the two
(a wrong method, path or type), it is JSON, which people can read.

A request is taken where its last byte arrives. Only what would hold up others, a large or a large
compressed body, gets a task.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import httptools

from collector.decode.protobuf.slices import LARGE_BYTES
from collector.net.host_guard import Guard, is_foreign, is_local_name
from collector.receive.admission import Admission, Place
from collector.receive.connections import Connections
from collector.receive.content_coding import ACCEPTED, INLINE_BYTES_MAX, inflate, inflate_beside
from collector.receive.export import (
    TAKEN,
    Answer,
    Encoding,
    Export,
    Metadata,
    Signal,
    proto_answer,
)
from collector.receive.http.connection import Connection, Exchange
from collector.receive.http.responses import head_of
from collector.receive.rate_limits import Reservation
from collector.receive.status import Outcome, Refusal, status_bytes

__all__ = ["HttpApp"]

PATHS: Final[Mapping[bytes, Signal]] = {
    b"/v1/traces": "traces",
    b"/v1/metrics": "metrics",
    b"/v1/logs": "logs",
}

MEDIA_TYPES: Final[Mapping[bytes, Encoding]] = {
    b"application/x-protobuf": "proto",
    b"application/json": "json",
}
CONTENT_TYPES: Final[Mapping[Encoding, bytes]] = {
    encoding: media_type for media_type, encoding in MEDIA_TYPES.items()
}
REJECTED: Final[Mapping[Signal, str]] = {
    "traces": "rejectedSpans",
    "metrics": "rejectedDataPoints",
    "logs": "rejectedLogRecords",
}
"""Keys of partial success in JSON."""
TRANSPORTS: Final[Mapping[Encoding, str]] = {"proto": "http_proto", "json": "http_json"}
PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"authorization, content-encoding, content-type"),
    (b"access-control-max-age", b"7200"),
)
CODES: Final = {each.value: str(each.value) for each in HTTPStatus}
SMALL_BYTES: Final = 4 << 10
"""Pieces of a body up to this are joined as they come: an object for each would cost more than it."""
DRAIN_FACTOR: Final = 4
"""Of a body over the limit, this many limits are read and thrown away before the answer: most
clients send all of it before they listen."""


class _Reply:
    """What goes out.

    Args:
        status: of HTTP.
        body: of the answer.
        headers: beside those about the body.
        whole: all of it, where nothing about the request or the connection changes it.
    """

    __slots__ = ("body", "code", "headers", "status", "whole")

    def __init__(
        self,
        status: int,
        body: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        whole: bytes = b"",
    ) -> None:
        self.status = status
        self.code = CODES[status]
        self.body = body
        self.headers = headers
        self.whole = whole


def _about(body: bytes, encoding: Encoding) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", CONTENT_TYPES[encoding]),
        (b"content-length", b"%d" % len(body)),
    ]


def _full(body: bytes, encoding: Encoding) -> _Reply:
    whole = head_of(200, _about(body, encoding)) + b"\r\n" + body
    return _Reply(200, body, whole=whole)


_FULL: Final[Mapping[Encoding, _Reply]] = {
    "proto": _full(b"", "proto"),
    "json": _full(b"{}", "json"),
}
TOO_LARGE: Final = Outcome.TOO_LARGE.value.http


class HttpApp:
    """Serves OTLP/HTTP.

    Args:
        export: takes the bodies.
        max_body: bytes, before and after decompression.
        admission: who is let in.
        origins: of pages whose browsers may send (CORS), as `https://*.example.com`; none by
            default.
        guard: by which names it is reached.
    """

    def __init__(
        self,
        export: Export,
        max_body: int = 64 << 20,
        *,
        admission: Admission | None = None,
        origins: Sequence[str] = (),
        guard: Guard | None = None,
    ) -> None:
        self.export = export
        self.max_body = max_body
        self.admission = admission or Admission()
        self.beside = ThreadPoolExecutor(1, "inflate")
        self.inflating = asyncio.Lock()
        """One body at a time, so that of many that have no room together the first are whole."""
        self.origins = tuple(origin.lower() for origin in origins)
        self.guard = guard or Guard("")

    def __call__(self, connections: Connections) -> Connection:
        return Connection(self._start, connections)

    def _start(self, connection: Connection) -> Exchange:
        return _Exchange(connection, self)


class _Exchange(Exchange):
    """One request."""

    _signal: Signal | None = None
    _encoding: Encoding = "json"
    """Of the answer, too."""
    _sender: str | None = None
    _place: Place | None = None
    _media: Encoding | None = None
    """Of the body; None where it is none of ours."""
    _foreign: str | None = None
    """Why the sender may not send."""
    _size = 0

    def __init__(self, connection: Connection, app: HttpApp) -> None:
        super().__init__(connection)
        self._app = app
        self._found: dict[bytes, bytes] = {}
        """Headers by name; of several, the first."""
        self._pieces: list[bytes | bytearray] = []

    def header(self, name: bytes, value: bytes) -> None:
        if name not in self._found:
            self._found[name] = value
        elif name == b"transfer-encoding":  # codings in several lines are one list
            self._found[name] += b", " + value

    def headers_of(self, names: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
        return [header for header in self._found.items() if header[0] in names]

    def route(self) -> None:
        self._signal = PATHS.get(self.url)
        if self._signal is None:
            target: Any = httptools.parse_url(self.url)  # whose parts may be None
            path: bytes = target.path or b""
            self._signal = PATHS.get(unquote(path.decode("ascii")).encode())
        media_type = self._found.get(b"content-type", b"")
        self._media = MEDIA_TYPES.get(media_type) or _encoding(media_type)
        self._foreign = self._refuses()

    def _refuses(self) -> str | None:
        """Why who sends it may not: another site's page, or a name that is not ours."""
        host, origin = self._found.get(b"host"), self._found.get(b"origin")
        if origin is not None and is_foreign(origin, host) and not self._is_granted():
            return "pages of other sites may not send here (receiver.cors.origins)"
        if origin is None and host is not None and is_local_name(host):
            return None  # no browser's page, which would say its origin
        return self._app.guard.refuses_host(host)

    def again(self) -> Exchange | None:
        if self._foreign is not None:
            return None
        other = _Exchange(self.connection, self._app)
        other.method, other.url = self.method, self.url
        # The length in it is the first one's; only of who expects an answer is it asked.
        other._found = self._found
        other._signal, other._media = self._signal, self._media
        return other

    # --- what comes in --------------------------------------------------------------------------

    def begin(self) -> None:
        self._encoding = self._media or "json"
        try:
            self._enter(self._media)
        except Refusal as refusal:
            self._answer(_refuse(refusal, self._encoding))

    def _enter(self, encoding: Encoding | None) -> None:
        """Checks all that the head says; afterwards there is a place, or an answer."""
        if self._signal is None:
            paths = ", ".join(path.decode() for path in PATHS)
            raise Refusal(Outcome.NOT_FOUND, f"no such path; there are {paths}")
        if self.method != b"POST":
            if self.method == b"OPTIONS" and self._app.origins and self._is_preflight():
                self._answer(_Reply(204, b""))
                return
            method = self.method.decode("latin-1")[:20]
            raise Refusal(Outcome.METHOD_NOT_ALLOWED, f"{method} is not allowed; use POST")
        if self._foreign is not None:
            raise Refusal(Outcome.PERMISSION_DENIED, self._foreign)
        if encoding is None:
            raise Refusal(
                Outcome.UNSUPPORTED_MEDIA, _media_type_message(self._text(b"content-type"))
            )
        admission = self._app.admission
        self._sender = (
            admission.sender(self._text(b"authorization")) if admission.needs_token else None
        )
        self._place = admission.enter(self._sender, self.connection.client, self)
        expected = self._found.get(b"expect")
        if expected is not None:
            length = self._found.get(b"content-length", b"")
            if length.isdigit() and int(length) > self._app.max_body:
                raise self._too_large()  # it has not been sent yet, and need not be
            self.go_on(expected)

    def piece(self, data: bytes) -> None:
        """Keeps some of the body; one over the limit is drained, not kept."""
        assert self._place is not None
        self._size += len(data)
        if self._size > self._app.max_body:
            self._pieces.clear()
            self._place.release()
            if self._size > self._app.max_body * DRAIN_FACTOR:
                self._answer(_refuse(self._too_large(), self._encoding))
            return
        try:
            self._place.grow(len(data))
        except Refusal as refusal:
            self._answer(_refuse(refusal, self._encoding))
            return
        pieces = self._pieces
        if len(data) > SMALL_BYTES or not pieces:
            pieces.append(data)
        elif isinstance(pieces[-1], bytearray):
            pieces[-1] += data
        else:
            pieces.append(bytearray(data))

    def complete(self) -> None:
        if self._size > self._app.max_body:
            self._answer(_refuse(self._too_large(), self._encoding))
            return
        try:
            self._take()
        except Refusal as refusal:
            self._answer(_refuse(refusal, self._encoding))
        except Exception as error:  # noqa: BLE001 - whatever it was, others are served
            self._answer(_refuse(self._app.export.fault(error), self._encoding))

    def lost(self) -> None:
        self._leave()
        if not self.is_whole:
            self._app.export.stats.count("client_disconnects", TRANSPORTS[self._encoding])

    # --- taking it ------------------------------------------------------------------------------

    def _take(self) -> None:
        """Takes it now, or where that takes long, in a task."""
        assert self._signal is not None
        body = self._body()
        coding = self._text(b"content-encoding") if b"content-encoding" in self._found else ""
        if coding and len(body) <= INLINE_BYTES_MAX:
            body, coding = inflate(body, coding, self._app.max_body), ""
        if coding or len(body) > LARGE_BYTES or self._app.export.waits:
            if self._place is not None:
                self._place.keep()
            task = asyncio.get_running_loop().create_task(self._take_long(body, coding))
            self.connection.connections.tasks.add(task)
            task.add_done_callback(self.connection.connections.tasks.discard)
            return
        transport = TRANSPORTS[self._encoding]
        export = self._app.export
        answer = export.ingest_now(
            self._signal, body, self._encoding, transport, self._sender, self._metadata()
        )
        self._answer(self._reply(answer))

    def _metadata(self) -> Metadata:
        """The headers that go on with the request."""
        names = self._app.export.header_names
        return self.headers_of(names) if names else ()

    def _body(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return whole if isinstance(whole, bytes) else bytes(whole)

    async def _take_long(self, body: bytes, coding: str) -> None:
        """The same in slices; a large coded body is inflated beside the loop, one at a time."""
        assert self._signal is not None
        app, transport = self._app, TRANSPORTS[self._encoding]
        # Both are kept to the end, also where the connection is lost.
        room, place = Reservation(app.admission), self._place
        self._place = None
        try:
            if coding:
                async with app.inflating:
                    body = await inflate_beside(
                        body, coding, app.max_body, app.beside, room.hold
                    )
            elif place is None or place.bytes < len(body):
                room.hold(len(body))
            answer = await app.export.ingest(
                self._signal,
                body,
                self._encoding,
                transport,
                self._sender,
                room,
                self._metadata(),
            )
        except Refusal as refusal:
            reply = _refuse(refusal, self._encoding)
        except Exception as error:  # noqa: BLE001 - as above
            reply = _refuse(app.export.fault(error), self._encoding)
        else:
            reply = self._reply(answer)
        finally:
            room.release()
            if place is not None:
                place.leave()
        self._answer(reply)

    def crowd_out(self, refusal: Refusal) -> None:
        """Its body is not whole, and its place is given to another."""
        if not self.is_answered:
            self._answer(_refuse(refusal, self._encoding))

    def _leave(self) -> None:
        self._pieces.clear()
        if self._place is not None:
            self._place.leave()
            self._place = None

    # --- what goes out --------------------------------------------------------------------------

    def _reply(self, answer: Answer) -> _Reply:
        if answer is TAKEN:
            return _FULL[self._encoding]
        if self._encoding == "json":
            return _Reply(200, _json_answer(answer, self._signal or "traces"))
        return _Reply(200, proto_answer(answer))

    def _answer(self, reply: _Reply) -> None:
        """Writes all of the answer at once."""
        self._leave()
        signal = self._signal or "other"
        self._app.export.stats.request(TRANSPORTS[self._encoding], signal, reply.code)
        if reply.status == TOO_LARGE and not self.is_whole:  # the rest may be much
            self.keep_alive = False
        if reply.whole and self.keep_alive and not self._app.origins:
            self.write(reply.whole)
        else:
            self.write(self._worded(reply))
        self.connection.answered(self)

    def _worded(self, reply: _Reply) -> bytes:
        headers = list(reply.headers)
        if reply.status != 204:  # RFC 9110 8.6: MUST NOT have a length
            headers += _about(reply.body, self._encoding)
        if self._app.origins:
            headers += self._grant()
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        body = b"" if self.method == b"HEAD" else reply.body
        return head_of(reply.status, headers) + b"\r\n" + body

    def _grant(self) -> list[tuple[bytes, bytes]]:
        """Headers by which a browser lets its page send; nothing for other origins."""
        vary = [(b"vary", b"origin")]
        if not self._is_granted():
            return vary
        granted = [(b"access-control-allow-origin", self._found[b"origin"]), *vary]
        return [*granted, *PREFLIGHT] if self._is_preflight() else granted

    def _is_granted(self) -> bool:
        """Its origin is one whose pages may send."""
        origin = self._text(b"origin").lower()
        return bool(origin) and any(
            fnmatchcase(origin, allowed) for allowed in self._app.origins
        )

    def _is_preflight(self) -> bool:
        """A browser asks whether a page of the origin may send."""
        return b"origin" in self._found and b"access-control-request-method" in self._found

    def _text(self, name: bytes) -> str:
        return self._found.get(name, b"").decode("latin-1")

    def _too_large(self) -> Refusal:
        limit = self._app.max_body
        return Refusal(Outcome.TOO_LARGE, f"the body has more than {limit} bytes")


def _encoding(media_type: bytes) -> Encoding | None:
    return MEDIA_TYPES.get(media_type.split(b";", 1)[0].strip().lower())


def _media_type_message(media_type: str) -> str:
    found = f"Content-Type {media_type[:80]!r}" if media_type else "no Content-Type"
    return f"{found}; use application/x-protobuf or application/json"


def _json_answer(answer: Answer, signal: Signal) -> bytes:
    if not answer.rejected and not answer.message:
        return b"{}"
    # proto3 JSON writes 64-bit integers as strings.
    partial = {REJECTED[signal]: str(answer.rejected), "errorMessage": answer.message}
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
    if encoding == "proto":
        return _Reply(code.http, status_bytes(refusal), headers)
    body = json.dumps({"code": code.grpc, "message": refusal.message}).encode()
    return _Reply(code.http, body, headers)
