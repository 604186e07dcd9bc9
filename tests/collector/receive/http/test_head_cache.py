"""Heads of requests that come again: recognised, they are answered as if they had been parsed."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import Any

import httptools
import pytest
from httptools import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from collector.decode.span import Span
from collector.receive.admission import Admission
from collector.receive.export import Export
from collector.receive.http.connection import HttpConnection
from collector.receive.http.head_cache import HEAD_BYTES_MAX, KnownHead, known_head
from collector.receive.http.service import HttpApp
from collector.receive.http.turns import TURN_SECONDS
from collector.receive.listener.connections import INBOX_BYTES, ConnectionBounds, Connections
from collector.telemetry.counters import Stats
from tests.conformance.bodies import PROTO_BODY, proto_body

HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: %b\r\nAccept: */*\r\n\r\n"
BODY_BYTES_MAX = 40_000


def _known(head: bytes) -> KnownHead:
    found = known_head(head)
    assert found is not None
    return found


@pytest.mark.parametrize("digits", [b"1", b"0042", b"163804", b"0"])
def test_the_same_head_with_another_length_is_known(digits: bytes) -> None:
    """A head is found in the cache whatever its Content-Length and its body."""
    known = _known(HEAD % b"17")
    head = HEAD % digits
    assert known.read(head) == known.read(head + b"POST") == (int(digits), len(head))


@pytest.mark.parametrize(
    "other",
    [
        b"",
        HEAD,
        HEAD % b"",
        HEAD % b"+5",
        HEAD % b"5 ",
        HEAD % b"1234567890123",
        (HEAD % b"5").replace(b"Host: x", b"Host: y"),
        (HEAD % b"5").replace(b"*/*", b"*/x"),
        (HEAD % b"5")[:-1],
        b"\r\n" + HEAD % b"5",
    ],
)
def test_any_other_head_is_not(other: bytes) -> None:
    """A head that differs by one byte, or is cut, is not found."""
    assert _known(HEAD % b"17").read(other) == (0, 0)


@pytest.mark.parametrize(
    "head",
    [
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        (HEAD % b"5")[:-1],
        HEAD % b"5 ",
        (HEAD % b"5").replace(b"Accept", b"Content-Length"),
        (HEAD % b"5").replace(b"*/*", b"a" * HEAD_BYTES_MAX),
    ],
)
def test_what_has_no_plain_length_is_not_remembered(head: bytes) -> None:
    """Heads without a plain length, incomplete ones and long ones are not cached."""
    assert known_head(head) is None


class _Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _name: str) -> None:
        """Nobody is there."""

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        """The test decides what comes next."""

    def resume_reading(self) -> None:
        """The test decides what comes next."""


class _Client:
    """One connection, without a socket."""

    def __init__(self) -> None:
        self.stats, self.admission, self.wire = Stats(), Admission(), _Wire()
        self.spans = 0
        export = Export(self._consume, self.stats, lambda: 0)
        self.connections = Connections(ConnectionBounds(), self.stats)
        app = HttpApp(export, BODY_BYTES_MAX, admission=self.admission)
        self.connection: HttpConnection = app(self.connections)
        connection: Any = self.connection
        connection.connection_made(self.wire)

    def _consume(self, spans: list[Span], _now: int, _transport: str) -> None:
        self.spans += len(spans)

    def send(self, data: bytes, *, is_read_into: bool) -> None:
        """As loops of either kind hand it over."""
        if is_read_into:
            for at in range(0, len(data), INBOX_BYTES):
                piece = data[at : at + INBOX_BYTES]
                self.connection.get_buffer(-1)[: len(piece)] = piece
                self.connection.buffer_updated(len(piece))
        else:
            self.connection.data_received(data)

    async def settled(self) -> None:
        """Runs what was deferred to later turns of the loop."""
        await asyncio.sleep(0)
        known: Any = self.connection
        while known._unread or known._is_yielding or known._is_turn_due:  # noqa: ASYNC110, SLF001 - nothing else tells that all turns are over
            await asyncio.sleep(0)

    def outcome(self) -> tuple[object, ...]:
        """All that can be observed of the connection."""
        self.connection.connection_lost(None)
        assert (self.admission.requests, self.admission.bytes) == (0, 0)
        requests = dict(self.stats.requests)
        return self.wire.written, self.wire.closed, self.spans, requests, self.stats.bytes


PATHS = [b"/v1/traces", b"/v1/traces", b"/v1/metrics", b"/nowhere", b"/v1/%74races"]
LINES = [
    b"",
    b"Content-Type: application/x-protobuf\r\n",
    b"Content-Type: application/x-protobuf\r\n",
    b"Content-Type: application/json\r\n",
    b"Content-Type: application/x-protobuf\r\nConnection: close\r\n",
    b"Content-Type: application/x-protobuf\r\nExpect: 100-continue\r\n",
    b"Content-Type: application/x-protobuf\r\nConnection: upgrade\r\nUpgrade: h2c\r\n",
]
BODIES = [PROTO_BODY, proto_body(3), proto_body(300), b"", b"{}", b"\xff", bytes(50_000)]


NAMES = [b"Content-Length: ", b"content-length:"]
REQUESTS = st.tuples(
    *(st.sampled_from(range(len(each))) for each in (PATHS, LINES, BODIES, NAMES))
)


def _request(path: int, lines: int, body: int, name: int) -> bytes:
    head = b"POST %b HTTP/1.1\r\nHost: x\r\n%b%b%d\r\n\r\n"
    sent = BODIES[body]
    return head % (PATHS[path], LINES[lines], NAMES[name], len(sent)) + sent


ARRIVALS = {
    "requests": st.lists(REQUESTS, max_size=5),
    "again": st.integers(1, 3),
    "cuts": st.lists(st.integers(0, 120_000), max_size=4),
}


@given(**ARRIVALS)
def test_known_heads_change_nothing(
    requests: list[tuple[int, ...]], again: int, cuts: list[int]
) -> None:
    """Cached heads, cut heads and heads never seen before give the same responses."""
    check_ways(requests, again, cuts)


@pytest.mark.plain
@given(seed=st.integers(0, 100), **ARRIVALS)
def test_turns_that_end_anywhere_change_nothing(
    seed: int, requests: list[tuple[int, ...]], again: int, cuts: list[int]
) -> None:
    """The same on a machine that is so slow that a connection's turn may end after each step."""
    chance, late = random.Random(seed), 0.0

    def slow() -> float:
        nonlocal late
        late += TURN_SECONDS * chance.randint(0, 1)
        return time.perf_counter() + late

    with pytest.MonkeyPatch.context() as patch:
        for module in ("connection", "turns"):
            patch.setattr(f"collector.receive.http.{module}.perf_counter", slow)
        check_ways(requests, again, cuts)


def check_ways(requests: list[tuple[int, ...]], again: int, cuts: list[int]) -> None:
    """The same requests in all ways in which they may arrive."""

    async def scenario() -> None:
        sent = [_request(*each) for each in requests for _ in range(again)]
        whole = b"".join(sent)
        cut = sorted({0, *(each for each in cuts if each < len(whole)), len(whole)})
        pieces = [whole[begin:end] for begin, end in itertools.pairwise(cut)]
        heads = [part for each in sent for part in (each[:20], each[20:])]
        ways = [(heads, False), (sent, False), (sent, True), (pieces, False), (pieces, True)]
        outcomes = []
        for parts, is_read_into in ways:
            client = _Client()
            for each in parts:
                client.send(each, is_read_into=is_read_into)
                await client.settled()
            outcomes.append(client.outcome())
        assert [each == outcomes[0] for each in outcomes] == [True] * len(ways)

    asyncio.run(scenario())


@pytest.mark.plain
def test_a_known_head_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser reads only the first of several equal heads."""
    monkeypatch.setattr("collector.receive.http.turns.TURN_SECONDS", 60.0)

    async def scenario() -> None:
        fed: list[int] = []

        class Parser(HttpRequestParser):
            def feed_data(self, data: Any) -> None:
                fed.append(len(data))
                super().feed_data(data)

        monkeypatch.setattr(httptools, "HttpRequestParser", Parser)
        client = _Client()
        head = HEAD.replace(b"Accept: */*", b"Content-Type: application/x-protobuf")
        requests = [head % b"%d" % len(body) + body for body in (PROTO_BODY, proto_body(300))]

        for _ in range(2):
            for request in requests:
                client.send(request, is_read_into=True)
        client.send(requests[1][:2_000], is_read_into=True)
        client.send(requests[1][2_000:] + requests[0], is_read_into=True)
        assert client.spans == 3 * 301
        assert fed == [len(requests[0]), len(requests[0])]
        client.outcome()

    asyncio.run(scenario())


def test_an_answer_to_a_client_that_is_gone_touches_its_connection_no_more() -> None:
    """The client stopped reading and left: pausing its closed connection would be an error."""

    async def scenario() -> list[bool]:
        client = _Client()
        client.send(HEAD % b"5", is_read_into=False)
        connection: Any = client.connection
        exchange = connection._front  # noqa: SLF001 - its answer is sent in place of the application
        exchange.is_whole = True
        connection.pause_writing()
        connection.connection_lost(None)
        paused: list[bool] = []
        client.wire.pause_reading = lambda: paused.append(True)  # type: ignore[method-assign]
        connection.answered(exchange)
        assert exchange.is_answered
        return paused

    assert asyncio.run(scenario()) == []
