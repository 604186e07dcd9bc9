"""The gRPC listener of our own: HTTP/2 connections, and the calls on them."""

from __future__ import annotations

from collections.abc import Sequence

from collector.receive.admission import Admission
from collector.receive.export import Export
from collector.receive.grpc.grpc_call import GrpcCalls
from collector.receive.grpc.http2.connection import Http2
from collector.receive.grpc.http2.keepalive import Keepalive
from collector.receive.listener.connection_turns import Turns
from collector.receive.listener.connections import ConnectionBounds, Connections
from collector.receive.listener.listener import Listener
from collector.receive.listener.tls import Certificates

__all__ = ["GrpcReceiver"]


class GrpcReceiver(Listener):
    """The gRPC listener.

    Args:
        export: takes the bodies.
        address: HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH.
        max_message_bytes: before and after decompression; larger ones get RESOURCE_EXHAUSTED.
        admission: who is let in.
        certificates: with them TLS is spoken, and nothing else.
        bounds: on connections; their `body` and `age` are the admission's and those of `keepalive`.
        keepalive: how connections are kept.
        reflection: whether clients may ask which services there are.
    """

    protocols: Sequence[str] = ("h2",)

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
        super().__init__(
            self.connect,
            address,
            certificates=certificates,
            bounds=bounds,
            stats=export.stats,
        )
        self._calls = GrpcCalls(
            export, max_message_bytes, admission or Admission(), reflection=reflection
        )
        self._keepalive = keepalive or Keepalive()
        self._turns = Turns()

    def connect(self, connections: Connections) -> Http2:
        """The protocol of a new connection."""
        calls = self._calls
        return Http2(
            calls.start_call,
            calls.read_head,
            connections,
            self._keepalive,
            self._turns,
            calls.export.stats,
        )

    async def start(self) -> str:
        """Bind, serve, and return the bound address.

        Raises:
            AddressInUse: another process listens there.
            OSError: the address cannot be bound, or the certificates cannot be used.
        """
        address = await super().start()
        self._calls.begin()
        return address

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, let calls in flight end for at most `grace_seconds`, and return."""
        self._calls.end()
        await super().stop(grace_seconds)
