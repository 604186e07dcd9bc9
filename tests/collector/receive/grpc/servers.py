"""Both gRPC servers on real sockets, for tests that hold for either."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode.span import Span
from collector.receive.export import Export
from collector.receive.grpc.builtin_server import GrpcReceiver
from collector.receive.grpc.grpcio_server import GrpcioReceiver
from collector.telemetry.counters import Stats

__all__ = ["HEALTH", "KINDS", "LIMIT", "PREFIX", "TRACES", "Kind", "Server", "body", "connect"]

LIMIT = 100_000
PREFIX = "/opentelemetry.proto.collector"
TRACES = f"{PREFIX}.trace.v1.TraceService/Export"
HEALTH = "/grpc.health.v1.Health/Check"

Kind = type[GrpcReceiver | GrpcioReceiver]
KINDS: dict[str, Kind] = {"builtin": GrpcReceiver, "grpcio": GrpcioReceiver}


class Server:
    """A receiver with an event loop in its own thread."""

    def __init__(
        self, kind: Kind = GrpcReceiver, address: str = "127.0.0.1:0", **options: Any
    ) -> None:
        self.kind = kind
        self.spans: list[Span] = []
        self.refusal: Exception | None = None
        self.stats = Stats()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        try:
            self.receiver = self.run(self._make(address, options))
            self.address: str = self.run(self.receiver.start())
        except BaseException:
            self._end_loop()
            raise
        self.channel: Any = grpc.insecure_channel(self.address)

    async def _make(
        self, address: str, options: dict[str, Any]
    ) -> GrpcReceiver | GrpcioReceiver:
        export = Export(self.consume, self.stats, time.time_ns)
        return self.kind(export, address, LIMIT, **options)

    def another(self, address: str) -> GrpcReceiver | GrpcioReceiver:
        """A receiver of the same kind, not yet started."""
        return self.kind(Export(self.consume, Stats(), time.time_ns), address)

    def consume(self, spans: list[Span], now_ns: int, transport: str) -> None:
        if self.refusal:
            raise self.refusal
        self.spans += spans

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def call(self, body: bytes, method: str = TRACES, **options: Any) -> bytes:
        """Sends raw bytes, without a generated client."""
        answer: bytes = self.channel.unary_unary(method)(body, timeout=20, **options)
        return answer

    def refused(self, body: bytes, method: str = TRACES, **options: Any) -> Any:
        with pytest.raises(grpc.RpcError) as error:
            self.call(body, method, **options)
        return error.value

    def close(self) -> None:
        self.channel.close()
        self.run(self.receiver.stop(2))
        self._end_loop()

    def _end_loop(self) -> None:
        """A thread that is left running keeps the process from its end."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def connect(address: str) -> Any:
    """A channel that shares no connection with others."""
    return grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])


def body(count: int = 1, **fields: Any) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for _ in range(count):
        scope.spans.add(**{"trace_id": b"\1" * 16, "span_id": b"\2" * 8, **fields})
    return request.SerializeToString()
