"""Floods over HTTP/2, each of another kind: a good client on another connection is served meanwhile."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from collector.receive.grpc.http2.hpack import literal
from tests.conformance.bodies import PROTO_BODY
from tests.conformance.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from tests.conformance.target import TRACES, Target
from tests.end_to_end.service import BUILTIN_ONLY, Service

pytestmark = [BUILTIN_ONLY, pytest.mark.alone]

CONTINUATION: Final = 9
SERVED_SECONDS_MAX: Final = 1.0
FLOOD_SECONDS: Final = 0.6
HOSTILE: Final = 4
SENT_BYTES: Final = 1 << 16
REPEATED: Final = 500
GROWTH_MAX: Final = 150 << 20
"""Resident bytes that all floods together may add."""

Flood = Callable[[], Iterator[bytes]]


def head(path: str = TRACES) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(literal(*map(str.encode, field)) for field in fields.items())


REFUSED: Final = head("/no.such.Service/Export")


def calls(block: Callable[[int], bytes], flags: int = END_STREAM) -> Iterator[bytes]:
    for number in count(1, 2):
        yield frame(HEADERS, block(number), END_HEADERS | flags, number)


def opened(streams: int = 250) -> bytes:
    """Calls that wait for their bodies."""
    numbers = range(1, 2 * streams, 2)
    return b"".join(frame(HEADERS, head(), END_HEADERS, number) for number in numbers)


def again(first: bytes, then: bytes) -> Iterator[bytes]:
    yield first
    while True:
        yield then


def huffman() -> Iterator[bytes]:
    text = b"\xff" + bytes((0x80 | (15_000 - 127) & 0x7F, (15_000 - 127) >> 7)) + bytes(15_000)
    return calls(lambda number: literal(b"x", b"%d" % number) + b"\0\1a" + text)


def indexed() -> Iterator[bytes]:
    return calls(lambda number: literal(b"x", b"%d" % number) + b"\x82" * 1_400)


def expanded() -> Iterator[bytes]:
    kept = b"\x40\1n\x7f\xa1\x1e" + 4_000 * b"v"
    return calls(lambda number: kept + literal(b"x", b"%d" % number) + b"\xbe" * 10_000)


def resized() -> Iterator[bytes]:
    return calls(lambda _: b"\x20\x3f\xe1\x1f" * 4_000 + head())


def answered_and_reset() -> Iterator[bytes]:
    for number in count(1, 2):
        yield frame(HEADERS, REFUSED, END_HEADERS, number)
        yield frame(RST_STREAM, struct.pack(">I", 8), 0, number)


def closed() -> Iterator[bytes]:
    first = frame(HEADERS, REFUSED, END_HEADERS | END_STREAM, 1)
    return again(first, frame(DATA, b"x", 0, 1) * REPEATED)


def tiny() -> Iterator[bytes]:
    first = frame(DATA, b"\0" + struct.pack(">I", 1 << 20), 0, 1)
    return again(opened() + first, frame(DATA, b"xy", 0, 1) * REPEATED)


def windows() -> Iterator[bytes]:
    values = (INITIAL_WINDOW_SIZE + struct.pack(">I", value) for value in range(10_000))
    return again(opened(), frame(SETTINGS, b"".join(values)))


FLOODS: Final[dict[str, Flood]] = {
    "Huffman": huffman,
    "indexed": indexed,
    "expanded": expanded,
    "resized": resized,
    "answered and reset": answered_and_reset,
    "refused": lambda: calls(lambda _: REFUSED, 0),
    "malformed": lambda: calls(lambda _: head() + literal(b"Upper", b"1")),
    "closed": closed,
    "tiny": tiny,
    "windows": windows,
    "settings": lambda: again(b"", frame(SETTINGS) * REPEATED),
    "updates": lambda: again(
        opened(), frame(WINDOW_UPDATE, struct.pack(">I", 1), 0, 0) * REPEATED
    ),
    "priorities": lambda: again(b"", frame(2, bytes(5), 0, 1) * REPEATED),
    "unknown": lambda: again(b"", frame(77) * REPEATED),
    "pings": lambda: again(b"", frame(PING, bytes(8), 1) * REPEATED),
    "continued": lambda: again(
        frame(HEADERS, head(), 0, 1), frame(CONTINUATION, b"", 0, 1) * REPEATED
    ),
    "empty calls": lambda: (
        frame(HEADERS, head(), END_HEADERS, number) + frame(DATA, bytes(5), END_STREAM, number)
        for number in count(1, 2)
    ),
}


def send(address: str, flood: Flood, ends: float) -> None:
    """Floods on one connection after another, and reads what is answered."""
    target = Target(grpc=address)
    while time.monotonic() < ends:
        with contextlib.suppress(OSError), target.open_plain(address) as connection:
            connection.settimeout(0.5)
            threading.Thread(target=_read, args=(connection,), daemon=True).start()
            sent = PREFACE + frame(SETTINGS)
            for piece in flood():
                sent += piece
                if len(sent) >= SENT_BYTES:
                    connection.sendall(sent)
                    sent = b""
                if time.monotonic() >= ends:
                    break


def _read(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while connection.recv(SENT_BYTES):
            pass


def longest_wait(address: str, ends: float) -> float:
    """Seconds that a good client waited for its slowest answer, each time on a new connection."""
    target, longest = Target(grpc=address), 0.0
    body = b"\0" + struct.pack(">I", len(PROTO_BODY)) + PROTO_BODY
    call = frame(HEADERS, head(), END_HEADERS, 1) + frame(DATA, body, END_STREAM, 1)
    while time.monotonic() < ends:
        begun = time.monotonic()
        with target.open_plain(address) as connection:
            connection.sendall(PREFACE + frame(SETTINGS) + call)
            answer = b""
            while b"grpc-status" not in answer:
                answer += connection.recv(SENT_BYTES) or pytest.fail("closed")
        longest = max(longest, time.monotonic() - begun)
        time.sleep(0.02)
    return longest


def resident(service: Service) -> int:
    """Bytes of the process."""
    pages = Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """One service for all floods: none may leave anything behind."""
    running = Service(["--specs", "dfa_specs"]).wait_ready()
    before = resident(running)
    try:
        yield running
        assert resident(running) - before < GROWTH_MAX
        assert running.metric("offrails_http2_errors_total", code="enhance_your_calm") > 0
        assert running.stop() == 0
    finally:
        running.kill()


@pytest.mark.parametrize("flood", FLOODS.values(), ids=list(FLOODS))
def test_a_flood_holds_nobody_up(service: Service, flood: Flood) -> None:
    """Four connections send it as fast as they can; a good client is served within a second."""
    address, ends = service.addresses["grpc"], time.monotonic() + FLOOD_SECONDS
    hostile = [
        threading.Thread(target=send, args=(address, flood, ends)) for _ in range(HOSTILE)
    ]
    for each in hostile:
        each.start()
    waited = longest_wait(address, ends)
    for each in hostile:
        each.join()
    assert waited < SERVED_SECONDS_MAX
