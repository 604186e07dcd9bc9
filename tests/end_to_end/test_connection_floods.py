"""A few hostile clients against a real service, while everyone else is served within a second."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.bodies import proto_body
from tests.conformance.http2 import DATA, END_HEADERS, HEADERS, PREFACE, SETTINGS, frame
from tests.conformance.target import Target
from tests.end_to_end.certificates import authority, have_openssl, issue
from tests.end_to_end.service import BUILTIN_ONLY, OFFRAILS, eventually

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

pytestmark = [BUILTIN_ONLY, pytest.mark.alone]

FLOOD_SECONDS = 0.5
LONGEST_SECONDS = 1.0
BODY = proto_body(20)


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=20)


@contextlib.contextmanager
def beside(work: Callable[[threading.Event], None], count: int) -> Iterator[None]:
    """So many hostile clients in threads, until the block ends."""
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(stop,), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)


def longest(service: Service, *asks: Callable[[], int]) -> float:
    """The longest wait of good clients in a while; each of their requests is answered by 200."""
    until, found = time.monotonic() + FLOOD_SECONDS, 0.0
    target = Target(grpc=service.addresses["grpc"], http=service.addresses["http"])
    connection, channel = target.connection(), target.channel()
    usual: tuple[Callable[[], int], ...] = (
        lambda: target.request(BODY, connection=connection).status,
        lambda: 200 if target.call(BODY, channel=channel) == b"" else 0,
        lambda: service.get("/-/healthy", "metrics").status,
    )
    while time.monotonic() < until:
        for ask in (*usual, *asks):
            began = time.monotonic()
            assert ask() == 200
            found = max(found, time.monotonic() - began)
        time.sleep(0.01)
    connection.close()
    channel.close()
    return found


def sending(address: str, what: bytes) -> Callable[[threading.Event], None]:
    """Sends it again and again, as fast as it goes, and throws the answers away."""
    blob = what * (1 + (256 << 10) // len(what))

    def work(stop: threading.Event) -> None:
        while not stop.is_set():
            with connect(address) as connection, contextlib.suppress(OSError):
                connection.setblocking(False)
                left = memoryview(b"")
                while not stop.is_set():
                    with contextlib.suppress(BlockingIOError):
                        left = left[connection.send(left) :] if left else memoryview(blob)
                    with contextlib.suppress(BlockingIOError):
                        connection.recv(1 << 20)

    return work


EMPTY = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
NOTHING = (
    b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)


@pytest.mark.parametrize(
    ("listener", "what"), [("http", EMPTY), ("http", NOTHING), ("admin", EMPTY)]
)
def test_small_requests_in_one_go(serve: Serve, listener: str, what: bytes) -> None:
    """While four clients pipeline empty requests, other clients are answered without delay."""
    service = serve()
    with beside(sending(service.addresses[listener], what), 4):
        assert longest(service) < LONGEST_SECONDS
    assert service.metric("offrails_reads_deferred_total") > 0


def _calls(first: int, count: int, body: bytes) -> bytes:
    """Calls of an export that are begun, and not ended."""
    names = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    block = b"".join(
        b"\0" + b"".join(bytes([len(each)]) + each.encode() for each in pair)
        for pair in names.items()
    )
    frames = []
    for number in range(first, first + 2 * count, 2):
        frames.append(frame(HEADERS, block, END_HEADERS, number))
        if body:
            frames.append(frame(DATA, body, 0, number))
    return b"".join(frames)


@pytest.mark.parametrize("body", [b"", b"\0"])
def test_calls_that_are_opened_and_left(serve: Serve, body: bytes) -> None:
    """All places are asked for by calls without a message, or with one that never comes."""
    service = serve(OFFRAILS_RECEIVER_MAX_INFLIGHT_REQUESTS="1000")
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            connection = stack.enter_context(connect(service.addresses["grpc"]))
            connection.sendall(PREFACE + frame(SETTINGS) + _calls(1, 250, body))
        if body:
            refused = partial(service.metric, "offrails_requests_refused_total")
            eventually(lambda: refused(reason="crowded_out") >= 500)
        assert longest(service) < LONGEST_SECONDS
    if not body:
        assert service.metric("offrails_requests_refused_total") == 0


def test_bodies_that_never_come(serve: Serve) -> None:
    """The same over HTTP/1.1: one request on each of as many connections as are allowed."""
    service = serve(
        OFFRAILS_RECEIVER_MAX_INFLIGHT_REQUESTS="50", OFFRAILS_RECEIVER_MAX_CONNECTIONS="40"
    )
    head = NOTHING.replace(b"Length: 2", b"Length: 9")
    with contextlib.ExitStack() as stack:
        for _ in range(120):
            stack.enter_context(connect(service.addresses["http"])).sendall(head)
        eventually(
            lambda: service.metric("offrails_connections_closed_total", cause="crowded") >= 80
        )
        assert longest(service) < LONGEST_SECONDS
        assert service.metric("offrails_connections", listener="http") <= 40


def test_handshakes_that_never_end(serve: Serve, tmp_path: Path) -> None:
    """Connections in their TLS handshake count, and are closed where there are too many."""
    if not have_openssl():
        pytest.skip("the openssl program makes the certificates")
    signer = authority(tmp_path)
    server = issue(signer, tmp_path, "server")
    service = serve(
        OFFRAILS_RECEIVER_TLS_CERT=str(server.cert),
        OFFRAILS_RECEIVER_TLS_KEY=str(server.key),
        OFFRAILS_RECEIVER_MAX_CONNECTIONS="50",
    )
    target = Target(http=service.addresses["http"], ca=signer.cert)
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(connect(service.addresses["http"]))
        eventually(
            lambda: service.metric("offrails_connections_closed_total", cause="crowded") >= 350
        )
        assert service.metric("offrails_connections", listener="http") == 50
        began = time.monotonic()
        assert target.request(BODY).status == 200
        assert time.monotonic() - began < LONGEST_SECONDS
    open_files = len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))
    assert open_files < 150


def test_idle_connections_end(serve: Serve) -> None:
    """An HTTP/2 connection without requests gets GOAWAY and is closed."""
    service = serve(OFFRAILS_RECEIVER_HEAD_SECONDS="0.5")
    with connect(service.addresses["grpc"]) as connection:
        connection.sendall(PREFACE + frame(SETTINGS))
        while connection.recv(1_000):
            pass
    assert service.metric("offrails_connections", listener="grpc") == 0


def _sessions(service: Service, count: int) -> None:
    """So many sessions of one call."""
    now = str(time.time_ns())
    texts = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "water"}

    def span(number: int) -> dict[str, object]:
        named = {**texts, "gen_ai.conversation.id": f"many-{number}"}
        return {
            "traceId": os.urandom(16).hex(),
            "spanId": os.urandom(8).hex(),
            "name": "execute_tool water",
            "startTimeUnixNano": now,
            "endTimeUnixNano": now,
            "attributes": [
                {"key": key, "value": {"stringValue": text}} for key, text in named.items()
            ],
        }

    spans = [span(number) for number in range(count)]
    body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    assert service.post(json.dumps(body).encode()).status == 200


@pytest.mark.parametrize(
    ("listener", "path"),
    [
        pytest.param("admin", b"/api/v1/sessions", marks=pytest.mark.long),
        pytest.param("admin", b"/api/v1/sessions?agent=nobody", marks=pytest.mark.long),
        ("admin", b"/api/v1/sessions?steps=0&limit=1000"),
        ("metrics", b"/metrics"),
    ],
)
def test_readers_that_do_not_read(serve: Serve, listener: str, path: bytes) -> None:
    """While hundreds of clients do not read their responses, senders, health and a scrape are served."""
    service = serve()
    _sessions(service, 2_000)
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            connection = socket.socket()
            stack.enter_context(connection)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            host, port = service.addresses[listener].rsplit(":", 1)
            connection.connect((host, int(port)))
            connection.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        assert longest(service) < LONGEST_SECONDS
        begun = _cpu_seconds(service)
        time.sleep(1)
        assert _cpu_seconds(service) - begun < 0.5
        assert eventually(lambda: service.get("/metrics", "metrics").status == 200)


def _cpu_seconds(service: Service) -> float:
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


LIMITED = (
    "import os, resource, sys;"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted by the kernel")
def test_few_file_descriptors(serve: Serve) -> None:
    """If senders use up all 64 descriptors, health, metrics and good senders still get answers."""
    service = serve(program=(sys.executable, "-c", LIMITED, *OFFRAILS[1:]))
    (event,) = service.logged("connections_limited")
    assert event["descriptors"] == 64
    assert event["configured"] == 16_384
    assert 4 <= event["each_listener"] < 30
    with contextlib.ExitStack() as stack:
        for name in ("http", "grpc", "http", "grpc"):
            for _ in range(60):
                stack.enter_context(connect(service.addresses[name]))
        assert longest(service) < LONGEST_SECONDS
        for _ in range(3):
            assert service.get("/-/ready", "metrics").status == 200
            assert service.get("/api/v1/sessions", "admin").status == 200
        assert service.metric("offrails_connections_closed_total", cause="crowded") > 100
        assert service.metric("offrails_connections_closed_total", cause="no_descriptor") == 0
        full = service.metric("offrails_connections_capacity", listener="http")
        assert service.metric("offrails_connections", listener="http") <= full
        for _ in range(60):
            stack.enter_context(connect(service.addresses["admin"]))
        assert service.get("/-/healthy", "metrics").status == 200
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64
