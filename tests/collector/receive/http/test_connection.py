"""HTTP/1.1 on one connection: turns, upgrades, clients that do not read, and idle timeouts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from collector.decode.protobuf.slices import LARGE_BYTES
from collector.decode.span import Span
from collector.receive.export import Export
from collector.receive.http.asgi_server import WebApp
from collector.receive.http.connection import HttpConnection
from collector.receive.http.service import HttpApp
from collector.receive.http.turns import SLICE_BYTES
from collector.receive.listener.connections import ConnectionBounds
from collector.receive.listener.listener import Listener
from collector.telemetry.counters import Stats
from collector.telemetry.logs import captured
from tests.conformance.bodies import PROTO_BODY, proto_body

LARGE_BODY = proto_body(LARGE_BYTES // 20)


class Served:
    """OTLP/HTTP in the running loop."""

    def __init__(self, bounds: ConnectionBounds | None = None) -> None:
        self.spans = 0
        self.address = ""
        self.stats = Stats()
        app = HttpApp(Export(self._consume, self.stats, itertools.count().__next__))
        self.listener = Listener(app, "127.0.0.1:0", bounds=bounds, stats=self.stats)

    def _consume(self, spans: list[Span], _now_ns: int, _transport: str) -> None:
        self.spans += len(spans)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client with room for few answers that it has not read."""
        host, port = self.address.rsplit(":", 1)
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
        return await asyncio.open_connection(sock=client)


@contextlib.asynccontextmanager
async def served(
    bounds: ConnectionBounds | None = None,
) -> AsyncIterator[tuple[Served, Any, Any]]:
    server = Served(bounds)
    server.address = await server.listener.start()
    reader, writer = await server.connect()
    try:
        yield server, reader, writer
    finally:
        writer.close()
        await server.listener.stop(1)


Run = Callable[[Any], None]


def post(body: bytes, *lines: bytes, path: bytes = b"/v1/traces") -> bytes:
    head = [
        b"POST %b HTTP/1.1" % path,
        b"Host: x",
        b"Content-Type: application/x-protobuf",
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join([*head, *lines]) + b"\r\n\r\n" + body


async def status(reader: asyncio.StreamReader) -> int:
    """The status of the next answer, which is read whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split()[1])


def test_requests_are_answered_in_their_order(run: Run) -> None:
    """A large one in front, which takes several turns, and small ones behind it in one write."""

    async def scenario() -> None:
        async with served() as (server, reader, writer):
            nowhere = post(b"", path=b"/nowhere")
            writer.write(post(PROTO_BODY) + post(LARGE_BODY) + nowhere + post(LARGE_BODY))
            writer.write(post(PROTO_BODY) + nowhere[:-9])
            assert [await status(reader) for _ in range(5)] == [200, 200, 404, 200, 200]
            writer.write(nowhere[-9:])
            assert await status(reader) == 404
            assert server.spans == 2 * (LARGE_BYTES // 20) + 2

    run(scenario())


def test_a_client_that_does_not_read_is_not_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers do not pile up here; once it reads, all of them come."""
    count = 4_000

    async def scenario() -> None:
        full = asyncio.Event()
        pause = HttpConnection.pause_writing

        def pause_writing(connection: HttpConnection) -> None:
            pause(connection)
            full.set()

        monkeypatch.setattr(HttpConnection, "pause_writing", pause_writing)
        async with served() as (server, reader, writer):
            writer.transport.pause_reading()
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * count)
            await full.wait()
            await asyncio.sleep(0.05)
            answered = sum(server.stats.requests.values())
            await asyncio.sleep(0.05)
            assert sum(server.stats.requests.values()) == answered < count
            writer.transport.resume_reading()
            answers = 0
            while answers < count:
                answers += (await reader.readuntil(b"}")).count(b"HTTP/1.1 404 ")

    run(scenario())


def test_a_body_in_many_small_chunks(run: Run) -> None:
    """Arrives as it was sent."""

    async def scenario() -> None:
        async with served() as (server, reader, writer):
            chunks = [LARGE_BODY[at : at + 25] for at in range(0, len(LARGE_BODY), 25)]
            writer.write(post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
            writer.write(b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in chunks))
            writer.write(b"0\r\n\r\n")
            assert await status(reader) == 200
            assert server.spans == LARGE_BYTES // 20

    run(scenario())


def test_who_kept_us_waiting_longest_goes(run: Run) -> None:
    """Connections are closed in the order of their last activity, as it is at that time."""

    async def scenario() -> None:
        async with served(ConnectionBounds(connections=4)) as (server, *first):
            clients = [first, *[await server.connect() for _ in range(3)]]
            for reader, writer in (clients[0], clients[2]):
                writer.write(post(PROTO_BODY))
                assert await status(reader) == 200
            for count, gone in enumerate((1, 3, 0), 1):
                clients.append(await server.connect())
                assert await clients[gone][0].read() == b""
                assert server.stats.counts["connections_closed", "crowded"] == count
            reader, writer = clients[2]
            writer.write(post(PROTO_BODY))
            assert await status(reader) == 200
            clients.append(await server.connect())
            assert await clients[4][0].read() == b""
            for _, writer in clients:
                writer.close()

    run(scenario())


def test_an_upgrade_is_not_taken_up(run: Run) -> None:
    """The request and the next one are read as HTTP/1.1, with either kind of body."""

    async def scenario() -> None:
        async with served() as (server, reader, writer):
            asked = post(PROTO_BODY, b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c")
            writer.write(asked[:-3])
            writer.write(asked[-3:] + asked + post(PROTO_BODY))
            assert [await status(reader) for _ in range(3)] == [200, 200, 200]
            chunked = asked.replace(
                b"Content-Length: %d" % len(PROTO_BODY), b"Transfer-Encoding: chunked"
            )
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(PROTO_BODY), PROTO_BODY)
            writer.write(chunked.removesuffix(PROTO_BODY) + body)
            assert await status(reader) == 200
            assert server.spans == 4
            writer.write(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert await status(reader) == 400

    run(scenario())


@pytest.mark.plain
def test_idle_connections_are_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are closed without a response and are not counted as slow."""
    monkeypatch.setattr("collector.receive.http.connection.IDLE_SECONDS_MAX", 0.01)
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)

    async def scenario() -> None:
        async with served(ConnectionBounds(body=0.01)) as (server, reader, writer):
            writer.write(post(PROTO_BODY))
            assert await status(reader) == 200
            assert await reader.read() == b""
            assert server.stats.counts == {}
            other_reader, other = await server.connect()
            other.write(post(PROTO_BODY)[:-1])
            assert await status(other_reader) == 408
            assert server.stats.counts[("connections_closed", "slow")] == 1
            other.close()

    run(scenario())


def test_an_application_that_fails_is_500(run: Run) -> None:
    """The error is logged, and the service goes on."""

    async def fails(_scope: Any, _receive: Any, _send: Any) -> None:
        raise KeyError("ours")

    async def scenario() -> None:
        listener = Listener(WebApp(fails), "127.0.0.1:0")
        host, port = (await listener.start()).rsplit(":", 1)
        with captured() as lines:
            for _ in range(2):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 500 ")
                writer.close()
        assert [line["level"] for line in lines] == ["error", "error"]
        await listener.stop(1)

    run(scenario())


# --- floods --------------------------------------------------------------------------------------


def test_a_flood_of_small_requests_waits_its_turn(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of thousands of pipelined requests, each turn takes some; others are served meanwhile."""
    for module in ("connection", "turns"):
        monkeypatch.setattr(f"collector.receive.http.{module}.TURN_SECONDS", 0.0)
    count = 3_000

    async def scenario() -> None:
        async with served() as (server, reader, writer):
            good_reader, good = await server.connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * count)
            good.write(post(PROTO_BODY))
            assert await status(good_reader) == 200
            assert sum(server.stats.requests.values()) < count
            answers = 0
            while answers < count:
                answers += (await reader.readuntil(b"}")).count(b"HTTP/1.1 404 ")
            assert server.stats.counts["reads_deferred",] > count * 28 // 300_000
            good.close()

    run(scenario())


@pytest.mark.plain
def test_a_turn_ends_between_two_requests_of_one_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests that the parser has found already wait, too: each may take long."""
    for module in ("connection", "turns"):
        monkeypatch.setattr(f"collector.receive.http.{module}.TURN_SECONDS", 0.0)
    count = 100
    flood = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * count
    assert len(flood) > SLICE_BYTES

    async def scenario() -> None:
        async with served() as (server, reader, writer):
            good_reader, good = await server.connect()
            counted: list[str] = []
            monkeypatch.setattr(
                server.stats, "request", lambda _, signal, __: counted.append(signal)
            )
            writer.write(flood)
            good.write(post(PROTO_BODY))
            assert await status(good_reader) == 200
            assert counted.index("traces") < 10
            answers = 0
            while answers < count:
                answers += (await reader.readuntil(b"}")).count(b"HTTP/1.1 404 ")
            assert len(counted) == count + 1
            good.close()

    run(scenario())


def test_what_follows_a_slow_request_is_not_parsed(run: Run) -> None:
    """A request that is answered beside the loop holds up its own connection's next ones, unread."""
    started, go_on = asyncio.Event(), asyncio.Event()

    async def waits(_scope: Any, _receive: Any, send: Any) -> None:
        started.set()
        await go_on.wait()
        headers = [(b"content-length", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"a"})

    async def scenario() -> None:
        started.clear()
        go_on.clear()
        made: list[HttpConnection] = []
        web = WebApp(waits)

        def connect(connections: Any) -> HttpConnection:
            made.append(web(connections))
            return made[-1]

        listener = Listener(connect, "127.0.0.1:0")
        host, port = (await listener.start()).rsplit(":", 1)
        reader, writer = await asyncio.open_connection(host, int(port))
        count = 1_500
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * count)
        await started.wait()
        await asyncio.sleep(0)
        assert len(made[0]._later) < 400  # noqa: SLF001 - how much is put off shows nowhere else
        go_on.set()
        for _ in range(count):
            assert (await reader.readuntil(b"\r\n\r\na")).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await listener.stop(1)

    run(scenario())


@pytest.mark.plain
def test_who_does_not_read_is_closed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed after the timeout and counted as stalled. Its response is produced no further."""
    monkeypatch.setattr("collector.receive.http.connection.UNREAD_SECONDS_MAX", 0.02)
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)
    parts, ended = itertools.count(), asyncio.Event()

    async def endless(_scope: Any, _receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in parts:
                body = {"type": "http.response.body", "body": bytes(9_000), "more_body": True}
                await send(body)
        finally:
            ended.set()

    async def scenario() -> None:
        ended.clear()
        stats = Stats()
        listener = Listener(WebApp(endless), "127.0.0.1:0", stats=stats)
        host, port = (await listener.start()).rsplit(":", 1)
        _, writer = await asyncio.open_connection(host, int(port))
        transport: Any = writer.transport
        transport.pause_reading()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await ended.wait()
        assert stats.counts == {("connections_closed", "stalled"): 1}
        assert listener.connections == 0
        writer.close()
        await listener.stop(1)

    run(scenario())


@pytest.mark.plain
def test_an_answer_that_nobody_reads_ends_with_its_connection(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that we closed is gone after a while, with all unread data."""
    monkeypatch.setattr("collector.receive.listener.connections.CLOSING_SECONDS", 0.02)
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)

    async def large(_scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"%d" % (64 << 20))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(64 << 20)})

    async def scenario() -> None:
        stats = Stats()
        listener = Listener(WebApp(large), "127.0.0.1:0", stats=stats)
        host, port = (await listener.start()).rsplit(":", 1)
        _, writer = await asyncio.open_connection(host, int(port))
        transport: Any = writer.transport
        transport.pause_reading()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(10):
            while ("connections_closed", "stalled") not in stats.counts:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        writer.close()
        await listener.stop(1)
        assert listener.connections == 0

    run(scenario())


# --- what RFC 9112 has refused -------------------------------------------------------------------

CHUNKED = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%b\r\n"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x,y/\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x:8a\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: a_b.example.:\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 300_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 2_000 + b"\r\n", 431),
        (CHUNKED % b"" + b"0\r\n" + b"A: b\r\n" * 2_000 + b"\r\n", 431),
        (CHUNKED % b"" + b"0\r\nA: " + b"a" * 300_000 + b"\r\n\r\n", 431),
        (CHUNKED % b"" + b"1;" + b"a" * 300_000 + b"\r\n\r\n", 431),
    ],
)
def test_what_a_server_has_to_refuse(run: Run, request_: bytes, expected: int) -> None:
    """Hosts, framing and sizes that RFC 9112 names; then the connection ends."""

    async def scenario() -> None:
        async with served() as (_, reader, writer):
            typed = request_.replace(
                b"chunked\r\n", b"chunked\r\nContent-Type: application/json\r\n"
            )
            writer.write(typed if b"HTTP/1.1" in request_ else request_)
            assert await status(reader) == expected
            if expected != 404:
                assert await reader.read() == b""

    run(scenario())
