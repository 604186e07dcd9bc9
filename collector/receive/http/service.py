"""OTLP/HTTP: POST /v1/{traces,metrics,logs}, protobuf or JSON.

Every answer, errors too, is in the request's own media type; where that is neither of the two
(a wrong method, path or type), it is JSON, which people can read.

A request is taken where its last byte arrives. Only what would hold up others, a large or a large
compressed body, gets a task, or what waits for the disk.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from collector.decode.protobuf.slices import LARGE_BYTES
from collector.net.host_guard import HostGuard
from collector.receive.admission import Admission
from collector.receive.content_coding import ACCEPTED, INLINE_BYTES_MAX, inflate, inflate_beside
from collector.receive.export import (
    TAKEN,
    Encoding,
    Export,
    ExportResult,
    Metadata,
    Signal,
    proto_answer,
)
from collector.receive.http.admitted_request import (
    AdmittedExchange,
    HttpResponse,
    Service,
    refusal_headers,
    routed,
)
from collector.receive.http.connection import Exchange, HttpConnection
from collector.receive.http.responses import head_of
from collector.receive.rate_limits import Reservation
from collector.receive.status_codes import ExportStatus, Refusal, status_bytes

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


def _full(body: bytes, encoding: Encoding) -> HttpResponse:
    about = [
        (b"content-type", CONTENT_TYPES[encoding]),
        (b"content-length", b"%d" % len(body)),
    ]
    whole = head_of(200, about) + b"\r\n" + body
    return HttpResponse(200, body, whole=whole)


_FULL: Final[Mapping[Encoding, HttpResponse]] = {
    "proto": _full(b"", "proto"),
    "json": _full(b"{}", "json"),
}


class HttpApp(Service):
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
        guard: HostGuard | None = None,
    ) -> None:
        super().__init__(export.stats, max_body, admission, origins, guard)
        self.export = export
        self.beside = ThreadPoolExecutor(1, "inflate")
        self.inflating = asyncio.Lock()
        """Held while one body is decompressed. If many have no room together, the first are
        completed."""

    def start(self, connection: HttpConnection) -> Exchange:
        return _Exchange(connection, self)

    def fault(self, error: Exception) -> Refusal:
        return self.export.fault(error)


class _Exchange(AdmittedExchange):
    """One request."""

    _signal: Signal | None = None
    _encoding: Encoding = "json"
    """Encoding of the body and of the answer."""
    _media: Encoding | None = None
    """Encoding of the body; None if the media type is unknown."""

    def __init__(self, connection: HttpConnection, app: HttpApp) -> None:
        super().__init__(connection, app)
        self._app = app

    def route(self) -> None:
        self._signal = routed(PATHS, self.url)
        media_type = self._found.get(b"content-type", b"")
        self._media = MEDIA_TYPES.get(media_type) or _encoding(media_type)
        self._foreign = self._refuses()

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
        super().begin()

    def _check(self) -> None:
        if self._signal is None:
            paths = ", ".join(path.decode() for path in PATHS)
            raise Refusal(ExportStatus.NOT_FOUND, f"no such path; there are {paths}")
        if self.method != b"POST":
            if self.method == b"OPTIONS" and self._app.origins and self._is_preflight():
                self._answer(HttpResponse(204, b""))
                return
            method = self.method.decode("latin-1")[:20]
            raise Refusal(ExportStatus.METHOD_NOT_ALLOWED, f"{method} is not allowed; use POST")
        if self._foreign is not None:
            raise Refusal(ExportStatus.PERMISSION_DENIED, self._foreign)
        if self._media is None:
            raise Refusal(
                ExportStatus.UNSUPPORTED_MEDIA, _media_type_message(self._text(b"content-type"))
            )

    # --- taking it ------------------------------------------------------------------------------

    def _take(self) -> None:
        """Takes it now, or where that takes long, in a task."""
        assert self._signal is not None
        body = self._body()
        coding = self._text(b"content-encoding") if b"content-encoding" in self._found else ""
        if coding and len(body) <= INLINE_BYTES_MAX:
            body, coding = inflate(body, coding, self._app.max_body), ""
        export = self._app.export
        if coding or len(body) > LARGE_BYTES or export.waits:
            held = self._place.bytes if self._place is not None else 0
            self._answer_later(partial(self._reply_long, body, coding, held))
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

    async def _reply_long(self, body: bytes, coding: str, held: int) -> HttpResponse:
        """The same in slices; a large coded body is inflated beside the loop, one at a time.

        Args:
            body: as it came.
            coding: its content coding; "" if it has none any more.
            held: bytes that its place holds.
        """
        assert self._signal is not None
        app, transport = self._app, TRANSPORTS[self._encoding]
        room = Reservation(app.admission)
        try:
            if coding:
                async with app.inflating:
                    body = await inflate_beside(
                        body, coding, app.max_body, app.beside, room.hold
                    )
            elif held < len(body):
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
        finally:
            room.release()
        return self._reply(answer)

    # --- what goes out --------------------------------------------------------------------------

    def _reply(self, answer: ExportResult) -> HttpResponse:
        if answer is TAKEN:
            return _FULL[self._encoding]
        if self._encoding == "json":
            return HttpResponse(200, _json_answer(answer, self._signal or "traces"))
        return HttpResponse(200, proto_answer(answer))

    def _refused(self, refusal: Refusal) -> HttpResponse:
        self._app.export.note_refusal(refusal, self._signal or "other", self._sender)
        headers = refusal_headers(refusal)
        if refusal.status is ExportStatus.UNSUPPORTED_MEDIA:
            headers.append((b"accept-encoding", ACCEPTED.encode()))
        status = refusal.status.value.http
        if self._encoding == "proto":
            return HttpResponse(status, status_bytes(refusal), headers)
        body = json.dumps(
            {"code": refusal.status.value.grpc, "message": refusal.message}
        ).encode()
        return HttpResponse(status, body, headers)

    def _content_type(self) -> bytes:
        return CONTENT_TYPES[self._encoding]

    def _count(self, code: str) -> None:
        # While requests are judged later, these are others than the service's.
        stats = self._app.export.stats
        stats.request(TRANSPORTS[self._encoding], self._signal or "other", code)

    def _count_lost(self) -> None:
        self._app.stats.count("client_disconnects", TRANSPORTS[self._encoding])


def _encoding(media_type: bytes) -> Encoding | None:
    return MEDIA_TYPES.get(media_type.split(b";", 1)[0].strip().lower())


def _media_type_message(media_type: str) -> str:
    found = f"Content-Type {media_type[:80]!r}" if media_type else "no Content-Type"
    return f"{found}; use application/x-protobuf or application/json"


def _json_answer(answer: ExportResult, signal: Signal) -> bytes:
    if not answer.rejected and not answer.message:
        return b"{}"
    # proto3 JSON writes 64-bit integers as strings.
    partial = {REJECTED[signal]: str(answer.rejected), "errorMessage": answer.message}
    return json.dumps({"partialSuccess": partial}).encode()
