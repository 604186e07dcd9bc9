"""Streams of HTTP/2 and the sending half of their connection: answers, windows, what waits for room.

Flow control (RFC 9113 5.2): a frame of data may be sent only while both windows, the connection's and
the stream's, have room for it. Other frames are not counted.

Invariant: the data of a stream is sent in its order. While some of it waits, all that follows waits
behind it, trailers included; a stream ends when all of its answer is written.

Example: an answer of 30,000 bytes, with room for 20,000 in both windows. `GrpcStream.send` writes the
headers, then frames of 16,384 and 3,616 bytes; 10,000 bytes wait. A WINDOW_UPDATE of the stream alone
changes nothing. One of the connection, too, sends the rest and the trailers.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, Final

from collector.receive.grpc.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    HEAD_BYTES,
    HEADERS,
    NO_ERROR,
    NUMBER_BYTES,
    PROTOCOL_ERROR,
    WINDOW_MAX,
    ConnectionFault,
    frame,
    number_of,
)
from collector.receive.grpc.http2.keepalive import Keepalive, Pings
from collector.receive.grpc.http2.lifetime import Lifetime
from collector.receive.listener.connections import NEVER, ConnectionBase, Connections, Data

__all__ = ["STREAM_WINDOW", "USUAL_WINDOW", "FixedAnswer", "GrpcStream", "StreamConnection"]

ANSWER_BYTES_MAX: Final = 16_384
"""Bytes of a payload of ours: every client must accept so many."""
STREAM_WINDOW: Final = 1 << 20
"""Bytes in flight of a body that we do not read yet."""
USUAL_WINDOW: Final = 65_535
"""Window of the connection and of each stream, until the client changes it."""
UNREAD_SECONDS_MAX: Final = 60.0
"""Time in which an answer waits for room in the client's window; then the connection is closed."""
UNREAD_BYTES_MAX: Final = 1 << 20
"""Bytes of one answer that wait for room there; then the call is given up."""


class FixedAnswer:
    """An answer that is always the same, but for the number of its stream.

    Args:
        head: a header block.
        data: of the body; less than any window that is not used up.
        trailers: a header block.
    """

    def __init__(self, head: bytes, data: bytes, trailers: bytes) -> None:
        self.head = head
        self.data = data
        self.trailers = trailers
        begun = frame(HEADERS, END_HEADERS, 0, head)
        body = frame(DATA, 0, 0, data)
        last = frame(HEADERS, END_HEADERS | END_STREAM, 0, trailers)
        at = HEAD_BYTES - NUMBER_BYTES
        self._first = begun[:at]
        self._second = begun[HEAD_BYTES:] + body[:at]
        self._third = body[HEAD_BYTES:] + last[:at]
        self._fourth = last[HEAD_BYTES:]

    def frames(self, number: int) -> bytes:
        """Its frames, as an answer of that stream."""
        of = number_of(number)
        return b"".join([self._first, of, self._second, of, self._third, of, self._fourth])


class GrpcStream(ABC):
    """One request and its answer."""

    deadline = NEVER
    """When its body has taken too long, on the loop's clock."""
    is_whole = False
    """True once all of the request has arrived."""
    is_begun = False
    """True once some of the answer has been sent."""
    is_ended = False
    """True once all of the answer is known; some may wait for room."""
    has_body = False
    """True once some of the body has arrived."""
    left = -1
    """Bytes of the body that are still to come, where the request has a content-length; -1: it has none."""

    def __init__(self, connection: StreamConnection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.room = STREAM_WINDOW
        """Bytes that may still come, before the client must wait for us."""
        self.window = connection.stream_window
        """Bytes that may still go."""
        self.waiting = b""
        """Frames' content that does not fit the window."""
        self.trailers = b""

    @abstractmethod
    def begin(self, head: Any) -> None:
        """The headers have come."""

    @abstractmethod
    def piece(self, data: Data, at: int, end: int) -> None:
        """Some of the body, from `at` to `end` of what has come; not called once it is answered."""

    @abstractmethod
    def complete(self) -> None:
        """The body has ended; not called once it is answered."""

    @abstractmethod
    def lost(self) -> None:
        """The client does not wait any more."""

    @abstractmethod
    def late(self) -> None:
        """The body has taken too long."""

    def send(
        self, head: bytes, data: bytes, trailers: bytes = b"", *, is_last: bool = False
    ) -> None:
        """Answers, or goes on answering.

        Args:
            head: a header block, with the first piece.
            data: some of the body.
            trailers: a header block, with the last piece.
            is_last: nothing follows, though there are no trailers.
        """
        connection = self.connection
        if self.number not in connection.streams:
            return  # nobody waits for it any more
        self.is_begun = True
        self.is_ended = is_last or bool(trailers)
        self.trailers = trailers
        begun = frame(HEADERS, END_HEADERS, self.number, head) if head else b""
        if data and (self.waiting or len(data) > connection.room_for(self)):
            connection.write(begun)
            self.waiting += data
            if len(self.waiting) > UNREAD_BYTES_MAX:
                connection.reset(self.number, ENHANCE_YOUR_CALM)
                return
            self.deadline = connection.now() + UNREAD_SECONDS_MAX
            connection.flush(self)
            return
        if data:
            connection.spend(self, len(data))
            begun += frame(DATA, END_STREAM if is_last else 0, self.number, data)
        if trailers:
            begun += frame(HEADERS, END_HEADERS | END_STREAM, self.number, trailers)
        connection.write(begun)
        if self.is_ended:
            connection.ended(self)

    def send_fixed(self, answer: FixedAnswer) -> None:
        """Answers with what is ready made."""
        connection, size = self.connection, len(answer.data)
        if self.is_begun or size > connection.room_for(self):
            self.send(b"" if self.is_begun else answer.head, answer.data, answer.trailers)
        elif self.number in connection.streams:
            self.is_begun = self.is_ended = True
            connection.spend(self, size)
            connection.write(answer.frames(self.number))
            connection.ended(self)

    def refuse(self, head: bytes) -> None:
        """Answers with headers alone."""
        if self.number not in self.connection.streams:
            return
        self.is_begun = self.is_ended = True
        self.connection.write(frame(HEADERS, END_HEADERS | END_STREAM, self.number, head))
        self.connection.ended(self)


class StreamConnection(ConnectionBase):
    """A connection as its streams use it: where answers are written, and how much may be.

    Args:
        connections: the listener's connections.
        keepalive: how long it is kept.
    """

    def __init__(self, connections: Connections, keepalive: Keepalive) -> None:
        self.connections = connections
        self.is_discarding = False
        """True if nothing that arrives is looked at any more, and nothing is written."""
        self.now = asyncio.get_running_loop().time
        self.deadline = NEVER
        self.pings = Pings(keepalive, self.now())
        self.life = Lifetime(keepalive, self.now(), connections.bounds.head)
        self.streams: dict[int, GrpcStream] = {}
        """Open streams by number."""
        self.stream_window = USUAL_WINDOW
        """Initial window of a stream: how much the client accepts."""
        self._window = USUAL_WINDOW
        """Current window of the connection: how much the client accepts now."""
        self._is_foreign = False

    @abstractmethod
    def reset(self, number: int, code: int) -> None:
        """Ends a stream with an error."""

    @abstractmethod
    def ended(self, stream: GrpcStream) -> None:
        """All of the stream's answer has been written."""

    def no_grpc(self) -> None:
        """A request was none of gRPC; of a connection that is counted once."""
        if not self._is_foreign:
            self._is_foreign = True
            self.connections.count_foreign("http2", "gRPC")

    # --- writing --------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Writes some of an answer."""
        if not self.is_discarding and data:
            self.pings.strikes = -1
            self.transport.write(data)

    def write_control(self, data: bytes) -> None:
        """Writes what is no answer."""
        if not self.is_discarding:
            self.transport.write(data)

    def room_for(self, stream: GrpcStream) -> int:
        """Bytes of one frame of data that may go now."""
        room = min(self._window, stream.window)
        return min(room, ANSWER_BYTES_MAX)

    def spend(self, stream: GrpcStream, size: int) -> None:
        """So much data has been written."""
        self._window -= size
        stream.window -= size

    def flush(self, stream: GrpcStream) -> None:
        """Sends what has waited, as far as there is room."""
        if stream.waiting:
            self.deadline = min(self.deadline, stream.deadline)
        while stream.waiting and (room := self.room_for(stream)) > 0:
            data, stream.waiting = stream.waiting[:room], stream.waiting[room:]
            self.spend(stream, len(data))
            is_last = stream.is_ended and not stream.waiting and not stream.trailers
            self.write(frame(DATA, END_STREAM if is_last else 0, stream.number, data))
        if stream.is_ended and not stream.waiting:
            trailers, stream.trailers = stream.trailers, b""
            if trailers:
                self.write(frame(HEADERS, END_HEADERS | END_STREAM, stream.number, trailers))
            self.ended(stream)

    # --- the client's windows -------------------------------------------------------------------

    def widen(self, more: int) -> None:
        """The connection's window grows: what waits for it is sent.

        Raises:
            ConnectionFault: not by that much.
        """
        self._window += more
        if not more:
            raise ConnectionFault(PROTOCOL_ERROR, "a window update by nothing")
        if self._window > WINDOW_MAX:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "the window is too large")
        for each in [each for each in self.streams.values() if each.waiting]:
            self.flush(each)

    def widen_stream(self, stream: GrpcStream, more: int) -> int:
        """A stream's window grows: what waits for it is sent. Returns the code of what is wrong."""
        stream.window += more
        if not more:
            return PROTOCOL_ERROR
        if stream.window > WINDOW_MAX:
            return FLOW_CONTROL_ERROR
        self.flush(stream)
        return NO_ERROR

    def use_stream_window(self, window: int) -> None:
        """The window that streams begin with is another one; those that are open change by as much (6.9.2).

        Raises:
            ConnectionFault: a window is too large then.
        """
        change, self.stream_window = window - self.stream_window, window
        if not change:
            return
        for stream in list(self.streams.values()):
            stream.window += change
            if stream.window > WINDOW_MAX:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "the window is too large")
            self.flush(stream)
