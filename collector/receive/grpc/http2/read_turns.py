"""The receiving half of an HTTP/2 connection: what has come is read in turns.

Idea: a connection may send more than fits a turn of the event loop. It reads for one turn, keeps the
rest, and queues for the next one (`collector.receive.listener.connection_turns`), so that other connections are read in
between.

Invariant: the socket is read only while nothing is left of what came before and the client reads our
answers. So what one client can have us hold is one read of the socket.

Example: 256 KB come at once, and after a turn 100 KB are left. They are kept in `rest`, the socket is
paused, and `_go_on` is queued. When it returns False the socket is read again.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from collector.receive.grpc.http2.keepalive import Keepalive
from collector.receive.grpc.http2.streams import StreamConnection
from collector.receive.listener.connection_turns import Turns
from collector.receive.listener.connections import COPIED_BYTES, Connections, Data, part

__all__ = ["ReadingConnection"]

FEW_WAITING: Final = 16
CROWDED_BYTES: Final = 16 << 10
"""Bytes read from a socket at once while more than `FEW_WAITING` connections wait for their turn:
what is read is held until then."""
THROWN_AWAY_MAX: Final = 4 << 20
"""Bytes that are read and not looked at behind a fault, so that its name arrives."""


class ReadingConnection(StreamConnection):
    """A connection that takes its turn to read.

    Args:
        connections: the listener's connections.
        keepalive: how long it is kept.
        turns: the listener's, too.
    """

    def __init__(self, connections: Connections, keepalive: Keepalive, turns: Turns) -> None:
        super().__init__(connections, keepalive)
        self.rest = b""
        """Received bytes that are not read yet: the beginning of a frame, or more until the next
        turn."""
        self.client_reads = True
        """The client reads what we write."""
        self.thrown_away = -1
        """Bytes that came behind a fault; -1: there was none."""
        self._turns = turns
        self._is_waiting = False
        """True while the connection waits for its next turn: the rest may have more than the
        beginning of a frame."""
        self._is_queued = False
        """True if the turn comes by itself; otherwise the connection also waits for its client."""

    @abstractmethod
    def take_turn(self, data: Data) -> bool:
        """Reads as far as frames are whole and its time goes; true: there is more to read."""

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's
        inbox = self.connections.inbox
        return inbox if len(self._turns) < FEW_WAITING else inbox[:CROWDED_BYTES]

    def data_received(self, data: bytes) -> None:
        if self.is_discarding:
            self._throw_away(len(data))
        else:
            self._receive(data)

    def buffer_updated(self, count: int) -> None:
        if self.is_discarding:
            self._throw_away(count)
        else:
            data = self.connections.inbox[:count]
            self._receive(data.tobytes() if count <= COPIED_BYTES else data)

    def _throw_away(self, count: int) -> None:
        if self.thrown_away >= 0:
            self.thrown_away += count
            if self.thrown_away > THROWN_AWAY_MAX:
                self.end()

    def _receive(self, data: Data) -> None:
        """Takes what has come, unless it is not its turn."""
        self.pings.read_at = self.now()
        if self.rest:
            data = b"".join((self.rest, data))
        if self._is_waiting:  # it was under way when we stopped reading
            self.rest = part(data, 0, len(data))
        elif self.take_turn(data):
            self._is_waiting = True
            self._watch_socket()
            self._queue()

    def _queue(self) -> None:
        self._is_queued = True
        self._turns.wait(self._go_on)

    def _go_on(self) -> bool:
        """Takes its next turn; false: it has read all that had come, or its client does not read."""
        self._is_queued = False
        if not self.client_reads:
            return False
        try:
            self._is_waiting = not self.is_discarding and self.take_turn(self.rest)
        except Exception:
            self.end()  # as a loop does where a protocol fails
            raise
        self._is_queued = self._is_waiting
        self._watch_socket()
        return self._is_waiting

    def pause_writing(self) -> None:
        self.client_reads = False
        self._watch_socket()

    def resume_writing(self) -> None:
        self.client_reads = True
        if self._is_waiting and not self._is_queued:
            self._queue()
        self._watch_socket()

    def _watch_socket(self) -> None:
        """Reads the socket while the client reads ours, and it is not for us to read on first."""
        if self.transport.is_closing():
            return
        if self.client_reads and not self._is_waiting:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()
