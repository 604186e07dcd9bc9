"""One gRPC call: its head, its message as it comes, and its answer; of the export services, the health service and reflection.

A message is taken where its last byte arrives and answered with one write. Who may not send, or
comes while there is no room, is refused by the head of the call, without its bytes.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from google.protobuf.message import DecodeError

from collector.decode.protobuf.message_classes import INT32, STRING, build
from collector.decode.protobuf.slices import LARGE_BYTES
from collector.receive.admission import Admission, AdmissionPlace
from collector.receive.content_coding import INLINE_BYTES_MAX, inflate, inflate_beside
from collector.receive.export import Export, Metadata, Signal, proto_answer
from collector.receive.grpc.http2.connection import Http2
from collector.receive.grpc.http2.hpack import Header, literal
from collector.receive.grpc.http2.streams import FixedAnswer, GrpcStream
from collector.receive.listener.connections import Data, part
from collector.receive.rate_limits import Reservation
from collector.receive.status_codes import GRPC_NAMES, ExportStatus, Refusal, status_bytes

__all__ = ["CallHead", "GrpcCall", "GrpcCalls"]

_PACKAGE: Final = "opentelemetry.proto.collector"
SERVICES: Final[Mapping[str, Signal]] = {
    f"{_PACKAGE}.trace.v1.TraceService": "traces",
    f"{_PACKAGE}.metrics.v1.MetricsService": "metrics",
    f"{_PACKAGE}.logs.v1.LogsService": "logs",
}
EXPORTS: Final[Mapping[bytes, Signal]] = {
    f"/{service}/Export".encode(): signal for service, signal in SERVICES.items()
}
HEALTH_CHECK: Final = b"/grpc.health.v1.Health/Check"
HEALTH_WATCH: Final = b"/grpc.health.v1.Health/Watch"
WATCHERS_MAX: Final = 64
"""Clients that watch the health."""
SERVICE_UNKNOWN: Final = 3
TRANSPORT: Final = "grpc"
CANCELLED: Final = "CANCELLED"
PREFIX_BYTES: Final = 5
"""Bytes before a message: a compression flag and the length."""
CODINGS: Final = frozenset((b"", b"identity", b"gzip", b"deflate", b"zstd"))

_HEALTH: Final = build(
    "offrails.health",
    {
        "Request": [("service", 1, STRING, False)],
        "Response": [("status", 1, INT32, False)],
    },
)
SERVING: Final = 1
NOT_SERVING: Final = 2

# Names by their index in HPACK's static table: :status 200, and content-type as a literal.
OK_HEAD: Final = b"\x88" + b"\x0f\x10\x10application/grpc"
GRPC_HEAD: Final = (
    OK_HEAD
    + literal(b"grpc-encoding", b"identity")
    + literal(b"grpc-accept-encoding", b"identity,deflate,gzip,zstd")
)
OK_TRAILERS: Final = literal(b"grpc-status", b"0")
TAKEN: Final = FixedAnswer(GRPC_HEAD, bytes(5), OK_TRAILERS)
"""Full success: an empty message."""
GRPC_OK: Final = GRPC_NAMES[ExportStatus.OK.value.grpc]
WRONG_TYPE: Final = b"\x08\x03415"
"""The status that RFC 9110 has for it: what came is no gRPC at all."""
WRONG_TYPE_TEXT: Final = (
    b"gRPC is spoken here; OTLP over HTTP has a port of its own, usually 4318\n"
)
UNWANTED_BYTES_MAX: Final = 64 << 10
"""Bytes of a body that is no gRPC: so many are read and thrown away before the answer."""
SMALL_PIECE_BYTES: Final = 4 << 10
"""Smaller pieces of a message are joined as they come: each by itself would take more than it holds."""


class CallHead:
    """The headers we look at.

    Args:
        found: the headers by name; of several, the first.
        names: of those that go on with the request.
    """

    __slots__ = ("authorization", "coding", "is_grpc", "metadata", "path")

    def __init__(self, found: dict[bytes, bytes], names: frozenset[bytes]) -> None:
        content_type = found.get(b"content-type", b"")
        self.path = found.get(b":path", b"")
        self.is_grpc = (
            content_type.startswith(b"application/grpc") and found.get(b":method") == b"POST"
        )
        self.coding = found.get(b"grpc-encoding", b"")
        self.authorization = found.get(b"authorization", b"").decode("latin-1")
        self.metadata: Metadata = (
            [each for each in found.items() if each[0] in names] if names else ()
        )


class GrpcCalls:
    """What the calls of one listener share.

    Args:
        export: takes the bodies.
        max_message_bytes: before and after decompression; larger ones get RESOURCE_EXHAUSTED.
        admission: who is let in.
        reflection: whether clients may ask which services there are.
    """

    def __init__(
        self, export: Export, max_message_bytes: int, admission: Admission, *, reflection: bool
    ) -> None:
        self.export = export
        self.max_message_bytes = max_message_bytes
        self.admission = admission
        self.beside = ThreadPoolExecutor(1, "inflate")
        self.inflating = asyncio.Lock()
        """Held while one message is decompressed. If many have no room together, the first are
        completed."""
        self.health = NOT_SERVING
        self.watchers: dict[GrpcCall, None] = {}
        self.reflect: Callable[[bytes], bytes] | None = None
        if reflection:
            from collector.receive.grpc.reflection import answer

            self.reflect = answer

    def read_head(self, headers: list[Header]) -> CallHead:
        """What is looked at of the headers of a call."""
        return CallHead(dict(reversed(headers)), self.export.header_names)

    def start_call(self, connection: Http2, number: int) -> GrpcStream:
        """A new call of a connection."""
        return GrpcCall(connection, number, self)

    def begin(self) -> None:
        """From now on the health is good."""
        self.health = SERVING

    def end(self) -> None:
        """Says to all who watch the health that it is over."""
        self.health = NOT_SERVING
        for watcher in list(self.watchers):
            watcher.end_watch()


class GrpcCall(GrpcStream):
    """One call of any method."""

    _signal: Signal | None = None
    _sender: str | None = None
    _place: AdmissionPlace | None = None
    _metadata: Metadata = ()
    _path = b""
    _coding = b""
    _prefix = b""
    """Received part of the message's prefix."""
    _size = 0
    """Bytes of the message that have come, with what stands before it."""
    _length = -1
    """Length of the message with its prefix; -1 while it is not known."""
    _is_packed = False
    _is_grpc = True

    def __init__(self, connection: Http2, number: int, calls: GrpcCalls) -> None:
        super().__init__(connection, number)
        self._calls = calls
        self._pieces: list[bytes | bytearray] = []

    # --- what comes in --------------------------------------------------------------------------

    def begin(self, head: CallHead) -> None:
        self._path, self._coding = head.path, head.coding
        self._metadata = head.metadata
        self._is_grpc = head.is_grpc
        self.deadline = self.connection.now() + self._calls.admission.body_seconds
        if not head.is_grpc:
            self.connection.no_grpc()
            return  # it is answered once it is whole: it may not even be HTTP
        self._signal = EXPORTS.get(self._path)
        try:
            self._enter(head.authorization)
        except Refusal as refusal:
            self._refuse(refusal)

    def _enter(self, authorization: str) -> None:
        """Checks all that the head says; afterwards an export has a place."""
        is_health = self._path in (HEALTH_CHECK, HEALTH_WATCH)
        if self._signal is None and not is_health and not self._reflects():
            raise Refusal(ExportStatus.METHOD_NOT_ALLOWED, "no such method")
        if self._coding not in CODINGS:
            raise Refusal(
                ExportStatus.METHOD_NOT_ALLOWED, "use grpc-encoding gzip, deflate or zstd"
            )
        if self._signal is not None:
            self._sender = self._calls.admission.sender(authorization)
            self._place = self._calls.admission.enter(
                self._sender, self.connection.client, self
            )

    def _reflects(self) -> bool:
        from collector.receive.grpc.reflection import METHODS

        return self._calls.reflect is not None and self._path in METHODS

    def piece(self, data: Data, at: int, end: int) -> None:
        if not self._is_grpc:
            self._size += end - at
            if self._size > UNWANTED_BYTES_MAX:
                self._refuse_type()
            return
        try:
            if self._place is None:
                self._converse(part(data, at, end))
            else:
                self._place.grow(end - at)
                self._keep(data, at, end)
        except Refusal as refusal:
            self._refuse(refusal)

    def _keep(self, data: Data, at: int, end: int) -> None:
        self._size += end - at
        if self._length < 0:
            begin = min(at + PREFIX_BYTES - len(self._prefix), end)
            self._prefix += part(data, at, begin)
            at = begin
            if self._size >= PREFIX_BYTES:
                self._begin_message()
        if at < end:
            self._append(part(data, at, end))
        if 0 <= self._length < self._size:
            raise Refusal(ExportStatus.MALFORMED, "expected one message")

    def _append(self, piece: bytes) -> None:
        pieces = self._pieces
        if not pieces or len(piece) >= SMALL_PIECE_BYTES:
            pieces.append(piece)
            return
        last = pieces[-1]
        if isinstance(last, bytearray):
            last += piece
        else:
            pieces.append(bytearray(piece))

    def _begin_message(self) -> None:
        """Reads what stands before the message."""
        first = self._prefix
        self._is_packed = first[0] == 1
        self._length = PREFIX_BYTES + int.from_bytes(first[1:PREFIX_BYTES], "big")
        most = self._calls.max_message_bytes
        if first[0] > 1:
            raise Refusal(ExportStatus.MALFORMED, "not a gRPC message")
        if self._length - PREFIX_BYTES > most:
            self._calls.export.stats.count("unread_messages", TRANSPORT)
            raise Refusal(ExportStatus.TOO_LARGE, f"the message has more than {most} bytes")

    def complete(self) -> None:
        if not self._is_grpc:
            self._refuse_type()
            return
        if self in self._calls.watchers:
            return  # it gets each change
        if self._signal is None:
            if self._path in (HEALTH_CHECK, HEALTH_WATCH) or self._pieces:
                self._refuse(Refusal(ExportStatus.MALFORMED, "expected whole messages"))
            else:
                self._finish(b"")
            return
        try:
            self._take(self._signal)
        except Refusal as refusal:
            self._refuse(refusal)
        except Exception as error:  # noqa: BLE001 - whatever it was, others are served
            self._refuse(self._calls.export.fault(error))

    def lost(self) -> None:
        self._leave()
        if self._signal is not None and not self.is_whole:
            stats = self._calls.export.stats
            stats.request(TRANSPORT, self._signal, CANCELLED)
            stats.count("unread_messages", TRANSPORT)

    def crowd_out(self, refusal: Refusal) -> None:
        """Its message is not whole, and its place is given to another."""
        self._refuse(refusal)

    def late(self) -> None:
        if not self._is_grpc:
            self._refuse_type()
        elif not self.is_ended:
            self._refuse(Refusal(ExportStatus.TIMEOUT, "the message did not arrive in time"))

    # --- taking it ------------------------------------------------------------------------------

    def _take(self, signal: Signal) -> None:
        """Takes the message now, or where that takes long, in a task."""
        calls = self._calls
        if self._length != self._size:
            calls.export.stats.count("unread_messages", TRANSPORT)
            raise Refusal(ExportStatus.MALFORMED, "expected one message")
        body = self._message()
        is_packed = self._is_packed and bool(self._coding)
        if self._is_packed and self._coding in (b"", b"identity"):
            raise Refusal(ExportStatus.MALFORMED, "a compressed message without grpc-encoding")
        if is_packed and len(body) <= INLINE_BYTES_MAX:
            body, is_packed = self._inflate(body), False
        if is_packed or len(body) > LARGE_BYTES or calls.export.waits:
            if self._place is not None:
                self._place.keep()
            self._beside(self._take_long(signal, body, is_packed))
            return
        answer = calls.export.ingest_now(
            signal, body, "proto", TRANSPORT, self._sender, self._metadata
        )
        self._finish(proto_answer(answer))

    def _message(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def _inflate(self, body: bytes) -> bytes:
        return inflate(body, self._coding.decode("latin-1"), self._calls.max_message_bytes)

    async def _take_long(self, signal: Signal, body: bytes, is_packed: bool) -> None:
        """The same in slices; what is compressed is inflated beside the loop."""
        calls = self._calls
        # Both are kept to the end, also where the stream is reset.
        room, place = Reservation(calls.admission), self._place
        self._place = None
        try:
            if is_packed:
                coding, most = self._coding.decode("latin-1"), calls.max_message_bytes
                async with calls.inflating:
                    body = await inflate_beside(body, coding, most, calls.beside, room.hold)
            elif place is None or place.bytes < len(body):
                room.hold(len(body))
            answer = await calls.export.ingest(
                signal, body, "proto", TRANSPORT, self._sender, room, self._metadata
            )
        except Refusal as refusal:
            self._refuse(refusal)
        except Exception as error:  # noqa: BLE001 - as above
            self._refuse(calls.export.fault(error))
        else:
            self._finish(proto_answer(answer))
        finally:
            room.release()
            if place is not None:
                place.leave()

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks = self.connection.connections.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    # --- the other services ---------------------------------------------------------------------

    def _converse(self, data: bytes) -> None:
        """Answers each message as it comes: one of the health service, or several."""
        rest = b"".join((*self._pieces, data))
        if len(rest) > LARGE_BYTES:
            raise Refusal(ExportStatus.TOO_LARGE, "too large a message for this method")
        while len(rest) >= PREFIX_BYTES and not self.is_ended:
            end = PREFIX_BYTES + int.from_bytes(rest[1:PREFIX_BYTES], "big")
            if len(rest) < end:
                break
            message = rest[PREFIX_BYTES:end]
            self._answer_message(self._inflate(message) if rest[0] else message)
            rest = rest[end:]
        self._pieces[:] = [rest] if rest else []

    def _answer_message(self, body: bytes) -> None:
        try:
            if self._path == HEALTH_CHECK:
                self._finish(self._health(body))
                return
            if self._path == HEALTH_WATCH:
                self._watch(body)
                return
            assert self._calls.reflect is not None
            answer = self._calls.reflect(body)
        except DecodeError as error:
            raise Refusal(ExportStatus.MALFORMED, "not a request of this method") from error
        self.send(b"" if self.is_begun else GRPC_HEAD, _framed(answer))

    def _health(self, body: bytes) -> bytes:
        """grpc.health.v1 Check, as load balancers and Kubernetes probes call it."""
        name = _HEALTH["Request"].FromString(body).service
        if name and name not in SERVICES:
            raise Refusal(ExportStatus.NOT_FOUND, "unknown service")
        answer: bytes = _HEALTH["Response"](status=self._calls.health).SerializeToString()
        return answer

    def _watch(self, body: bytes) -> None:
        """grpc.health.v1 Watch: the health now, and when it changes; that is at the end."""
        name = _HEALTH["Request"].FromString(body).service
        watchers = self._calls.watchers
        if self in watchers:
            raise Refusal(ExportStatus.MALFORMED, "expected one message")
        if len(watchers) >= WATCHERS_MAX:
            raise Refusal(ExportStatus.UNAVAILABLE, "too many clients watch the health")
        watchers[self] = None
        is_known = not name or name in SERVICES
        self._say_health(self._calls.health if is_known else SERVICE_UNKNOWN)

    def end_watch(self) -> None:
        """The service stops: sends that, and ends the call."""
        self._say_health(NOT_SERVING)
        self._finish(b"")

    def _say_health(self, status: int) -> None:
        answer: bytes = _HEALTH["Response"](status=status).SerializeToString()
        self.send(b"" if self.is_begun else GRPC_HEAD, _framed(answer))

    # --- what goes out --------------------------------------------------------------------------

    def _finish(self, answer: bytes) -> None:
        if self._is_over(GRPC_OK):
            return
        if self._signal is None and self.is_begun:
            self.send(b"", b"", OK_TRAILERS)
        elif self._signal is None and self._path != HEALTH_CHECK:
            self.send(GRPC_HEAD, b"", OK_TRAILERS)
        elif not answer:
            self.send_fixed(TAKEN)
        else:
            self.send(GRPC_HEAD, _framed(answer), OK_TRAILERS)

    def _refuse(self, refusal: Refusal) -> None:
        code = refusal.status.value
        if self._is_over(GRPC_NAMES[code.grpc]):
            return
        if self._signal is not None:
            self._calls.export.note_refusal(refusal, self._signal, self._sender)
        trailers = literal(b"grpc-status", str(code.grpc).encode())
        trailers += literal(b"grpc-message", _escaped(refusal.message))
        if refusal.status is not ExportStatus.TOO_LARGE:  # no details: never to be tried again
            details = base64.b64encode(status_bytes(refusal)).rstrip(b"=")
            trailers += literal(b"grpc-status-details-bin", details)
        if self.is_begun:
            self.send(b"", b"", trailers)
        else:
            self.refuse(OK_HEAD + trailers)

    def _refuse_type(self) -> None:
        if not self.is_ended:
            self.send(WRONG_TYPE, WRONG_TYPE_TEXT, is_last=True)

    def _is_over(self, name: str) -> bool:
        """Counts the call by the name of its code, unless it is over."""
        self._leave()
        if self.is_ended:
            return True
        if self._signal is not None:
            self._calls.export.stats.request(TRANSPORT, self._signal, name)
        return False

    def _leave(self) -> None:
        self._pieces.clear()
        if self._path == HEALTH_WATCH:
            self._calls.watchers.pop(self, None)
        if self._place is not None:
            self._place.leave()
            self._place = None


def _framed(message: bytes) -> bytes:
    """A message that is not compressed, with what stands before it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def _escaped(text: str) -> bytes:
    """A text as gRPC writes it in a header: percent-encoded."""
    return b"".join(
        bytes((byte,)) if 0x20 <= byte < 0x7F and byte != 0x25 else b"%%%02X" % byte
        for byte in text.encode("utf-8", "replace")
    )
