"""Turns: what one connection sends does not keep the others waiting, however much it is."""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Callable
from typing import Any, Final

import pytest

from collector.receive.export import Export
from collector.receive.grpc.builtin_server import GrpcReceiver
from collector.receive.listener.connection_turns import Turns
from collector.receive.listener.connections import ConnectionBounds, Connections
from collector.telemetry.counters import Stats
from tests.collector.receive.grpc.http2.test_http2 import END_HEADERS, END_STREAM, HEADERS, head
from tests.conformance.http2 import PREFACE, SETTINGS, frame

Run = Callable[[Any], None]

CALLS: Final = 3_000


class Wire(asyncio.Transport):
    """Counts what is answered; after `room` bytes its client does not read."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.written = 0
        self.is_read = True
        self.protocol: Any = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)
        if self.room <= self.written:
            self.protocol.pause_writing()

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Nobody looks."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def connected(room: int) -> tuple[Wire, Any]:
    export = Export(lambda *_: None, Stats(), itertools.count().__next__)
    receiver = GrpcReceiver(export, "127.0.0.1:0")
    wire = Wire(room)
    wire.protocol = receiver.connect(Connections(ConnectionBounds(), Stats()))
    wire.protocol.connection_made(wire)
    return wire, wire.protocol


def refused() -> bytes:
    """Calls that are answered at once."""
    block = head("/no.such.Service/Export")
    numbers = range(1, 2 * CALLS, 2)
    calls = (frame(HEADERS, block, END_HEADERS | END_STREAM, number) for number in numbers)
    return PREFACE + frame(SETTINGS) + b"".join(calls)


async def rounds_until_read(wire: Wire) -> int:
    """How often the loop goes round before the socket is read again."""
    rounds = 0
    while not wire.is_read:
        await asyncio.sleep(0)
        rounds += 1
    return rounds


def test_what_takes_long_is_read_in_turns(run: Run) -> None:
    """Not all at once: the socket is not read meanwhile, and in the end all is answered."""

    async def scenario() -> None:
        wire, connection = connected(1 << 30)
        connection.data_received(refused())
        once = wire.written
        assert not wire.is_read
        assert await rounds_until_read(wire) > 1
        assert wire.written > 2 * once
        connection.connection_lost(None)

    run(scenario())


def test_who_does_not_read_is_not_answered(run: Run) -> None:
    """Only what fits is written. Further requests wait until the client reads."""

    async def scenario() -> None:
        wire, connection = connected(10_000)
        connection.data_received(refused())
        for _ in range(100):
            await asyncio.sleep(0)
        assert wire.written < 11_000
        assert not wire.is_read
        wire.room = 1 << 30
        connection.resume_writing()
        assert await rounds_until_read(wire) >= 1
        assert wire.written > 100_000
        connection.connection_lost(None)

    run(scenario())


def test_a_connection_that_is_gone_has_no_turn(run: Run) -> None:
    """The input of a closed connection is dropped without an error."""

    async def scenario() -> None:
        wire, connection = connected(1 << 30)
        connection.data_received(refused())
        connection.connection_lost(None)
        written = wire.written
        for _ in range(10):
            await asyncio.sleep(0)
        assert wire.written == written

    run(scenario())


def test_less_is_read_while_many_wait(run: Run) -> None:
    """While 16 connections have waiting requests, further ones read 16 KiB at a time, not 256 KiB."""

    async def scenario() -> None:
        export = Export(lambda *_: None, Stats(), itertools.count().__next__)
        receiver = GrpcReceiver(export, "127.0.0.1:0")
        connections = Connections(ConnectionBounds(), Stats())
        sizes = []
        for _ in range(18):
            wire = Wire(1 << 30)
            wire.protocol = receiver.connect(connections)
            wire.protocol.connection_made(wire)
            sizes.append(len(wire.protocol.get_buffer(-1)))
            wire.protocol.data_received(refused())
            assert not wire.is_read
        assert sizes == [256 << 10] * 16 + [16 << 10] * 2
        for connection in list(connections.open):
            connection.connection_lost(None)

    run(scenario())


@pytest.mark.plain
def test_all_that_wait_share_a_round(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections take turns; an error in one does not end the round."""
    monkeypatch.setattr("collector.receive.listener.connection_turns.ROUND_SECONDS", 0.0)

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        turns, seen = Turns(), list[str]()

        def reader(name: str, count: int) -> Callable[[], bool]:
            left = itertools.count(count - 1, -1)

            def go_on() -> bool:
                seen.append(name)
                return next(left) > 0

            return go_on

        def fails() -> bool:
            raise struct.error

        turns.wait(reader("a", 3))
        turns.wait(fails)
        turns.wait(reader("b", 2))
        for _ in range(20):
            await asyncio.sleep(0)
        assert seen == ["a", "b", "a", "b", "a"]

    run(scenario())
