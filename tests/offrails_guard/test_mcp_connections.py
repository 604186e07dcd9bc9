"""The connections of the MCP proxy to its server, where clients leave at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import pytest

from monitor import Monitor
from offrails_guard import LocalGuard
from offrails_guard.mcp.gate import Gate
from offrails_guard.mcp.http import HttpProxy, Message
from tests.collector.event_loop import until

HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
PART: Final = b"8\r\n: more\n\n\r\n"
STEPS: Final = 120
"""Steps of the event loop that a request of one part takes, and more."""


class ClientLeftError(Exception):
    """What a listener raises where an application sends to a client that has left."""


Mode = Literal["endless", "silent_stream", "silent", "short"]


class Server:
    """A server whose answer is an endless stream, a stream without events, none at all, or a short one.

    Args:
        mode: which of them.
    """

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.open = 0
        self.accepted = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.accepted += 1
        self.writers.append(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await self._answer(writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        if self.mode == "short":
            writer.write(HEAD + b"content-length: 2\r\n\r\n\n\n")
        elif self.mode != "silent":
            writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        while self.mode == "endless":
            writer.write(PART)
            await writer.drain()
            await asyncio.sleep(0)


@asynccontextmanager
async def serving(mode: Mode) -> AsyncIterator[tuple[Server, HttpProxy]]:
    server = Server(mode)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    proxy = HttpProxy(Gate(LocalGuard(Monitor()), "allow"), f"http://127.0.0.1:{port}")
    async with listener:
        yield server, proxy
        await proxy.aclose()
        listener.close()


SCOPE: Final[dict[str, Any]] = {
    "type": "http", "method": "GET", "raw_path": b"/mcp", "query_string": b"", "headers": [],
}  # fmt: skip


class Client:
    """A client that leaves: so many steps of the loop after it began, or after it was sent so many parts.

    Args:
        steps: until its listener says so.
        parts: after these its listener refuses to send more, at once. None: it takes all.
    """

    def __init__(self, steps: int, parts: int | None = None) -> None:
        self._steps = steps
        self._parts = parts
        self._begun = False
        self._refused = asyncio.Event()
        self.got = 0

    async def receive(self) -> dict[str, Any]:
        if not self._begun:
            self._begun = True
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._parts is not None:
            await self._refused.wait()
        for _ in range(self._steps):
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.got += message["type"] == "http.response.body"
        if self._parts is not None and self.got > self._parts:
            self._refused.set()
            raise ClientLeftError


async def _leaves(proxy: HttpProxy, client: Client) -> None:
    try:
        async with asyncio.timeout(20):
            await proxy(dict(SCOPE), client.receive, client.send)
    except ClientLeftError:
        pass


async def _asks(proxy: HttpProxy) -> None:
    """A request that is answered to its end."""
    ended = asyncio.Event()
    client = Client(0)

    async def receive() -> dict[str, Any]:
        if not ended.is_set():
            ended.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()
        return {}

    async with asyncio.timeout(20):
        await proxy(dict(SCOPE), receive, client.send)
    assert client.got == 2


@pytest.mark.parametrize(
    ("mode", "parts"),
    [
        ("endless", None),
        ("endless", 0),
        ("endless", 2),
        ("silent_stream", None),
        ("silent", None),
    ],
)
def test_a_client_that_leaves_at_any_step_ends_its_stream(
    mode: Mode, parts: int | None
) -> None:
    """At whichever step of the loop a client is gone, its connection to the server closes, and no place is lost."""

    async def main() -> None:
        async with serving(mode) as (server, proxy):
            for steps in range(STEPS):
                await _leaves(proxy, Client(steps, parts))
                await until(lambda: not server.open)

    asyncio.run(main())


def test_a_connection_is_kept_for_the_next_request() -> None:
    """What was answered to its end leaves a connection for the next request; one that its client left does not."""

    async def main() -> None:
        async with serving("short") as (server, proxy):
            for _ in range(5):
                await _asks(proxy)
            assert (server.accepted, server.open) == (1, 1)
            server.mode = "endless"
            await _leaves(proxy, Client(0, 1))
            server.mode = "short"
            await _asks(proxy)
            assert server.accepted == 2

    asyncio.run(main())


def test_connections_that_the_server_has_closed_are_not_used() -> None:
    """All of them are closed on this side, too, at the next request; none is left half closed."""

    async def main() -> None:
        async with serving("short") as (server, proxy):
            async with asyncio.TaskGroup() as together:
                for _ in range(5):
                    together.create_task(_asks(proxy))
            assert server.open == 5
            for writer in server.writers[:4]:
                writer.write_eof()
            await asyncio.sleep(0.05)  # an end of a connection has no event on our side
            await _asks(proxy)
            await until(lambda: server.open == 1)
            assert server.accepted == 5

    asyncio.run(main())
