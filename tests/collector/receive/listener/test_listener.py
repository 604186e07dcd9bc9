from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector.receive.http.asgi_server import WebApp
from collector.receive.listener.address import Address, AddressInUse, parse_address
from collector.receive.listener.connections import ConnectionBounds
from collector.receive.listener.listener import Listener
from collector.receive.listener.tls import Certificates
from collector.telemetry.counters import Stats
from collector.telemetry.logs import captured
from tests.end_to_end.certificates import Pair, authority, have_openssl, issue


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4317", Address("127.0.0.1", 4317)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:4318", Address("::1", 4318)),
        (":9464", Address("", 9464)),
        ("unix:/run/x.sock", Address(path="/run/x.sock")),
        ("unix:///run/x.sock", Address(path="/run/x.sock")),
        ("unix:x.sock", Address(path="x.sock")),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    """Each accepted form gives its host, port or path."""
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected HOST:PORT"),
        ("4317", "expected HOST:PORT"),
        ("::1:4317", "expected HOST:PORT, .IPV6.:PORT"),
        ("localhost:http", "expected HOST:PORT"),
        ("h:70000", "expected a port from 0 to 65535, found 70000"),
        ("unix:", "expected a path after unix:"),
        ("http://h:1", "expected HOST:PORT"),
    ],
)
def test_wrong_addresses_say_what_was_expected(text: str, said: str) -> None:
    """The user reads a sentence, not a traceback of a regex."""
    with pytest.raises(ValueError, match=said):
        parse_address(text)


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """Read the whole body, say how long it was."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = b"%d" % size
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def exchange(address: str, request: bytes) -> bytes:
    """Send bytes, and read until the server closes."""
    reader, writer = await connect(address)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.startswith("unix:"):
        return await asyncio.open_unix_connection(address.removeprefix("unix:"))
    host, port = address.rsplit(":", 1)
    return await asyncio.open_connection(host.strip("[]"), int(port))


GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def test_port_0_gives_the_bound_address() -> None:
    """The address returned is the one to connect to."""

    async def scenario() -> None:
        listener = Listener(WebApp(hello), "127.0.0.1:0")
        address = await listener.start()
        assert (await exchange(address, GET)).startswith(b"HTTP/1.1 200 OK\r\n")
        await listener.stop(1)
        with pytest.raises(ConnectionRefusedError):
            await connect(address)

    asyncio.run(scenario())


def test_a_used_port_is_said_so() -> None:
    """A second instance fails with the address, it does not share the port."""

    async def scenario() -> None:
        first = Listener(WebApp(hello), "127.0.0.1:0")
        address = await first.start()
        with pytest.raises(AddressInUse, match=f"address already in use: {address}"):
            await Listener(WebApp(hello), address).start()
        await first.stop(1)
        again = Listener(WebApp(hello), address)
        assert await again.start() == address
        await again.stop(1)

    asyncio.run(scenario())


def test_a_foreign_address_is_an_error_with_the_address() -> None:
    """An address that is not this machine's is named."""
    with pytest.raises(OSError, match=r"cannot listen on 192.0.2.1:1"):
        asyncio.run(Listener(WebApp(hello), "192.0.2.1:1").start())


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_ipv6_and_every_interface() -> None:
    """[::1] listens on IPv6. An empty host is reached by IPv4, too."""

    async def scenario() -> None:
        for text, via in (("[::1]:0", "[::1]"), (":0", "127.0.0.1")):
            listener = Listener(WebApp(hello), text)
            try:
                address = await listener.start()
            except OSError:
                pytest.skip("IPv6 is off")
            port = address.rsplit(":", 1)[1]
            assert b"200 OK" in await exchange(f"{via}:{port}", GET)
            await listener.stop(1)

    asyncio.run(scenario())


def test_unix_sockets(tmp_path: Path) -> None:
    """A Unix socket serves, refuses a second listener, replaces a dead one, and goes at the end."""

    async def scenario() -> None:
        path = tmp_path / "s.sock"
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(str(path))
        stale.close()
        listener = Listener(WebApp(hello), f"unix:{path}")
        address = await listener.start()
        assert address == f"unix:{path}"
        assert b"200 OK" in await exchange(address, GET)
        with pytest.raises(AddressInUse):
            await Listener(WebApp(hello), address).start()
        await listener.stop(1)
        assert not path.exists()
        path.write_text("precious")
        with pytest.raises(OSError, match="not a socket"):
            await Listener(WebApp(hello), address).start()
        assert path.read_text() == "precious"

    asyncio.run(scenario())


def test_stop_completes_requests_in_flight() -> None:
    """A body that is half there is read to its end and answered; idle connections close."""

    async def scenario() -> None:
        listener = Listener(WebApp(hello), "127.0.0.1:0")
        address = await listener.start()
        idle_reader, idle_writer = await connect(address)
        idle_writer.write(GET.replace(b"close", b"keep-alive"))
        await idle_reader.readuntil(b"\r\n\r\n0")
        reader, writer = await connect(address)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n")
        writer.write(b"Content-Length: 6\r\n\r\n")
        await reader.readuntil(b"100 Continue\r\n\r\n")  # the request has begun
        writer.write(b"abc")
        stopping = asyncio.create_task(listener.stop(5))
        assert await idle_reader.read() == b""
        with pytest.raises(ConnectionRefusedError):
            await connect(address)
        writer.write(b"def")
        assert (await reader.read()).endswith(b"\r\n\r\n6")
        await stopping
        writer.close()
        idle_writer.close()

    asyncio.run(scenario())


def test_stop_ends_after_the_grace() -> None:
    """A request that never ends is cancelled; stopping twice is harmless."""

    async def scenario() -> None:
        listener = Listener(WebApp(hello), "127.0.0.1:0")
        reader, writer = await connect(await listener.start())
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n")
        writer.write(b"Content-Length: 6\r\n\r\n")
        await reader.readuntil(b"100 Continue\r\n\r\n")
        await listener.stop(0.05)
        assert b"200 OK" not in await reader.read()
        await listener.stop(0.05)
        writer.close()

    asyncio.run(scenario())


def test_endless_headers_are_refused() -> None:
    """The head of a request is bounded, at its end or before it."""

    async def scenario() -> None:
        listener = Listener(WebApp(hello), "127.0.0.1:0")
        reader, writer = await connect(await listener.start())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (300 << 10))
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 431 ")
        head, body = answer.split(b"\r\n\r\n")
        assert b"content-length: %d" % len(body) in head
        writer.close()
        await listener.stop(1)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("begun", "status"), [(b"GET / HTTP/1.1\r\nX: ", b"431"), (b"\0" * 100, b"400")]
)
def test_a_refused_client_that_goes_on_sending_hears_the_answer(
    begun: bytes, status: bytes
) -> None:
    """Megabytes after the refusal are read and thrown away; then the connection is closed."""

    async def scenario() -> None:
        listener = Listener(WebApp(hello), "127.0.0.1:0")
        reader, writer = await connect(await listener.start())
        writer.write(begun + b"a" * (4 << 20))
        await writer.drain()
        assert (await reader.read()).split()[1] == status
        writer.write_eof()
        writer.close()
        await writer.wait_closed()
        await listener.stop(1)

    asyncio.run(scenario())


async def _send_for_ever(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"more")
        await writer.drain()
        await asyncio.sleep(0)


@pytest.mark.plain
def test_a_refused_client_that_never_stops_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending on does not keep its connection open."""
    monkeypatch.setattr("collector.receive.http.connection.LINGER_SECONDS", 0.01)
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)

    async def scenario() -> None:
        listener = Listener(WebApp(hello), "127.0.0.1:0")
        reader, writer = await connect(await listener.start())
        writer.write(b"\0" * 100)
        assert (await reader.read()).count(b"HTTP/1.1 400") == 1
        with pytest.raises(ConnectionError):
            await _send_for_ever(writer)
        writer.close()
        await listener.stop(1)

    asyncio.run(scenario())


# --- handshakes and descriptors ----------------------------------------------------------------


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, Pair]:
    """An authority, and a certificate of it."""
    if not have_openssl():
        pytest.skip("the openssl program makes the certificates")
    folder = tmp_path_factory.mktemp("certificates")
    signer = authority(folder)
    return signer, issue(signer, folder, "server")


def trusting(signer: Pair, *own: Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=signer.cert)
    for each in own:
        context.load_cert_chain(each.cert, each.key)
    return context


def shake(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """Runs a handshake that fails and returns TLS's message."""
    plain = socket.create_connection(address, 10)
    wrapped = context.wrap_socket(
        plain, server_hostname="localhost", do_handshake_on_connect=False
    )
    with wrapped, contextlib.suppress(OSError):
        wrapped.do_handshake()
        wrapped.recv(1)


async def turns(until: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not until():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def test_handshakes_are_connections(
    run: Callable[[Any], None], pairs: tuple[Pair, Pair]
) -> None:
    """Unfinished handshakes count towards the bound on connections; other clients still get in."""
    signer, server = pairs

    async def scenario() -> None:
        stats = Stats()
        certificates = Certificates(server.cert, server.key)
        listener = Listener(
            WebApp(hello),
            "127.0.0.1:0",
            certificates=certificates,
            bounds=ConnectionBounds(10),
            stats=stats,
        )
        address = await listener.start()
        silent = [await connect(address) for _ in range(60)]
        await turns(lambda: stats.counts.get(("connections_closed", "crowded"), 0) == 50)
        assert listener.connections == listener.capacity == 10
        for reader, _ in silent[:50]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        host, port = address.rsplit(":", 1)
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=trusting(signer), server_hostname="localhost"
        )
        writer.write(GET)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        for _, other in silent:
            other.close()
        await listener.stop(1)

    run(scenario())


@pytest.mark.plain
def test_why_handshakes_fail(
    run: Callable[[Any], None], pairs: tuple[Pair, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures are counted by reason (no certificate, plain text, silence), with one log line for all."""
    signer, server = pairs
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)

    async def scenario() -> None:
        stats = Stats()
        certificates = Certificates(server.cert, server.key, signer.cert)
        listener = Listener(
            WebApp(hello),
            "127.0.0.1:0",
            certificates=certificates,
            bounds=ConnectionBounds(head=0.5),
            stats=stats,
            name="one",
        )
        address = await listener.start()
        host, port = address.rsplit(":", 1)

        async def failed(reason: str) -> None:
            await turns(lambda: ("tls_handshakes_failed", reason) in stats.counts)

        for first, reason in ((GET, "plain_text"), (b"\x00" * 9, "plain_text")):
            reader, writer = await connect(address)
            writer.write(first)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            await failed(reason)
        _, silent = await connect(address)
        await failed("timeout")
        silent.close()
        for context, reason in (
            (trusting(signer), "client_certificate"),
            (ssl.create_default_context(), "client_alert"),
        ):
            await asyncio.to_thread(shake, (host, int(port)), context)
            await failed(reason)
        _, gone = await connect(address)
        gone.close()
        await failed("disconnected")
        assert stats.counts["tls_handshakes_failed", "plain_text"] == 2
        assert listener.connections == 0
        await listener.stop(1)

    with captured() as events:
        run(scenario())
    told = [event for event in events if event["event"] == "tls_handshakes_failed"]
    assert [(event["listener"], event["plain_text"]) for event in told] == [("one", 1)]


def test_no_descriptor_left(run: Callable[[Any], None]) -> None:
    """Who comes then is closed at once, not left waiting; with one free again others are served."""

    async def scenario() -> None:
        stats = Stats()
        listener = Listener(WebApp(hello), "127.0.0.1:0", stats=stats)
        address = await listener.start()
        host, port = address.rsplit(":", 1)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = socket.create_connection((host, int(port)))
        await turns(lambda: listener.connections == 1)
        client.setblocking(False)
        other = socket.socket()
        other.setblocking(False)
        used = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, hard))
        filled = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    filled.append(os.open(os.devnull, os.O_RDONLY))
            loop = asyncio.get_running_loop()
            await loop.sock_connect(other, (host, int(port)))
            assert await loop.sock_recv(other, 1) == b""
            await loop.sock_sendall(client, GET)
            assert (await loop.sock_recv(client, 1_000)).startswith(b"HTTP/1.1 200 OK")
        finally:
            for each in filled:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert stats.counts["connections_closed", "no_descriptor"] == 1
        other.close()
        client.close()
        assert b"200 OK" in await exchange(address, GET)
        await listener.stop(1)

    run(scenario())
