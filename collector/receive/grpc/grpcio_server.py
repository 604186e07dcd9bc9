"""OTLP/gRPC on grpcio (`receiver.grpc_server: grpcio`): the same services as `service`, on gRPC's C core.

The core speaks HTTP/2 and TLS, and hands over whole messages as bytes. Checks of the sender, admission, inflation,
`Export` and the status table are the builtin server's. Example of one call:

    head -> bearer token -> admission -> message from the core -> inflate -> Export -> status and trailers

Four things depend on the core:

- The core holds a message until it is whole; admission counts its bytes only then. A call takes its place
  (`receiver.max_inflight_requests`) when reading begins.
- The core does not say which messages are compressed. Its own inflation would take memory that admission does not know,
  so it is switched off, and the first two bytes decide: no OTLP request begins with them (see `coding_of`).
- The core says at once that no more messages come, and a little later that the call was cancelled. A message that is
  whole by then is judged.
- The core refuses a message over the limit by itself. `_is_ended_by_core` tells such a call from one that was cancelled.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # else the core writes to standard error

import grpc
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from grpc._cython import cygrpc  # type: ignore[attr-defined]
from grpc.aio import EOF  # type: ignore[attr-defined]
from grpc_health.v1 import health, health_pb2
from grpc_status.rpc_status import to_status

from collector.decode.protobuf.slices import LARGE_BYTES
from collector.receive.admission import Admission, AdmissionPlace, Client
from collector.receive.content_coding import INLINE_BYTES_MAX, inflate, inflate_beside
from collector.receive.export import Export, Metadata, Signal, proto_answer
from collector.receive.grpc.grpc_call import (
    CANCELLED,
    EXPORTS,
    GRPC_OK,
    SERVICES,
    TRANSPORT,
    WATCHERS_MAX,
)
from collector.receive.grpc.http2.connection import STREAMS_MAX
from collector.receive.grpc.http2.keepalive import Keepalive
from collector.receive.listener.address import Address, AddressInUse, bind, parse_address
from collector.receive.listener.connections import ConnectionBounds
from collector.receive.listener.tls import Certificates
from collector.receive.rate_limits import Reservation
from collector.receive.status_codes import GRPC_NAMES, ExportStatus, Refusal, status_bytes

__all__ = ["GrpcioReceiver", "coding_of"]

HEADER_BYTES_MAX: Final = 64 << 10
"""Bytes of the fields of one call, the same bound as the builtin server's."""
ABORT_SECONDS: Final = 2.0
"""Time for calls that the core cancels at the end of the grace."""
RESPONSE: Final = health_pb2.HealthCheckResponse
CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
CANCEL_SECONDS: Final = 0.05
"""Time between the end of a call's messages and the news that it was cancelled."""
NO_REQUEST: Final = "not a request of this method"


def _is_told(record: logging.LogRecord) -> bool:
    """False for an answer that could not be sent, since its client had gone: no error, and the builtin server is silent, too.

    The core itself says nothing of clients that are known to have gone; of others it learns a moment later.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, cygrpc.ExecuteBatchError)


logging.getLogger("grpc._cython.cygrpc").addFilter(_is_told)


def coding_of(body: bytes) -> str:
    """The coding of a message by its first two bytes; "" if it is not compressed.

    0x1f, of gzip, would be a field of wire type 7 in a protobuf message, which does not exist. 0x78, of zlib, would be
    the varint field 15, which OTLP's requests do not have; the second byte makes both a multiple of 31 (RFC 1950).
    """
    if body[:2] == b"\x1f\x8b":
        return "gzip"
    if body[:1] == b"\x78" and int.from_bytes(body[:2], "big") % 31 == 0:
        return "deflate"
    return ""


class GrpcioReceiver:
    """The gRPC listener on grpcio.

    Args:
        export: takes the bodies.
        address: HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH.
        max_message_bytes: before and after decompression; larger ones get RESOURCE_EXHAUSTED.
        admission: who is let in.
        certificates: with them TLS is spoken, and nothing else.
        bounds: on connections; `connections` and `head` are used.
        keepalive: how connections are kept.
        reflection: whether clients may ask which services there are.
    """

    connections: int | None = None
    """The core does not say how many are open."""

    def __init__(
        self,
        export: Export,
        address: str,
        max_message_bytes: int = 64 << 20,
        *,
        admission: Admission | None = None,
        certificates: Certificates | None = None,
        bounds: ConnectionBounds | None = None,
        keepalive: Keepalive | None = None,
        reflection: bool = False,
    ) -> None:
        self.export = export
        self.max_message_bytes = max_message_bytes
        self.admission = admission or Admission()
        self.beside = ThreadPoolExecutor(1, "inflate")
        self.inflating = asyncio.Lock()
        """Held while one message is decompressed. If many have no room together, the first are
        completed."""
        self.tasks: set[asyncio.Task[bytes]] = set()
        """Requests that are judged to their end, whether or not their senders wait."""
        self.is_stopping = False
        self._address = parse_address(address)
        self._certificates = certificates
        self._bounds = bounds or ConnectionBounds()
        self._keepalive = keepalive or Keepalive()
        self._reflection = reflection
        self._peers = _Peers()
        self._health = _Health()
        self._server: Any = None
        self._handlers = {
            method.decode(): grpc.stream_unary_rpc_method_handler(self._handler(signal))
            for method, signal in EXPORTS.items()
        }

    @property
    def capacity(self) -> int:
        """How many connections may be open."""
        return self._bounds.connections

    @property
    def certificates(self) -> Certificates | None:
        """Of TLS; None if it is off."""
        return self._certificates

    # --- its life -------------------------------------------------------------------------------

    async def start(self) -> str:
        """Bind, serve, and return the bound address.

        Raises:
            AddressInUse: another process listens there.
            OSError: the address cannot be bound, or the certificates cannot be used.
        """
        credentials = _credentials(self._certificates) if self._certificates else None
        server: Any = grpc.aio.server(
            options=_options(self.max_message_bytes, self._bounds, self._keepalive)
        )
        server.add_generic_rpc_handlers((self,))
        await self._health.begin()
        server.add_generic_rpc_handlers((self._health.handler(),))
        if self._reflection:
            server.add_generic_rpc_handlers(_reflection())
        place = self._place()
        try:
            if credentials is None:
                port = server.add_insecure_port(place)
            else:
                port = server.add_secure_port(place, credentials)
        except RuntimeError:
            port = 0
        if not port:  # it was free a moment ago
            raise AddressInUse(self._address)
        if not self._address.path:
            self._address = self._address._replace(port=port)
        await server.start()
        self._server = server
        return str(self._address)

    def _place(self) -> str:
        """The address in the core's words; our own `bind` finds out whether it is to be had, and says what is wrong."""
        with bind(self._address) as probe:
            if not self._address.path:
                host, _ = probe.getsockname()[:2]
                self._address = Address(host=host, port=self._address.port)
        if self._address.path:
            self._unlink()
            return f"unix:{quote(self._address.path)}"
        return str(self._address)

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, let calls in flight end for at most `grace_seconds`, and return."""
        server, self._server = self._server, None
        if server is None:
            return
        await self._health.end()
        ending = asyncio.create_task(server.stop(grace_seconds))
        asyncio.get_running_loop().call_later(grace_seconds, self._abandon)
        await asyncio.wait({ending}, timeout=grace_seconds + ABORT_SECONDS)
        for task in list(self.tasks):
            task.cancel()
        self.beside.shutdown(wait=False)
        self._unlink()

    def _unlink(self) -> None:
        if self._address.path:
            Path(self._address.path).unlink(missing_ok=True)

    def _abandon(self) -> None:
        self.is_stopping = True

    # --- calls ----------------------------------------------------------------------------------

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a method; none of one that nobody knows, which the core refuses."""
        return self._handlers.get(handler_call_details.method)

    def _handler(self, signal: Signal) -> Callable[..., Any]:
        async def export(_messages: Any, context: Any) -> bytes:
            peer = context.peer()
            client = self._peers.join(peer)
            try:
                return await _Call(self, signal, context, client).answer()
            finally:
                self._peers.leave(peer)

        return export


class _Call:
    """One Export."""

    def __init__(
        self, receiver: GrpcioReceiver, signal: Signal, context: Any, client: Client
    ) -> None:
        self._receiver = receiver
        self._signal = signal
        self._context = context
        self._client = client
        self._timer: asyncio.Timeout | None = None
        self._sender: str | None = None
        self._crowded_out: Refusal | None = None
        self._is_whole = False

    async def answer(self) -> bytes:
        """The answer; a refusal aborts the call."""
        try:
            return await self._take()
        except Refusal as refusal:
            await self._refuse(refusal)
        except asyncio.CancelledError:
            if not self._is_whole:
                self._lost()
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, others are served
            await self._refuse(self._receiver.export.fault(error))
        return b""  # an abort raises

    def crowd_out(self, refusal: Refusal) -> None:
        """Its message is not whole, and its place is given to another."""
        self._crowded_out = refusal
        if self._timer is not None:
            self._timer.reschedule(0)

    async def _take(self) -> bytes:
        """Takes the message now, or where that takes long, in a task.

        Raises:
            Refusal: it is not taken.
        """
        receiver = self._receiver
        sender = self._sender = receiver.admission.sender(self._authorization())
        place = receiver.admission.enter(sender, self._client, self)
        is_kept = False
        try:
            body = await self._read(place)
            coding = coding_of(body)
            if coding and len(body) <= INLINE_BYTES_MAX:
                body, coding = inflate(body, coding, receiver.max_message_bytes), ""
            if not coding and len(body) <= LARGE_BYTES and not receiver.export.waits:
                answer = receiver.export.ingest_now(
                    self._signal, body, "proto", TRANSPORT, sender, self._metadata()
                )
                self._count(GRPC_OK)
                return proto_answer(answer)
            place.keep()
            is_kept = True
            work = self._take_long(body, coding, sender, place)
        finally:
            if not is_kept:
                place.leave()
        task = asyncio.create_task(work)
        receiver.tasks.add(task)
        task.add_done_callback(receiver.tasks.discard)
        return await asyncio.shield(task)

    def _authorization(self) -> str:
        for name, value in self._context.invocation_metadata():
            if name == "authorization":
                return str(value)
        return ""

    def _metadata(self) -> Metadata:
        """The metadata that goes on with the request; binary values in base64, as on the wire."""
        names = self._receiver.export.header_names
        found: dict[bytes, bytes] = {}
        for key, value in self._context.invocation_metadata() if names else ():
            name = key.encode()
            if name in names and name not in found:
                found[name] = (
                    base64.b64encode(value) if isinstance(value, bytes) else value.encode()
                )
        return list(found.items())

    async def _read(self, place: AdmissionPlace) -> bytes:
        """The one message, within the time for it."""
        place.grow(0)
        try:
            async with asyncio.timeout(self._receiver.admission.body_seconds) as self._timer:
                body = await self._context.read()
                if body is EOF:
                    await self._end_without_message()
                place.grow(len(body))
                if await self._context.read() is not EOF:
                    raise Refusal(ExportStatus.MALFORMED, "expected one message")
        except TimeoutError:
            late = Refusal(ExportStatus.TIMEOUT, "the message did not arrive in time")
            raise self._crowded_out or late from None
        self._is_whole = True
        found: bytes = body
        return found

    async def _end_without_message(self) -> None:
        """Raises what has come of a call without a message; that it was cancelled comes a little later."""
        if not self._is_ended_by_core():
            await asyncio.sleep(CANCEL_SECONDS)
            raise Refusal(ExportStatus.MALFORMED, "expected one message")
        self._receiver.export.stats.count("unread_messages", TRANSPORT)
        most = self._receiver.max_message_bytes
        raise Refusal(ExportStatus.TOO_LARGE, f"the message has more than {most} bytes")

    def _is_ended_by_core(self) -> bool:
        """True if the core refused the message: such a call has lost its connection before its deadline."""
        left = self._context.time_remaining()
        is_early = left is None or left > 0
        return is_early and not self._context.peer() and not self._receiver.is_stopping

    async def _take_long(
        self, body: bytes, coding: str, sender: str | None, place: AdmissionPlace
    ) -> bytes:
        """The same in slices; what is compressed is inflated beside the loop."""
        receiver = self._receiver
        room = Reservation(receiver.admission)
        try:
            if coding:
                most = receiver.max_message_bytes
                async with receiver.inflating:
                    body = await inflate_beside(body, coding, most, receiver.beside, room.hold)
            answer = await receiver.export.ingest(
                self._signal, body, "proto", TRANSPORT, sender, room, self._metadata()
            )
        finally:
            room.release()
            place.leave()
        self._count(GRPC_OK)
        return proto_answer(answer)

    # --- what goes out --------------------------------------------------------------------------

    async def _refuse(self, refusal: Refusal) -> None:
        code = refusal.status.value.grpc
        self._count(GRPC_NAMES[code])
        self._receiver.export.note_refusal(refusal, self._signal, self._sender)
        if refusal.status is ExportStatus.TOO_LARGE:  # no details: never to be tried again
            await self._context.abort(CODES[code], refusal.message)
        status = to_status(Status.FromString(status_bytes(refusal)))
        await self._context.abort(status.code, status.details, status.trailing_metadata)

    def _lost(self) -> None:
        """The call has ended before its message was whole."""
        name = CANCELLED
        if self._is_ended_by_core():
            name = GRPC_NAMES[ExportStatus.TOO_LARGE.value.grpc]
        self._count(name)
        self._receiver.export.stats.count("unread_messages", TRANSPORT)

    def _count(self, name: str) -> None:
        self._receiver.export.stats.request(TRANSPORT, self._signal, name)


class _Peers:
    """The connections that have calls, by the core's names for them."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}
        self._calls: Counter[str] = Counter()

    def join(self, peer: str) -> Client:
        self._calls[peer] += 1
        found = self._clients.get(peer)
        if found is None:
            found = self._clients[peer] = Client(_host(peer))
        return found

    def leave(self, peer: str) -> None:
        self._calls[peer] -= 1
        if not self._calls[peer]:
            del self._calls[peer], self._clients[peer]


def _host(peer: str) -> str:
    """The host in `ipv4:127.0.0.1:5` or `ipv6:%5B::1%5D:5`; "" of a Unix socket."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    return unquote(rest).rpartition(":")[0].strip("[]")


# The packages of gRPC have no types.
class _Health(health.aio.HealthServicer):  # type: ignore[misc, name-defined]
    """grpc.health.v1: serving until the end, of which watchers are told."""

    def __init__(self) -> None:
        super().__init__()
        self._watchers = 0
        self._stopping = asyncio.Event()

    def handler(self) -> Any:
        """Of its methods; what is no request comes as None, where the library would log an error."""
        check, watch = (
            make(
                method,
                _lenient(health_pb2.HealthCheckRequest, None),
                RESPONSE.SerializeToString,
            )
            for make, method in (
                (grpc.unary_unary_rpc_method_handler, self.Check),
                (grpc.unary_stream_rpc_method_handler, self.Watch),
            )
        )
        methods = {"Check": check, "Watch": watch}
        return grpc.method_handlers_generic_handler(health.SERVICE_NAME, methods)

    async def begin(self) -> None:
        for name in ("", *SERVICES):
            await self.set(name, RESPONSE.SERVING)

    async def end(self) -> None:
        self._stopping.set()
        await self.enter_graceful_shutdown()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, NO_REQUEST)
        return await super().Check(request, context)

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - gRPC's name
        """The health now, and when it changes; that is at the end. The library's own would never end."""
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, NO_REQUEST)
        if self._watchers >= WATCHERS_MAX:
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, "too many clients watch the health"
            )
        is_known = not request.service or request.service in SERVICES
        self._watchers += 1
        try:
            if not self._stopping.is_set():
                now = RESPONSE.SERVING if is_known else RESPONSE.SERVICE_UNKNOWN
                await context.write(RESPONSE(status=now))
                await self._stopping.wait()
            await context.write(RESPONSE(status=RESPONSE.NOT_SERVING))
        finally:
            self._watchers -= 1


def _lenient(message: Any, otherwise: Any) -> Callable[[bytes], Any]:
    """A reader of such messages, and what bytes are read as that are none."""

    def read(raw: bytes) -> Any:
        try:
            return message.FromString(raw)
        except DecodeError:
            return otherwise

    return read


def _reflection() -> tuple[Any, ...]:
    """Server reflection, v1alpha as the library has it, and v1, which is the same on the wire."""
    # Loaded so that their services are known to the library.
    import opentelemetry.proto.collector.logs.v1.logs_service_pb2
    import opentelemetry.proto.collector.metrics.v1.metrics_service_pb2
    import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401
    from grpc_reflection.v1alpha import reflection_pb2
    from grpc_reflection.v1alpha._async import ReflectionServicer

    names = (*SERVICES, health.SERVICE_NAME)
    # The library answers an empty request with INVALID_ARGUMENT.
    request = reflection_pb2.ServerReflectionRequest
    read = _lenient(request, request())

    def read_request(raw: bytes) -> Any:
        """The request; a method's name, which the library does not find, becomes its service's."""
        found = read(raw)
        service, _, _ = found.file_containing_symbol.replace("/", ".").rpartition(".")
        if service in names:
            found.file_containing_symbol = service
        return found

    method = grpc.stream_stream_rpc_method_handler(
        ReflectionServicer(names).ServerReflectionInfo,
        read_request,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return tuple(
        grpc.method_handlers_generic_handler(
            f"grpc.reflection.{version}.ServerReflection", {"ServerReflectionInfo": method}
        )
        for version in ("v1", "v1alpha")
    )


def _credentials(certificates: Certificates) -> Any:
    """Of TLS; each handshake looks for newer files.

    Raises:
        OSError: the files cannot be used.
    """
    lock = threading.Lock()  # handshakes are in threads of the core

    def configuration(material: Any) -> Any:
        return grpc.ssl_server_certificate_configuration(
            [(material.key, material.cert)], material.client_ca
        )

    def renewed() -> Any:
        with lock:
            material = certificates.renewed()
        return None if material is None else configuration(material)

    return grpc.dynamic_ssl_server_credentials(
        configuration(certificates.read()), renewed, certificates.mutual
    )


def _options(
    bytes_max: int, bounds: ConnectionBounds, keepalive: Keepalive
) -> list[tuple[str, int]]:
    """What the core is told."""
    times = {
        "grpc.server_handshake_timeout_ms": bounds.head,
        "grpc.keepalive_time_ms": keepalive.ping_interval,
        "grpc.keepalive_timeout_ms": keepalive.ping_timeout,
        "grpc.http2.min_ping_interval_without_data_ms": keepalive.ping_interval_min,
        "grpc.max_connection_idle_ms": keepalive.idle_max,
        "grpc.max_connection_age_ms": keepalive.age_max,
        "grpc.max_connection_age_grace_ms": keepalive.age_grace,
    }
    return [
        ("grpc.max_receive_message_length", bytes_max),
        ("grpc.per_message_decompression", 0),
        ("grpc.max_concurrent_streams", STREAMS_MAX),
        ("grpc.max_metadata_size", HEADER_BYTES_MAX),
        ("grpc.absolute_max_metadata_size", HEADER_BYTES_MAX),
        ("grpc.max_allowed_incoming_connections", bounds.connections),
        ("grpc.keepalive_permit_without_calls", int(keepalive.ping_interval_min is not None)),
        # A second process on the same address is told so.
        ("grpc.so_reuseport", 0),
        *((name, round(value * 1000)) for name, value in times.items() if value is not None),
    ]
