"""OTLP/gRPC: the three collector services on one grpc.aio server, and the health service.

Requests arrive as raw bytes: faster than generated deserialisers, and malformed ones can be
answered as the specification wants. Compression, size limits and unknown methods are grpcio's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from collector.decode.slim import INT32, STRING, build
from collector.receivers.address import Address, bind, claim_path, parse_address
from collector.receivers.export import Export, Signal, proto_answer
from collector.receivers.status import GRPC_NAMES, Outcome, Refusal, status_bytes

__all__ = ["GrpcReceiver"]

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


class GrpcReceiver:
    """The gRPC listener.

    Args:
        export: takes the bodies.
        address: HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH.
        max_message_bytes: after decompression; larger ones get RESOURCE_EXHAUSTED.
    """

    def __init__(self, export: Export, address: str, max_message_bytes: int = 64 << 20) -> None:
        self._export = export
        self._address = parse_address(address)
        self._max_message_bytes = max_message_bytes
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
        server = grpc.aio.server(
            handlers=[_Services(self._export), self._health],
            options=[
                ("grpc.max_receive_message_length", self._max_message_bytes),
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
        try:
            port = server.add_insecure_port(target)
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


def _remove_socket(address: Address) -> None:
    if address.path:
        with contextlib.suppress(FileNotFoundError):
            Path(address.path).unlink()


class _Services(_Handler):
    """Routes the Export methods to the one Export, without deserialisers."""

    def __init__(self, export: Export) -> None:
        self._handlers = {
            f"/{service}/Export": grpc.unary_unary_rpc_method_handler(_method(export, signal))
            for service, signal in SERVICES.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(handler_call_details.method)


def _method(export: Export, signal: Signal) -> Any:
    async def export_method(body: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        try:
            answer = export.take(signal, body, "proto", TRANSPORT)
        except Refusal as refusal:
            code = refusal.outcome.value
            export.stats.request(TRANSPORT, signal, GRPC_NAMES[code.grpc])
            await context.abort(CODES[code.grpc], refusal.message, _trailers(refusal))
        export.stats.request(TRANSPORT, signal, GRPC_NAMES[Outcome.OK.value.grpc])
        return proto_answer(answer)

    return export_method


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
