"""OTLP/gRPC: the three collector services on one grpc.aio server, and the health service.

Requests arrive as raw bytes: faster than generated deserialisers, and malformed ones can be
answered as the specification wants. Compression, size limits and unknown methods are grpcio's.
A call is served before its message is read (as a stream of one, which is the same on the wire), so
that who may not send, or comes while there is no room, is refused without holding its bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from collector.decode.slim import INT32, STRING, build
from collector.receivers.address import Address, bind, claim_path, parse_address
from collector.receivers.door import HEAD_SECONDS, Door
from collector.receivers.export import Answer, Export, Signal, proto_answer
from collector.receivers.status import GRPC_NAMES, Outcome, Refusal, status_bytes
from collector.receivers.tls import Certificates, Material

__all__ = ["Connections", "GrpcReceiver"]

if TYPE_CHECKING:
    _Handler = grpc.GenericRpcHandler[Any, Any]
else:
    _Handler = grpc.GenericRpcHandler

_PACKAGE: Final = "opentelemetry.proto.collector"
SERVICES: Final[dict[str, Signal]] = {
    f"{_PACKAGE}.trace.v1.TraceService": "traces",
    f"{_PACKAGE}.metrics.v1.MetricsService": "metrics",
    f"{_PACKAGE}.logs.v1.LogsService": "logs",
}
HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"
TRANSPORT: Final = "grpc"
DETAILS_KEY: Final = "grpc-status-details-bin"
CODES: Final = {code.value[0]: code for code in grpc.StatusCode}

_HEALTH: Final = build(
    "offrails.health",
    {
        "Request": [("service", 1, STRING, False)],
        "Response": [("status", 1, INT32, False)],
    },
)
SERVING: Final = 1
NOT_SERVING: Final = 2


@dataclass(frozen=True, slots=True)
class Connections:
    """How connections are kept; times in seconds, None: as gRPC does it by itself."""

    most: int = 16_384
    """Open at once."""
    handshake: float = HEAD_SECONDS
    """Until a connection has shown that it speaks gRPC."""
    ping_interval: float | None = None
    """We ask a silent client so often whether it is there."""
    ping_timeout: float | None = None
    """It has so long to answer."""
    ping_interval_min: float | None = None
    """A client that asks more often is sent away."""
    idle_max: float | None = None
    age_max: float | None = None
    """After it a client is asked to connect anew, so that load spreads over new replicas."""
    age_grace: float | None = None

    def options(self) -> list[tuple[str, int]]:
        """As options of a gRPC server."""
        found = [("grpc.max_allowed_incoming_connections", self.most)]
        times = {
            "grpc.server_handshake_timeout_ms": self.handshake,
            "grpc.keepalive_time_ms": self.ping_interval,
            "grpc.keepalive_timeout_ms": self.ping_timeout,
            "grpc.http2.min_recv_ping_interval_without_data_ms": self.ping_interval_min,
            "grpc.max_connection_idle_ms": self.idle_max,
            "grpc.max_connection_age_ms": self.age_max,
            "grpc.max_connection_age_grace_ms": self.age_grace,
        }
        set_ones = ((name, seconds) for name, seconds in times.items() if seconds is not None)
        found += [(name, int(seconds * 1000)) for name, seconds in set_ones]
        return found


class GrpcReceiver:
    """The gRPC listener.

    Args:
        export: takes the bodies.
        address: HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH.
        max_message_bytes: after decompression; larger ones get RESOURCE_EXHAUSTED.
        door: who is let in.
        certificates: with them TLS is spoken, and nothing else.
        connections: how they are kept.
        reflection: whether clients may ask which services there are.
    """

    def __init__(
        self,
        export: Export,
        address: str,
        max_message_bytes: int = 64 << 20,
        *,
        door: Door | None = None,
        certificates: Certificates | None = None,
        connections: Connections | None = None,
        reflection: bool = False,
    ) -> None:
        self._export = export
        self._address = parse_address(address)
        self._max_message_bytes = max_message_bytes
        self._door = door or Door()
        self._certificates = certificates
        self._connections = connections or Connections()
        self._reflection = reflection
        self._server: grpc.aio.Server | None = None
        self._health = _Health()

    async def start(self) -> str:
        """Bind, serve, and return the bound address.

        Raises:
            AddressInUse: another process listens there.
            OSError: the address cannot be bound.
        """
        if self._address.path:
            claim_path(self._address)  # grpcio would take the socket of a live process
        logging.getLogger("grpc._cython.cygrpc").addFilter(_is_our_fault)
        handlers: list[Any] = [_Services(self._export, self._door), self._health]
        if self._reflection:
            from collector.receivers.reflection import Reflection

            handlers.append(Reflection())
        server = grpc.aio.server(
            handlers=handlers,
            options=[
                ("grpc.max_receive_message_length", self._max_message_bytes),
                *self._connections.options(),
                # With it a second process would start without complaint, and each would see
                # half of the spans.
                ("grpc.so_reuseport", 0),
            ],
        )
        self._address = self._add_port(server)
        await server.start()
        self._server = server
        self._health.status = SERVING
        return str(self._address)

    def _add_port(self, server: grpc.aio.Server) -> Address:
        address = self._address
        target = str(address if address.host or address.path else address._replace(host="::"))
        credentials = _credentials(self._certificates) if self._certificates else None
        try:
            if credentials is None:
                port = server.add_insecure_port(target)
            else:
                port = server.add_secure_port(target, credentials)
        except RuntimeError as error:
            bind(address).close()  # says in the system's words what is wrong
            _remove_socket(address)
            raise OSError(f"cannot listen on {address}: {error}") from error
        return address if address.path else address._replace(port=port)

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, let calls in flight end for at most `grace_seconds`, and return."""
        server, self._server = self._server, None
        if server is None:
            return
        self._health.status = NOT_SERVING
        await server.stop(grace_seconds)
        _remove_socket(self._address)


def _credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """TLS whose every new connection asks whether the files have changed.

    Raises:
        OSError: the files cannot be used.
    """

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        material = certificates.renewed()
        return None if material is None else _configuration(material)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(certificates.read()),
        renewed,  # type: ignore[arg-type]  # None: no change, says its documentation
        require_client_authentication=certificates.mutual,
    )


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.cert)], root_certificates=material.client_ca
    )


def _remove_socket(address: Address) -> None:
    if address.path:
        with contextlib.suppress(FileNotFoundError):
            Path(address.path).unlink()


def _is_our_fault(record: logging.LogRecord) -> bool:
    """False for what grpcio logs of a client that left before its answer: anyone could do that."""
    return not record.getMessage().startswith("ExecuteBatchError")


class _Services(_Handler):
    """Routes the Export methods to the one Export, without deserialisers."""

    def __init__(self, export: Export, door: Door) -> None:
        self._handlers = {
            f"/{service}/Export": grpc.stream_unary_rpc_method_handler(
                _Method(export, door, signal).serve
            )
            for service, signal in SERVICES.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)


class _Unread(Exception):  # noqa: N818 - nobody is there to hear of an error
    """The call ended before its message could be read."""


class _Method:
    """One Export method."""

    def __init__(self, export: Export, door: Door, signal: Signal) -> None:
        self._export = export
        self._door = door
        self._signal: Signal = signal

    async def serve(self, _messages: Any, context: Any) -> bytes:
        """Answer one call."""
        count = self._export.stats.request
        try:
            answer = await self._answer(context)
        except Refusal as refusal:
            code = refusal.outcome.value
            count(TRANSPORT, self._signal, GRPC_NAMES[code.grpc])
            await context.abort(CODES[code.grpc], refusal.message, _trailers(refusal))
        except _Unread:
            # grpcio has refused it (too large, corrupt compression), or the client has left.
            count(TRANSPORT, self._signal, grpc.StatusCode.CANCELLED.name)
            self._export.stats.count("unread_messages", TRANSPORT)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "expected one message")
        count(TRANSPORT, self._signal, GRPC_NAMES[Outcome.OK.value.grpc])
        return proto_answer(answer)

    async def _answer(self, context: Any) -> Answer:
        sender = self._door.sender(_authorization(context))
        with self._door.enter(sender) as ticket:
            try:
                async with asyncio.timeout(self._door.body_seconds):
                    body = await context.read()
            except TimeoutError:
                raise Refusal(Outcome.TIMEOUT, "the message did not arrive in time") from None
            if not isinstance(body, bytes):  # the end of the stream
                raise _Unread
            ticket.grow(len(body))
            return await self._export.take(self._signal, body, "proto", TRANSPORT, sender)


def _authorization(context: Any) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization" and isinstance(value, str):
            return value
    return ""


def _trailers(refusal: Refusal) -> Sequence[tuple[str, bytes]]:
    """Spell out the status; without the RetryInfo in it, senders give up (OTLP Throttling)."""
    return ((DETAILS_KEY, status_bytes(refusal)),)


class _Health(_Handler):
    """grpc.health.v1 Check, as load balancers and Kubernetes probes call it."""

    def __init__(self) -> None:
        self.status = NOT_SERVING
        self._handler = grpc.unary_unary_rpc_method_handler(self._check)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handler if handler_call_details.method == HEALTH_CHECK else None

    async def _check(self, body: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        try:
            name = _HEALTH["Request"].FromString(body).service
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a HealthCheckRequest")
        if name and name not in SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        response: bytes = _HEALTH["Response"](status=self.status).SerializeToString()
        return response
