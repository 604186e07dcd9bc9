"""The rules of RFC 9113: faults of a stream, faults of a connection, and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.receive.admission import Admission
from collector.receive.grpc.http2.frame_budget import (
    CALL_FRAMES,
    FRAMES_MAX,
    FRAMES_PER_SECOND,
    FrameBudget,
)
from collector.receive.grpc.http2.header_fields import Section
from collector.receive.grpc.http2.hpack import literal
from tests.collector.receive.grpc.http2.test_http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    GREETING,
    HEADERS,
    PADDED,
    PING,
    PRIORITISED,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    call,
    head,
    message,
    number,
    served,
)
from tests.collector.receive.listener.test_connection_turns import connected, rounds_until_read
from tests.conformance.bodies import PROTO_BODY
from tests.conformance.http2 import PREFACE, frame
from tests.conformance.target import TRACES

Run = Callable[[Any], None]

PRIORITY: Final = 2
PROTOCOL, FLOW, CLOSED, SIZE, REFUSED, COMPRESSION, CALM = 1, 3, 5, 6, 7, 9, 11
NAMES: Final = {
    PROTOCOL: "protocol_error",
    FLOW: "flow_control_error",
    CLOSED: "stream_closed",
    SIZE: "frame_size_error",
    REFUSED: "refused_stream",
    COMPRESSION: "compression_error",
    CALM: "enhance_your_calm",
}
BODY: Final = message(PROTO_BODY)
REQUEST: Final = {
    ":method": "POST",
    ":scheme": "http",
    ":path": TRACES,
    "content-type": "application/grpc",
    "te": "trailers",
}


def block(*fields: tuple[str, str]) -> bytes:
    return b"".join(literal(name.encode(), value.encode("latin-1")) for name, value in fields)


def without(name: str) -> bytes:
    return block(*(field for field in REQUEST.items() if field[0] != name))


def with_(*fields: tuple[str, str]) -> bytes:
    """The request, its pseudo-headers first, and these fields at its end."""
    return block(*REQUEST.items(), *fields)


def begin(fields: bytes = b"", flags: int = 0, stream: int = 1) -> bytes:
    return frame(HEADERS, fields or head(), END_HEADERS | flags, stream)


SETTING: Final = {"push": 2, "window": 4, "frame": 5, "connect": 8, "priorities": 9}


def setting(name: str, value: int) -> bytes:
    return SETTING[name].to_bytes(2, "big") + number(value)


MALFORMED: Final = {
    "no method": without(":method"),
    "no scheme": without(":scheme"),
    "no path": without(":path"),
    "empty path": block((":path", ""), *((n, v) for n, v in REQUEST.items() if n != ":path")),
    "relative path": block((":path", "x"), *((n, v) for n, v in REQUEST.items() if n != ":path")),
    "two methods": block((":method", "POST"), *REQUEST.items()),
    "two schemes": block((":scheme", "http"), *REQUEST.items()),
    "two paths": block((":path", TRACES), *REQUEST.items()),
    "two authorities": block((":authority", "a"), (":authority", "a"), *REQUEST.items()),
    "an unknown pseudo-header": block((":test", "x"), *REQUEST.items()),
    "one of answers": block((":status", "200"), *REQUEST.items()),
    "one behind a field": with_((":authority", "a")),
    "an upper-case name": with_(("X-Test", "1")),
    "a name with a space": with_(("x test", "1")),
    "an empty name": with_(("", "1")),
    "a name beyond ASCII": block(*REQUEST.items()) + literal(b"x\xe9", b"1"),
    "a colon in a name": with_(("x:y", "1")),
    "a line break in a value": with_(("x", "1\r\ny: 2")),
    "a NUL in a value": with_(("x", "1\0")),
    "a space before a value": with_(("x", " 1")),
    "a tab behind a value": with_(("x", "1\t")),
    "connection": with_(("connection", "close")),
    "keep-alive": with_(("keep-alive", "x")),
    "proxy-connection": with_(("proxy-connection", "x")),
    "transfer-encoding": with_(("transfer-encoding", "chunked")),
    "upgrade": with_(("upgrade", "h2c")),
    "te": with_(("te", "gzip")),
    "a length that is no number": with_(("content-length", "-1")),
    "two lengths": with_(("content-length", "1"), ("content-length", "2")),
    "a CONNECT with a path": block((":method", "CONNECT"), (":path", "/"), (":authority", "a")),
    "a CONNECT to nobody": block((":method", "CONNECT")),
}  # fmt: skip


@pytest.mark.parametrize("fields", MALFORMED.values(), ids=list(MALFORMED))
def test_a_malformed_request_is_reset(run: Run, fields: bytes) -> None:
    """PROTOCOL_ERROR of its stream alone, whether or not it has a body; others are answered."""

    async def scenario() -> None:
        admission = Admission()
        async with served(admission=admission) as (server, peer):
            peer.write(GREETING)
            for stream, flags in ((1, 0), (3, END_STREAM)):
                peer.write(begin(fields, flags, stream))
                reset = await peer.next(RST_STREAM, HEADERS, GOAWAY)
                assert reset == (RST_STREAM, 0, stream, number(PROTOCOL))
            peer.write(frame(DATA, b"under way", 0, 1), call(5))
            assert await peer.status() == "0"
            assert server.spans == 1
            assert (admission.requests, admission.bytes) == (0, 0)
            assert server.stats.counts["http2_errors", "stream", "protocol_error"] == 2

    run(scenario())


HALF: Final = begin() + frame(DATA, BODY[:9], 0, 1)
OVER: Final = begin(head("/no.such.Service/Export"), END_STREAM)
GIVEN_UP: Final = begin() + frame(RST_STREAM, number(8), 0, 1)
NO_GRPC: Final = begin(with_(("content-length", "4")).replace(b"grpc", b"json"))
UNREAD: Final = frame(SETTINGS, setting("window", 0)) + call()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (HALF + begin(block(("x", "1"))), PROTOCOL),
        (HALF + begin(block((":path", "/")), END_STREAM), PROTOCOL),
        (HALF + begin(block(("Upper", "1")), END_STREAM), PROTOCOL),
        (HALF + begin(block(("connection", "close")), END_STREAM), PROTOCOL),
        (begin(with_(("content-length", str(len(BODY) - 1)))) + frame(DATA, BODY, END_STREAM, 1), PROTOCOL),
        (begin(with_(("content-length", str(len(BODY) + 1)))) + frame(DATA, BODY, END_STREAM, 1), PROTOCOL),
        (begin(with_(("content-length", "5"))) + frame(DATA, b"\0\0\0", 0, 1) + frame(DATA, b"\0\0\0", 0, 1), PROTOCOL),
        (begin(with_(("content-length", "5")), END_STREAM), PROTOCOL),
        (begin(with_(("content-length", "5"))) + begin(block(("x", "1")), END_STREAM), PROTOCOL),
        (NO_GRPC + frame(DATA, b"12345", END_STREAM, 1), PROTOCOL),
        (NO_GRPC + frame(DATA, b"1", 0, 1) + begin(block((":path", "/")), END_STREAM), PROTOCOL),
        (OVER + frame(DATA, b"x", 0, 1), CLOSED),
        (OVER + frame(DATA, b"x", END_STREAM, 1), CLOSED),
        (GIVEN_UP + frame(DATA, b"x", 0, 1), CLOSED),
        (begin(stream=3, flags=END_STREAM) + frame(DATA, b"x", 0, 1), CLOSED),
        (UNREAD + frame(DATA, b"x", 0, 1), CLOSED),
        (UNREAD + begin(block(("x", "1")), END_STREAM), CLOSED),
        (HALF + frame(WINDOW_UPDATE, number(2**31 - 1), 0, 1), FLOW),
        (HALF + frame(WINDOW_UPDATE, number(0), 0, 1), PROTOCOL),
        (HALF + frame(PRIORITY, number(1) + b"\1", 0, 1), PROTOCOL),
        (HALF + frame(PRIORITY, b"1234", 0, 1), SIZE),
    ],
)  # fmt: skip
def test_a_fault_of_a_stream(run: Run, sent: bytes, code: int) -> None:
    """The fault resets its stream and is counted; the connection goes on."""

    async def scenario() -> None:
        async with served() as (server, peer):
            peer.write(GREETING, sent)
            while (reset := await peer.next(RST_STREAM, GOAWAY)).payload == number(0):
                pass
            assert (reset.kind, reset.stream, reset.payload) == (RST_STREAM, 1, number(code))
            assert server.stats.counts["http2_errors", "stream", NAMES[code]] == 1
            peer.write(frame(SETTINGS, setting("window", 65_535)), call(7))
            while (answer := await peer.next(HEADERS)).stream != 7:
                peer.decoder.decode(answer.payload)

    run(scenario())


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(DATA, b"x", 0, 0), PROTOCOL),
        (frame(DATA, b"x", 0, 2), PROTOCOL),
        (frame(HEADERS, head(), END_HEADERS, 0), PROTOCOL),
        (frame(HEADERS, b"123", END_HEADERS | PRIORITISED, 1), SIZE),
        (frame(HEADERS, number(1) + b"\1" + head(), END_HEADERS | PRIORITISED, 1), PROTOCOL),
        (frame(HEADERS, b"", END_HEADERS | PADDED, 1), PROTOCOL),
        (frame(HEADERS, bytes(16_385), END_HEADERS, 1), SIZE),
        (HALF + frame(DATA, b"", PADDED, 1), SIZE),
        (HALF + frame(DATA, b"\1", PADDED, 1), PROTOCOL),
        (OVER + begin(head(), END_STREAM), CLOSED),
        (GIVEN_UP + begin(head(), END_STREAM), CLOSED),
        (begin(stream=5) + begin(stream=3), PROTOCOL),
        (frame(PRIORITY, bytes(5), 0, 0), PROTOCOL),
        (frame(PRIORITY, bytes(4), 0, 1), SIZE),
        (frame(PRIORITY, number(1) + b"\1", 0, 1), PROTOCOL),
        (frame(RST_STREAM, number(8), 0, 0), PROTOCOL),
        (frame(RST_STREAM, number(8), 0, 2), PROTOCOL),
        (HALF + frame(RST_STREAM, b"123", 0, 1), SIZE),
        (frame(SETTINGS, b"", 0, 1), PROTOCOL),
        (frame(SETTINGS, bytes(6), ACK, 0), SIZE),
        (frame(SETTINGS, setting("push", 2)), PROTOCOL),
        (frame(SETTINGS, setting("connect", 2)), PROTOCOL),
        (frame(SETTINGS, setting("priorities", 2)), PROTOCOL),
        (frame(SETTINGS, setting("window", 2**31)), FLOW),
        (frame(SETTINGS, setting("window", 2**31) + setting("window", 9)), FLOW),
        (frame(SETTINGS, setting("frame", 16_383)), PROTOCOL),
        (frame(SETTINGS, setting("frame", 2**24)), PROTOCOL),
        (HALF + frame(WINDOW_UPDATE, number(2**31 - 65_536), 0, 1) + frame(SETTINGS, setting("window", 65_536)), FLOW),
        (frame(PING, bytes(8), 0, 1), PROTOCOL),
        (frame(PING, bytes(9)), SIZE),
        (frame(GOAWAY, bytes(8), 0, 1), PROTOCOL),
        (frame(GOAWAY, bytes(7)), SIZE),
        (frame(WINDOW_UPDATE, number(1), 0, 1), PROTOCOL),
        (frame(WINDOW_UPDATE, number(1), 0, 2), PROTOCOL),
        (frame(CONTINUATION, head(), END_HEADERS, 0), PROTOCOL),
        (call() + frame(CONTINUATION, head(), END_HEADERS, 1), PROTOCOL),
        (frame(HEADERS, head(), 0, 1) + frame(CONTINUATION, b"", END_HEADERS, 3), PROTOCOL),
        (frame(HEADERS, head(), 0, 1) + frame(77, b"", 0, 1), PROTOCOL),
        (begin(b"\x20\x3f\xe1\x1f\x20" + head()), COMPRESSION),
        (begin(b"\x40\1n\x7f\xa1\x1e" + 4_000 * b"v" + 1_000 * b"\xbe"), CALM),
    ],
)  # fmt: skip
def test_a_fault_of_the_connection(run: Run, sent: bytes, code: int) -> None:
    """The fault is named and counted, and open calls are dropped."""

    async def scenario() -> None:
        admission = Admission()
        async with served(admission=admission) as (server, peer):
            peer.write(GREETING, sent)
            assert await peer.gone() == code
            assert server.stats.counts["http2_errors", "connection", NAMES[code]] == 1
            assert (admission.requests, admission.bytes) == (0, 0)

    run(scenario())


PASSED_OVER: Final = [
    frame(PRIORITY, number(0) + b"\1", 0, 1),
    frame(PRIORITY, number(3) + b"\1", 0, 9),
    frame(GOAWAY, bytes(8)),
    frame(77, b"unknown", 0xFF, 12),
    frame(SETTINGS, (0x99).to_bytes(2, "big") + number(2**32 - 1)),
    frame(SETTINGS, b"", ACK),
    frame(SETTINGS, setting("push", 0) + setting("frame", 2**24 - 1)),
    frame(WINDOW_UPDATE, number(5)),
    frame(PING, bytes(8), ACK),
    OVER + frame(WINDOW_UPDATE, number(1), 0, 1) + frame(RST_STREAM, number(8), 0, 1),
    OVER + frame(PRIORITY, number(0) + b"\1", 0, 1),
    begin(b"\x20\x3f\xe1\x1f" + head(), END_STREAM),
    begin(with_(("x", "a b\tc"), ("y", ""), ("content-length", "0"), ("content-length", "0")), END_STREAM),
]  # fmt: skip


@pytest.mark.parametrize("sent", PASSED_OVER)
def test_what_is_no_fault(run: Run, sent: bytes) -> None:
    """Is passed over, or answered: nothing is reset, and the next call is answered."""

    async def scenario() -> None:
        async with served() as (server, peer):
            peer.write(GREETING, sent, call(11))
            while (found := await peer.next(HEADERS, RST_STREAM, GOAWAY)).stream != 11:
                assert found.kind == HEADERS
            assert not [key for key in server.stats.counts if key[0] == "http2_errors"]

    run(scenario())


def test_what_was_under_way_is_no_fault(run: Run) -> None:
    """Data, trailers and a reset on a stream that we ended are no faults until the client ends it, too."""

    async def scenario() -> None:
        async with served() as (server, peer):
            peer.write(GREETING, begin(head("/no.such.Service/Export")))
            assert (await peer.next(RST_STREAM)).payload == number(0)
            peer.write(frame(DATA, b"x", 0, 1), begin(block(("x", "1")), END_STREAM), call(3))
            assert await peer.status() == "0"
            peer.write(frame(DATA, b"x", 0, 1))
            assert (await peer.next(RST_STREAM)).payload == number(CLOSED)
            assert server.stats.counts["http2_errors", "stream", "stream_closed"] == 1

    run(scenario())


def test_trailers_end_a_request(run: Run) -> None:
    """Fields behind the body, as RFC 9113 8.1 has them."""

    async def scenario() -> None:
        async with served() as (server, peer):
            body = begin(with_(("content-length", str(len(BODY))))) + frame(DATA, BODY, 0, 1)
            peer.write(GREETING, body, begin(block(("x-checksum", "1")), END_STREAM))
            assert await peer.status() == "0"
            assert server.spans == 1

    run(scenario())


def test_a_window_of_a_stream_is_kept_to(run: Run) -> None:
    """After the response, a stream's window no longer grows. Data beyond it resets the stream."""

    async def scenario() -> None:
        async with served() as (_, peer):
            peer.write(PREFACE, frame(SETTINGS, setting("window", 0)))
            peer.write(begin(head("/x").replace(b"grpc", b"json")))
            peer.write(frame(DATA, bytes(900_000), 0, 1), frame(DATA, bytes(200_000), 0, 1))
            reset = await peer.next(RST_STREAM)
            assert (reset.stream, reset.payload) == (1, number(FLOW))

    run(scenario())


def test_what_is_no_grpc_is_told_within_its_window(run: Run) -> None:
    """A sentence with 415, as the client gives it room, byte by byte."""

    async def scenario() -> None:
        async with served() as (_, peer):
            peer.write(PREFACE, frame(SETTINGS, setting("window", 0)))
            peer.write(begin(head("/x", content_type="text/html"), END_STREAM))
            assert peer.decoder.decode((await peer.next(HEADERS)).payload) == {
                b":status": b"415"
            }
            text = b""
            while True:
                peer.write(frame(SETTINGS, setting("window", len(text) + 7)))
                found = await peer.next(DATA)
                assert len(found.payload) <= 7
                text += found.payload
                if found.flags & END_STREAM:
                    break
            assert b"4318" in text

    run(scenario())


def test_a_window_may_be_negative(run: Run) -> None:
    """A smaller window counts for data already sent: nothing is sent until there is room."""

    async def scenario() -> None:
        async with served() as (_, peer):
            peer.write(PREFACE, frame(SETTINGS, setting("window", 3)), call())
            assert len((await peer.next(DATA)).payload) == 3
            peer.write(frame(SETTINGS, setting("window", 9) + setting("window", 2)))
            peer.write(frame(WINDOW_UPDATE, number(1), 0, 1), frame(PING, bytes(8)))
            assert (await _ping_or_data(peer)) == PING
            peer.write(frame(WINDOW_UPDATE, number(1), 0, 1))
            assert len((await peer.next(DATA)).payload) == 1

    run(scenario())


async def _ping_or_data(peer: Peer) -> int:
    while (found := await peer.read()) is not None and found.kind not in (DATA, PING):
        pass
    assert found is not None
    return found.kind


def test_the_last_value_of_a_setting_counts() -> None:
    """Of thousands in one frame, the last is applied, once."""
    from collector.receive.grpc.http2.frames import settings_of

    payload = b"".join(setting("window", value) for value in range(10_000))
    assert settings_of(payload) == {4: 9_999}


@given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=9))
def test_any_fields_are_a_request_or_not(fields: list[tuple[bytes, bytes]]) -> None:
    """Any list of fields is classified without an error. A request's fields are never trailers."""
    section = Section(fields)
    assert section.request_fault or section.trailers_fault


def test_a_budget_of_frames() -> None:
    """It is used up, comes back with time and with calls, and is never more than full."""
    budget = FrameBudget(0.0)
    budget.earn(CALL_FRAMES)
    assert budget.spend(FRAMES_MAX, 0.0)
    assert not budget.spend(1, 0.0)
    later = 10.0
    assert budget.spend(int(later * FRAMES_PER_SECOND) - 1, later)
    assert not budget.spend(1, later)
    budget.earn(CALL_FRAMES)
    assert budget.spend(CALL_FRAMES - 1, later)
    assert budget.spend(1, later + 1e9)


def test_tiny_pieces_are_joined(run: Run) -> None:
    """A message in thousands of frames of a byte is held as its bytes, not as thousands of objects."""

    async def scenario() -> None:
        wire, connection = connected(1 << 30)
        first = frame(DATA, b"\0" + number(1 << 20), 0, 1)
        connection.data_received(GREETING + begin() + first)
        for _ in range(3_000):
            connection.data_received(frame(DATA, b"x", 0, 1))
        await rounds_until_read(wire)
        (stream,) = connection.streams.values()
        assert sum(map(len, stream._pieces)) == 3_000  # noqa: SLF001 - how a message is held shows nowhere else
        assert len(stream._pieces) <= 2  # noqa: SLF001 - how a message is held shows nowhere else
        connection.connection_lost(None)

    run(scenario())
