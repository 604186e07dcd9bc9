"""HTTP/2 frame by frame: windows, continuations, faults, floods, timeouts and the end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

import pytest

from collector.decode.span import Span
from collector.receive.admission import Admission
from collector.receive.export import Export
from collector.receive.grpc.builtin_server import GrpcReceiver
from collector.receive.grpc.http2.hpack import Decoder, literal
from collector.receive.grpc.http2.keepalive import Keepalive
from collector.receive.listener.connections import ConnectionBounds
from collector.telemetry.counters import Stats
from collector.telemetry.logs import captured
from tests.conformance.bodies import PROTO_BODY, proto_body
from tests.conformance.http2 import PREFACE, frame
from tests.conformance.target import TRACES

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 3, 4, 5, 6, 7, 8, 9,
)  # fmt: skip
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 32
GREETING: Final = PREFACE + frame(SETTINGS)
STREAM_WINDOW: Final = 1 << 20


def head(path: str = TRACES, **others: str) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        "content-type": "application/grpc",
        "te": "trailers",
        **{name.replace("_", "-"): value for name, value in others.items()},
    }
    return b"".join(literal(*map(str.encode, field)) for field in fields.items())


def message(body: bytes) -> bytes:
    return b"\0" + len(body).to_bytes(4, "big") + body


def call(number: int = 1, body: bytes = PROTO_BODY) -> bytes:
    return frame(HEADERS, head(), END_HEADERS, number) + frame(
        DATA, message(body), END_STREAM, number
    )


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


class Peer:
    """A client that writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.decoder: Decoder[dict[bytes, bytes]] = Decoder(dict)

    def write(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))

    async def read(self) -> Frame | None:
        try:
            first = await self.reader.readexactly(9)
            payload = await self.reader.readexactly(int.from_bytes(first[:3], "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Frame(first[3], first[4], int.from_bytes(first[5:], "big"), payload)

    async def next(self, *kinds: int) -> Frame:
        """The next frame of these kinds."""
        while (found := await self.read()) is not None:
            if found.kind in kinds and not (found.kind in (SETTINGS, PING) and found.flags):
                return found
        raise AssertionError("the connection was closed")

    async def status(self) -> str:
        """How the next call ended."""
        while True:
            found = await self.next(HEADERS)
            fields = self.decoder.decode(found.payload)
            if found.flags & END_STREAM:
                return fields[b"grpc-status"].decode()

    async def gone(self) -> int:
        """The code with which the connection was closed."""
        payload = (await self.next(GOAWAY)).payload
        while await self.read() is not None:
            pass
        return int.from_bytes(payload[4:8], "big")


class Served:
    def __init__(self, **options: Any) -> None:
        self.spans = 0
        self.all_taken = asyncio.Event()
        self.stats = Stats()
        export = Export(self._consume, self.stats, itertools.count().__next__)
        self.receiver = GrpcReceiver(export, "127.0.0.1:0", 4 << 20, **options)

    def _consume(self, spans: list[Span], _now_ns: int, _transport: str) -> None:
        self.spans += len(spans)
        if self.spans == 801:
            self.all_taken.set()


@contextlib.asynccontextmanager
async def served(**options: Any) -> AsyncIterator[tuple[Served, Peer]]:
    server = Served(**options)
    host, port = (await server.receiver.start()).rsplit(":", 1)
    peer = Peer(*await asyncio.open_connection(host, int(port)))
    try:
        yield server, peer
    finally:
        peer.writer.close()
        await server.receiver.stop(1)


Run = Callable[[Any], None]


def test_frames_in_any_pieces(run: Run) -> None:
    """Single bytes, padding, priorities, continuations and unknown frames are all read."""

    async def scenario() -> None:
        async with served() as (server, peer):
            block = head()
            padded = b"\3" + b"\0\0\0\0\x10" + block[:20] + b"\0\0\0"
            peer.write(
                GREETING,
                frame(HEADERS, padded, PADDED | PRIORITISED, 1),
                frame(CONTINUATION, block[20:40], 0, 1),
                frame(CONTINUATION, block[40:], END_HEADERS, 1),
                frame(77, b"what is this", 0, 1),
                frame(DATA, b"\2" + message(PROTO_BODY)[:3] + b"\0\0", PADDED, 1),
                frame(DATA, b"", 0, 1),
                frame(DATA, message(PROTO_BODY)[3:], 0, 1),
                frame(DATA, b"", END_STREAM, 1),
            )
            assert await peer.status() == "0"
            for byte in call(3):
                peer.write(bytes((byte,)))
                await peer.writer.drain()
                await asyncio.sleep(0)
            assert await peer.status() == "0"
            assert server.spans == 2

    run(scenario())


def padded(content: bytes, padding: int) -> bytes:
    return bytes((padding,)) + content + bytes(padding)


def test_large_frames_in_any_pieces(run: Run) -> None:
    """As large as we allow, padded or not, however the network cuts them: one message comes of them."""

    async def scenario() -> None:
        async with served() as (server, peer):
            body = message(proto_body(8_000))
            cut = len(body) - 100_000
            assert cut > 16_384
            whole = call(1, proto_body(8_000))
            apart = (
                frame(HEADERS, head(), END_HEADERS, 3)
                + frame(DATA, padded(body[:cut], 200), PADDED, 3)
                + frame(DATA, padded(b"", 9), PADDED, 3)
                + frame(DATA, padded(body[cut:], 0), PADDED | END_STREAM, 3)
                + frame(HEADERS, head(), END_HEADERS, 5)
                + frame(DATA, body, 0, 5)
                + frame(DATA, padded(b"", 0), PADDED | END_STREAM, 5)
            )
            peer.write(GREETING)
            sent = whole + apart
            for size in (7, 1, 9_000, 16_384, 100_001):
                while len(sent) > size:
                    peer.write(sent[:size])
                    await peer.writer.drain()
                    await asyncio.sleep(0)
                    sent = sent[size:]
                    if size < 10:
                        break
            peer.write(sent)
            assert [await peer.status() for _ in range(3)] == ["0", "0", "0"]
            assert server.spans == 3 * 8_000

    run(scenario())


def test_data_of_calls_that_are_over_is_passed_over(run: Run) -> None:
    """Data of ended calls, in any form, is skipped and given back to the connection's window."""

    async def scenario() -> None:
        async with served() as (server, peer):
            refused = frame(HEADERS, head("/no.such.Service/Export"), END_HEADERS, 1)
            rest = frame(DATA, padded(bytes(900_000), 255), PADDED, 1)
            peer.write(GREETING, refused, *[rest] * 20, call(3))
            assert [await peer.status() for _ in range(2)] == ["12", "0"]
            assert server.spans == 1

    run(scenario())


def test_an_answer_waits_for_room(run: Run) -> None:
    """No byte beyond the windows is sent. Trailers need no window and come last."""

    async def scenario() -> None:
        async with served() as (_, peer):
            window = b"\0\4" + number(2)
            peer.write(PREFACE, frame(SETTINGS, window), call())
            assert (await peer.next(DATA)).payload == b"\0\0"
            peer.write(frame(WINDOW_UPDATE, number(1), 0, 1))
            assert (await peer.next(DATA)).payload == b"\0"
            peer.write(frame(SETTINGS, b"\0\4" + number(100)))
            assert (await peer.next(DATA)).payload == b"\0\0"
            assert await peer.status() == "0"

    run(scenario())


def test_a_body_gets_room_as_it_is_read(run: Run) -> None:
    """Both windows are extended before they are used up."""

    async def scenario() -> None:
        async with served() as (server, peer):
            body = message(proto_body(2_500, name="n" * 900))
            assert len(body) > 2 * STREAM_WINDOW
            peer.write(GREETING, frame(HEADERS, head(), END_HEADERS, 1))
            room, at = STREAM_WINDOW, 0
            while at < len(body):
                size = min(room, 16_384, len(body) - at)
                if not size:
                    update = await peer.next(WINDOW_UPDATE)
                    room += int.from_bytes(update.payload, "big") if update.stream else 0
                    continue
                last = END_STREAM if at + size == len(body) else 0
                peer.write(frame(DATA, body[at : at + size], last, 1))
                await peer.writer.drain()
                room, at = room - size, at + size
            assert await peer.status() == "0"
            assert server.spans == 2_500

    run(scenario())


PROTOCOL, FLOW, SIZE, COMPRESSION, CALM = 1, 3, 6, 9, 11


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", PROTOCOL),
        (PREFACE + frame(PING, bytes(8)), PROTOCOL),
        (GREETING + frame(SETTINGS, b"123"), SIZE),
        (GREETING + frame(SETTINGS, b"\0\4\xff\xff\xff\xff"), FLOW),
        (GREETING + b"\xff\xff\xff\0\0\0\0\0\1", SIZE),
        (GREETING + frame(DATA, b"x", 0, 1), PROTOCOL),
        (GREETING + frame(HEADERS, bytes(65_537), 0, 1), SIZE),
        (GREETING + frame(HEADERS, head(), END_HEADERS, 1) + frame(DATA, b"\5abcd", PADDED, 1), PROTOCOL),
        (GREETING + frame(HEADERS, head(), END_HEADERS, 2), PROTOCOL),
        (GREETING + frame(HEADERS, b"\x80", END_HEADERS, 1), COMPRESSION),
        (GREETING + frame(HEADERS, b"\5\0", END_HEADERS | PADDED, 1), PROTOCOL),
        (GREETING + frame(HEADERS, head(), 0, 1) + frame(PING, bytes(8)), PROTOCOL),
        (GREETING + frame(CONTINUATION, b"", 0, 1), PROTOCOL),
        (GREETING + frame(PUSH, b"", 0, 1), PROTOCOL),
        (GREETING + frame(PING, b"short"), SIZE),
        (GREETING + frame(RST_STREAM, number(8), 0, 1), PROTOCOL),
        (GREETING + frame(WINDOW_UPDATE, number(0)), PROTOCOL),
        (GREETING + frame(WINDOW_UPDATE, b"1"), SIZE),
        (GREETING + frame(WINDOW_UPDATE, number(2**31 - 1)), FLOW),
        (GREETING + 8 * frame(PING, bytes(8)), CALM),
        (GREETING + frame(HEADERS, head(), 0, 1) + 9 * frame(CONTINUATION, bytes(9_000), 0, 1), CALM),
        (GREETING + 10_100 * frame(SETTINGS), CALM),
        (GREETING + frame(HEADERS, head(), END_HEADERS, 1) + 10_100 * frame(DATA, b"", 0, 1), CALM),
    ],
)  # fmt: skip
def test_faults_close_the_connection(run: Run, sent: bytes, code: int) -> None:
    """The connection closes with the code of RFC 9113, and nothing is left."""

    async def scenario() -> None:
        admission = Admission()
        async with served(admission=admission) as (server, peer):
            peer.write(sent)
            assert await peer.gone() == code
            assert (admission.requests, admission.bytes) == (0, 0)
            assert server.spans == 0

    run(scenario())


HTTP1 = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"


def test_http1_is_told_what_is_spoken(run: Run) -> None:
    """An HTTP/1 client gets an HTTP/1 error, even byte by byte. It is logged once and counted each time."""

    async def scenario() -> None:
        with captured() as lines:
            for count, pieces in enumerate(([HTTP1], [HTTP1[:1], HTTP1[1:3], HTTP1[3:]]), 1):
                async with served() as (server, peer):
                    for piece in pieces:
                        peer.write(piece)
                        await peer.writer.drain()
                        await asyncio.sleep(0)
                    answer = await peer.reader.read()
                    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
                    assert b"gRPC over HTTP/2 is spoken here" in answer
                    assert server.stats.counts[("foreign_protocol", "http1")] == 1
                    assert len(lines) == count
        assert {line["protocol"] for line in lines} == {"http1"}
        assert all("receiver.http" in str(line["reason"]) for line in lines)

    run(scenario())


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "tls"),
        (b"\x00" * 100, "other"),
        (b"PRI * HTTP/2.0\r\n\r\nXX", "other"),
    ],
)
def test_other_protocols_are_named(run: Run, sent: bytes, name: str) -> None:
    """Another protocol is logged once, counted each time, and answered in HTTP/2."""

    async def scenario() -> None:
        with captured() as lines:
            async with served() as (server, peer):
                host, port = peer.writer.get_extra_info("peername")[:2]
                second = Peer(*await asyncio.open_connection(host, port))
                for each in (peer, second):
                    each.write(sent)
                    assert await each.gone() == PROTOCOL
                second.writer.close()
                assert server.stats.counts[("foreign_protocol", name)] == 2
        assert [line["protocol"] for line in lines] == [name]

    run(scenario())


def test_http2_without_grpc_is_named(run: Run) -> None:
    """As an exporter of HTTP speaks it where TLS agreed on it: 415, counted once a connection."""

    async def scenario() -> None:
        async with served() as (server, peer):
            block = head("/v1/traces", content_type="application/x-protobuf")
            peer.write(GREETING)
            for each in (1, 3):
                peer.write(frame(HEADERS, block, END_HEADERS | END_STREAM, each))
                fields = peer.decoder.decode((await peer.next(HEADERS)).payload)
                assert fields == {b":status": b"415"}
            assert server.stats.counts[("foreign_protocol", "http2")] == 1

    run(scenario())


async def say_more(peer: Peer) -> None:
    while True:
        peer.write(b"more")
        await peer.writer.drain()
        await asyncio.sleep(0)


@pytest.mark.plain
def test_a_foreign_client_that_stays_is_closed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes are read for a limited time. It does not count as a slow sender."""
    monkeypatch.setattr("collector.receive.grpc.http2.connection.LINGER_SECONDS", 0.01)
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)

    async def scenario() -> None:
        with captured():
            await stay()

    async def stay() -> None:
        async with served() as (server, peer):
            peer.write(HTTP1)
            assert await peer.reader.read()
            with pytest.raises(ConnectionError):
                await say_more(peer)
            assert ("connections_closed", "slow") not in server.stats.counts

    run(scenario())


def test_calls_that_are_given_up_are_bounded(run: Run) -> None:
    """Opened and reset at once, again and again: the connection is closed."""

    async def scenario() -> None:
        async with served() as (server, peer):
            peer.write(GREETING)
            for each in range(1, 1_200, 2):
                peer.write(frame(HEADERS, head(), END_HEADERS, each))
                peer.write(frame(RST_STREAM, number(8), 0, each))
            assert await peer.gone() == CALM
            assert server.stats.counts[("unread_messages", "grpc")] <= 502

    run(scenario())


def test_too_many_calls_at_once_are_refused_one_by_one(run: Run) -> None:
    """Calls beyond the bound are refused as retryable; the others are answered."""

    async def scenario() -> None:
        async with served() as (server, peer):
            peer.write(GREETING)
            numbers = range(1, 2 * 257, 2)
            peer.write(*(frame(HEADERS, head(), END_HEADERS, each) for each in numbers))
            refused = await peer.next(RST_STREAM)
            assert (refused.stream, refused.payload) == (numbers[-1], number(7))
            body = message(PROTO_BODY)
            peer.write(*(frame(DATA, body, END_STREAM, each) for each in numbers[:-1]))
            assert {await peer.status() for _ in numbers[:-1]} == {"0"}
            assert server.spans == 256

    run(scenario())


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (head("/no.such.Service/Export"), "12"),
        (head(grpc_encoding="snappy"), "12"),
        (head(), "8"),
    ],
)
def test_a_refusal_does_not_wait_for_the_body(run: Run, block: bytes, status: str) -> None:
    """By its head, or by the length it says; the rest is not wanted, and others are served."""

    async def scenario() -> None:
        async with served() as (_, peer):
            huge = b"\0" + number(1 << 30) + bytes(100)
            peer.write(GREETING, frame(HEADERS, block, END_HEADERS, 1), frame(DATA, huge, 0, 1))
            assert await peer.status() == status
            assert (await peer.next(RST_STREAM)).payload == number(0)
            peer.write(frame(DATA, bytes(100), END_STREAM, 1), call(3))
            assert await peer.status() == "0"

    run(scenario())


@pytest.mark.parametrize(
    "sent",
    [b"", b"\0\0", message(PROTO_BODY)[:-1], message(PROTO_BODY) + b"\0", b"\2\0\0\0\0", b"\1\0\0\0\1x"],
)  # fmt: skip
def test_what_is_not_one_message_is_refused(run: Run, sent: bytes) -> None:
    """No message, half a message, several, or an unknown compression is refused."""

    async def scenario() -> None:
        async with served() as (server, peer):
            peer.write(GREETING, frame(HEADERS, head(), END_HEADERS, 1))
            peer.write(frame(DATA, sent, END_STREAM, 1))
            assert await peer.status() == "3"
            assert server.spans == 0

    run(scenario())


def test_messages_of_a_conversation_come_in_any_pieces(run: Run) -> None:
    """Two in one frame and a half, the other half in the next: each is answered."""

    async def scenario() -> None:
        async with served(reflection=True) as (_, peer):
            method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            asked = message(b"\x3a\x01*") * 3
            peer.write(GREETING, frame(HEADERS, head(method), END_HEADERS, 1))
            peer.write(frame(DATA, asked[:-4], 0, 1))
            await peer.next(HEADERS)
            for _ in range(2):
                assert b"TraceService" in (await peer.next(DATA)).payload
            peer.write(frame(DATA, asked[-4:], END_STREAM, 1))
            assert b"TraceService" in (await peer.next(DATA)).payload
            assert await peer.status() == "0"

    run(scenario())


@pytest.mark.plain
def test_a_client_that_gives_its_answer_no_room_is_closed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response that finds no window is not kept for ever."""
    monkeypatch.setattr("collector.receive.grpc.http2.streams.UNREAD_SECONDS_MAX", 0.01)
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)

    async def scenario() -> None:
        async with served() as (server, peer):
            peer.write(PREFACE, frame(SETTINGS, b"\0\4" + number(0)), call())
            while await peer.read() is not None:
                pass
            assert server.spans == 1

    run(scenario())


def test_a_call_that_is_given_up_while_it_is_judged(run: Run) -> None:
    """A call that is cancelled while it is judged is judged to its end and not answered."""

    async def scenario() -> None:
        async with served() as (server, peer):
            body = message(proto_body(800, name="n" * 900))
            pieces = [body[at : at + 16_384] for at in range(0, len(body), 16_384)]
            peer.write(GREETING, frame(HEADERS, head(), END_HEADERS, 1))
            for piece in pieces[:-1]:
                peer.write(frame(DATA, piece, 0, 1))
                await peer.writer.drain()
            peer.write(
                frame(DATA, pieces[-1], END_STREAM, 1), frame(RST_STREAM, number(8), 0, 1)
            )
            peer.write(call(3))
            answered = await peer.next(HEADERS)
            assert answered.stream == 3
            await server.all_taken.wait()

    run(scenario())


def test_what_is_no_grpc_is_415(run: Run) -> None:
    """A browser's request, say."""

    async def scenario() -> None:
        async with served() as (_, peer):
            block = head(content_type="text/html")
            peer.write(GREETING, frame(HEADERS, block, END_HEADERS | END_STREAM, 1))
            answer = await peer.next(HEADERS)
            assert peer.decoder.decode(answer.payload) == {b":status": b"415"}

    run(scenario())


SOON: Final = 0.3
"""Seconds: a busy machine has read what was sent by then."""


@pytest.mark.plain
@pytest.mark.parametrize(
    ("options", "sent", "is_asked"),
    [
        ({"bounds": ConnectionBounds(head=SOON)}, b"PRI", False),
        ({"keepalive": Keepalive(idle_max=SOON)}, GREETING + call(), True),
        ({"keepalive": Keepalive(age_max=SOON)}, GREETING, True),
        (
            {"keepalive": Keepalive(age_max=SOON, age_grace=SOON)},
            GREETING + frame(HEADERS, head(), END_HEADERS, 1),
            True,
        ),
        ({"keepalive": Keepalive(ping_interval=SOON, ping_timeout=SOON)}, GREETING, False),
    ],
)
def test_connections_end_in_time(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    sent: bytes,
    is_asked: bool,
) -> None:
    """No preface, no calls, age, or a missing ping reply close a connection, with GOAWAY where it helps."""
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)

    async def scenario() -> None:
        async with served(**options) as (_, peer):
            peer.write(sent)
            kinds = []
            while (found := await peer.read()) is not None:
                kinds.append(found.kind)
            assert (GOAWAY in kinds) is is_asked

    run(scenario())


@pytest.mark.plain
def test_a_client_that_answers_pings_stays(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent client that answers pings keeps its connection."""
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)

    async def scenario() -> None:
        keepalive = Keepalive(ping_interval=0.01, ping_timeout=5)
        async with served(keepalive=keepalive) as (_, peer):
            peer.write(GREETING)
            for _ in range(5):
                asked = await peer.next(PING)
                peer.write(frame(PING, asked.payload, ACK))
            peer.write(call())
            assert await peer.status() == "0"

    run(scenario())


LAST: Final = number(2**31 - 1) + number(0)
"""Of the first GOAWAY: no stream is the last one yet."""


async def begun(peer: Peer) -> None:
    """A call has begun, of which the headers alone have come."""
    peer.write(GREETING, frame(HEADERS, head(), END_HEADERS, 1), frame(PING, bytes(8)))
    await peer.next(SETTINGS)
    while (found := await peer.read()) is not None and found.kind != PING:
        pass


def test_the_end_lets_calls_end(run: Run) -> None:
    """Those that began before the client knew are answered, no others; then it may close."""

    async def scenario() -> None:
        async with served() as (server, peer):
            await begun(peer)
            stopping = asyncio.create_task(server.receiver.stop(5))
            assert (await peer.next(GOAWAY)).payload[:8] == LAST
            asked = await peer.next(PING)
            peer.write(call(3))
            assert await peer.status() == "0"
            peer.write(frame(PING, asked.payload, ACK))
            assert (await peer.next(GOAWAY)).payload[:8] == number(3) + number(0)
            peer.write(call(5), frame(DATA, message(PROTO_BODY), END_STREAM, 1))
            assert await peer.status() == "0"
            assert await peer.read() is None
            assert not stopping.done()
            peer.writer.close()
            await stopping
            assert server.spans == 2

    run(scenario())


@pytest.mark.plain
def test_a_client_that_does_not_say_that_it_knows(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while the GOAWAY counts as received: later streams are not answered."""
    monkeypatch.setattr("collector.receive.listener.connections.SWEEP_SECONDS", 0.01)
    monkeypatch.setattr("collector.receive.grpc.http2.lifetime.FAREWELL_SECONDS", 0.05)

    async def scenario() -> None:
        async with served() as (server, peer):
            await begun(peer)
            stopping = asyncio.create_task(server.receiver.stop(5))
            assert (await peer.next(GOAWAY)).payload[:8] == LAST
            assert (await peer.next(GOAWAY)).payload[:8] == number(1) + number(0)
            peer.write(call(3), frame(DATA, message(PROTO_BODY), END_STREAM, 1))
            assert await peer.status() == "0"
            assert await peer.read() is None
            peer.writer.close()
            await stopping
            assert server.spans == 1

    run(scenario())


def test_answers_survive_what_is_not_read(run: Run) -> None:
    """A client that sends on after the last response is not reset, and reads that response."""

    async def scenario() -> None:
        async with served() as (server, peer):
            await begun(peer)
            stopping = asyncio.create_task(server.receiver.stop(5))
            asked = await peer.next(PING)
            last = frame(DATA, message(PROTO_BODY), END_STREAM, 1)
            late = frame(DATA, bytes(16_000), 0, 3) * 100
            ignored = frame(HEADERS, head(), END_HEADERS, 3) + late
            peer.write(frame(PING, asked.payload, ACK), last, ignored)
            await peer.writer.drain()
            for _ in range(20):
                peer.write(late)
                await peer.writer.drain()
            rest = await peer.reader.read()  # a reset would raise here
            assert b"grpc-status" in rest
            peer.writer.close()
            await stopping
            assert server.spans == 1

    run(scenario())


def test_who_has_not_greeted_is_closed_at_once(run: Run) -> None:
    """A connection without a preface is closed without GOAWAY."""

    async def scenario() -> None:
        async with served() as (server, peer):
            peer.write(PREFACE[:10])
            await peer.writer.drain()
            await asyncio.wait_for(server.receiver.stop(5), 0.9)
            assert await peer.read() is None

    run(scenario())
