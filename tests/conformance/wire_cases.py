"""Bytes on the sockets: broken framing, half requests, other protocols, pings."""

from __future__ import annotations

import contextlib
import socket
import time

from tests.conformance.bodies import PROTO_BODY
from tests.conformance.case import case
from tests.conformance.http2 import PREFACE, frame, raw_call
from tests.conformance.http_cases import BOMB_SECONDS, bomb
from tests.conformance.target import Target

SETTINGS, PING, GOAWAY = 4, 6, 7
ACK = 1
MANY = 100


def frames(connection: socket.socket) -> list[tuple[int, int, bytes]]:
    """The type, flags and payload of each received frame, until the connection is closed."""
    with contextlib.suppress(ConnectionResetError):
        return list(_frames(connection))
    return []


def _frames(connection: socket.socket):  # type: ignore[no-untyped-def]
    with connection.makefile("rb") as stream:
        while len(head := stream.read(9)) == 9:
            payload = stream.read(int.from_bytes(head[:3], "big"))
            yield head[3], head[4], payload


def receive(connection: socket.socket) -> bytes:
    """The received bytes, until the connection is closed."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    return received


@case("grpc.ping_acked")
def _(target: Target) -> None:
    with target.open(target.grpc, "h2") as connection:
        connection.sendall(PREFACE + frame(SETTINGS) + frame(PING, b"12345678"))
        for kind, flags, payload in _frames(connection):
            if kind == PING and flags & ACK:
                assert payload == b"12345678"
                return
    raise AssertionError("the connection was closed before the answer")


@case("grpc.too_many_pings_goaway")
def _(target: Target) -> None:
    with target.open(target.grpc, "h2") as connection:
        # In one write: whoever goes away may close before a second one.
        connection.sendall(PREFACE + frame(SETTINGS) + 8 * frame(PING, bytes(8)))
        gone = [payload for kind, _, payload in frames(connection) if kind == GOAWAY]
    assert any(b"too_many_pings" in payload for payload in gone)


GRPC_STATUS_OK = b"grpc-status\x010"


@case("grpc.gigabyte_bomb_refused_in_10_s")
def _(target: Target) -> None:
    packed = bomb()
    begun = time.monotonic()
    assert GRPC_STATUS_OK not in raw_call(target, packed, "gzip")
    assert time.monotonic() - begun < BOMB_SECONDS
    target.call(PROTO_BODY)


@case("grpc.broken_compression_harmless")
def _(target: Target) -> None:
    for message, coding in ((b"no gzip", "gzip"), (bomb()[:500], "gzip"), (b"x", "no-such")):
        assert GRPC_STATUS_OK not in raw_call(target, message, coding)
    target.call(PROTO_BODY)


GARBAGE = {
    "zeros": bytes(500),
    "http1": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "settings_of_wrong_size": PREFACE + frame(SETTINGS, b"123"),
    "frame_over_the_limit": PREFACE + frame(SETTINGS) + b"\xff\xff\xff\0\0\0\0\0\1" + bytes(99),
    "half_a_preface": PREFACE[:9],
    "tls_hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
}
for _name, _bytes in GARBAGE.items():

    @case(f"grpc.{_name}_harmless")
    def _(target: Target, sent: bytes = _bytes) -> None:
        with target.open(target.grpc, "h2") as connection, contextlib.suppress(OSError):
            connection.sendall(sent)
        target.call(PROTO_BODY)


@case("grpc.100_idle_connections")
def _(target: Target) -> None:
    idle = [target.open_plain(target.grpc) for _ in range(MANY)]
    target.call(PROTO_BODY)
    for connection in idle:
        connection.close()


def _first_line(target: Target, *parts: bytes) -> bytes:
    with target.open(target.http) as connection:
        for part in parts:
            connection.sendall(part)
        return receive(connection).split(b"\r\n", 1)[0]


BROKEN = {
    "bad_content_length": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: nine\r\n\r\n",
    "negative_content_length": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "length_and_chunked": b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "http2_preface": PREFACE,
    "tls_hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "nonsense": b"nonsense\r\n\r\n",
    "zeros": bytes(500),
}
for _name, _bytes in BROKEN.items():

    @case(f"http.{_name}_400")
    def _(target: Target, sent: bytes = _bytes) -> None:
        assert _first_line(target, sent).split()[1] == b"400"


@case("http.bad_chunk_400")
def _(target: Target) -> None:
    head = target.head(None, "Transfer-Encoding: chunked")
    assert _first_line(target, head, b"zz\r\n").split()[1] == b"400"


@case("http.2_mib_header_refused")
def _(target: Target) -> None:
    with target.open(target.http) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(target.head(0, "X-Large: " + "a" * (2 << 20)))
        answered = receive(connection)
    assert not answered or answered.split()[1] in {b"400", b"413", b"431"}
    assert target.request(PROTO_BODY).status == 200


@case("http.expect_100_continue")
def _(target: Target) -> None:
    with target.open(target.http) as connection:
        connection.sendall(target.head(len(PROTO_BODY), "Expect: 100-continue"))
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        connection.sendall(PROTO_BODY)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


@case("http.slow_body")
def _(target: Target) -> None:
    with target.open(target.http) as connection:
        connection.sendall(target.head(len(PROTO_BODY)))
        for at in range(len(PROTO_BODY)):
            connection.sendall(PROTO_BODY[at : at + 1])
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


@case("http.100_half_requests_do_not_hold_up_others")
def _(target: Target) -> None:
    waiting = [target.open(target.http) for _ in range(MANY)]
    for connection in waiting:
        connection.sendall(target.head(len(PROTO_BODY)) + PROTO_BODY[:3])
    assert target.request(PROTO_BODY).status == 200
    for connection in waiting:
        connection.sendall(PROTO_BODY[3:])
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        connection.close()


@case("http.100_half_heads_do_not_hold_up_others")
def _(target: Target) -> None:
    waiting = [target.open(target.http) for _ in range(MANY)]
    for connection in waiting:
        connection.sendall(b"POST /v1/tra")
    assert target.request(PROTO_BODY).status == 200
    for connection in waiting:
        connection.close()


@case("http.aborted_bodies_harmless")
def _(target: Target) -> None:
    for _ in range(20):
        with target.open(target.http) as connection:
            connection.sendall(target.head(1000) + b"half")
    assert target.request(PROTO_BODY).status == 200


@case("http.pipelined_requests")
def _(target: Target) -> None:
    one = target.head(len(PROTO_BODY)) + PROTO_BODY
    last = target.head(len(PROTO_BODY), "Connection: close") + PROTO_BODY
    with target.open(target.http) as connection:
        connection.sendall(one + last)
        assert receive(connection).count(b"HTTP/1.1 200") == 2


@case("http.upgrade_to_h2c_is_ignored")
def _(target: Target) -> None:
    """RFC 9110 7.8: a server MAY ignore it, and then answers as if it were not there."""
    lines = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    with target.open(target.http) as connection:
        connection.sendall(target.head(len(PROTO_BODY), *lines) + PROTO_BODY)
        assert connection.recv(1000).startswith((b"HTTP/1.1 200", b"HTTP/1.1 101"))


@case("http.1_0_request")
def _(target: Target) -> None:
    head = target.head(len(PROTO_BODY)).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    assert _first_line(target, head + PROTO_BODY).split()[1] == b"200"
