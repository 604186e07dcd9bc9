"""Next hops that do as the test says, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

__all__ = ["OK", "GotGrpc", "GotHttp", "GrpcHop", "HttpHop", "Status", "answer"]


def answer(status: str = "200 OK", body: bytes = b"", *headers: str) -> bytes:
    """An answer of HTTP."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


OK = answer()


class GotHttp(NamedTuple):
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes


class HttpHop:
    """An HTTP server whose connections are kept.

    Args:
        reply: gives the bytes of each answer; None: it never answers; b"" closes the connection.
    """

    def __init__(self, reply: Callable[[GotHttp], bytes | None] = lambda _: OK) -> None:
        self.reply = reply
        self.got: list[GotHttp] = []
        self.connections = 0
        self.url = ""
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> HttpHop:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 26)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.strip().split("\r\n")
                fields = [each.split(": ", 1) for each in rest]
                headers = {name.lower(): value for name, value in fields}
                body = await reader.readexactly(int(headers["content-length"]))
                got = GotHttp(line.split(" ")[1], headers, body)
                self.got.append(got)
                reply = self.reply(got)
                if reply is None:
                    await asyncio.sleep(3600)
                    return
                if not reply:
                    writer.transport.abort()
                    return
                writer.write(reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()


class GotGrpc(NamedTuple):
    """A call that came."""

    method: str
    metadata: dict[str, Any]
    body: bytes


class Status(NamedTuple):
    """How a call ends that is not OK."""

    code: grpc.StatusCode
    message: str = ""
    details: bytes = b""
    """Of google.rpc.Status."""


class GrpcHop:
    """A gRPC server that takes any method.

    Args:
        reply: gives the answer's message, or the status; None: it never answers.
        credentials: of the server; None: without TLS.
        port: of the loopback; 0 for a free one.
    """

    def __init__(
        self,
        reply: Callable[[GotGrpc], bytes | Status | None] = lambda _: b"",
        credentials: grpc.ServerCredentials | None = None,
        port: int = 0,
    ) -> None:
        self.reply = reply
        self.got: list[GotGrpc] = []
        self.url = ""
        self._credentials = credentials
        self._port = port

    async def __aenter__(self) -> GrpcHop:
        options = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((self,))  # type: ignore[arg-type]
        if self._credentials is None:
            port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
            self.url = f"http://127.0.0.1:{port}"
        else:
            port = self._server.add_secure_port("127.0.0.1:0", self._credentials)
            self.url = f"https://localhost:{port}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)

    def service(self, call: Any) -> Any:
        """The handler of a method."""

        async def take(body: bytes, context: Any) -> bytes:
            got = GotGrpc(call.method, dict(context.invocation_metadata()), body)
            self.got.append(got)
            reply = self.reply(got)
            if reply is None:
                await asyncio.sleep(3600)
                return b""
            if isinstance(reply, bytes):
                return reply
            if reply.details:
                context.set_trailing_metadata((("grpc-status-details-bin", reply.details),))
            await context.abort(reply.code, reply.message)
            return b""

        return grpc.unary_unary_rpc_method_handler(take)
