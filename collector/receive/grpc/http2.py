"""HTTP/2 (RFC 9113) on one connection, as far as a gRPC server needs it.

Frames are taken where they arrive, and a call is answered with one write. Streams are few and
short: a request that is read whole, an answer that fits a packet. So nothing is prioritised or
pushed, our header blocks are literals, and only an answer that is larger than its window waits.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from collector.receive.connections import (
    COPIED_BYTES,
    LINGER_SECONDS,
    NEVER,
    ConnectionBase,
    Connections,
    Data,
    part,
)
from collector.receive.grpc.frame_budget import (
    BLOCK_BYTES_PER_FRAME,
    CALL_FRAMES,
    REFUSAL_FRAMES,
    RESET_FRAMES,
    SETTING_BYTES_PER_FRAME,
    SMALL_DATA_BYTES,
    FrameBudget,
)
from collector.receive.grpc.frames import (
    ACK,
    BLOCK_BYTES_MAX,
    COMPRESSION_ERROR,
    CONTINUATION,
    DATA,
    DATA_BYTES_MAX,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_HEAD,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEAD_BYTES,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    NO_ERROR,
    NUMBER_BYTES,
    NUMBER_MASK,
    PADDED,
    PING,
    PRIORITISED,
    PRIORITY,
    PRIORITY_BYTES,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_MAX,
    WINDOW_UPDATE,
    ConnectionFault,
    check_frame,
    depends_on_itself,
    error_name,
    frame,
    number_of,
    setting,
    settings_of,
    unpadded,
)
from collector.receive.grpc.header_fields import Section
from collector.receive.grpc.hpack import Decoder, Header, HpackError, TooLarge
from collector.receive.grpc.streams import ClosedStreams
from collector.receive.http.responses import last_words
from collector.receive.protocol_detection import PREFACE, is_short, protocol_of
from collector.receive.turns import TURN_SECONDS, Turns
from collector.telemetry.counters import Stats

__all__ = ["Http2", "Keeping", "Stream", "Whole"]

ANSWER_BYTES_MAX: Final = 16_384
"""Of a payload of ours: what everyone must take."""
STREAMS_MAX: Final = 256
STREAM_WINDOW: Final = 1 << 20
"""Of a body that is not ours to read yet, at most so much is under way."""
CONNECTION_WINDOW: Final = 16 << 20
USUAL_WINDOW: Final = 65_535
PING_SECONDS_MIN: Final = 300.0
PING_STRIKES_MAX: Final = 2
"""As gRPC counts: more pings that come too soon, with nothing of ours between them, are too many."""
UNREAD_SECONDS_MAX: Final = 60.0
"""For an answer that finds no room in the client's window; then the connection is closed."""
UNREAD_BYTES_MAX: Final = 1 << 20
"""Of one answer that finds no room there; then the call is given up."""
THROWN_AWAY_MAX: Final = 4 << 20
"""Bytes that are read and not looked at behind a fault, so that its name arrives."""
FEW_WAITING: Final = 16
CROWDED_BYTES: Final = 16 << 10
"""Read from a socket at once while more connections than that wait for their turn: what is read is held
until then."""
NO_HTTP1: Final = last_words(
    400,
    3,
    "gRPC over HTTP/2 is spoken here; OTLP over HTTP has a port of its own, usually 4318",
)


GREETING: Final = frame(
    SETTINGS,
    0,
    0,
    setting(MAX_CONCURRENT_STREAMS, STREAMS_MAX)
    + setting(INITIAL_WINDOW_SIZE, STREAM_WINDOW)
    + setting(MAX_FRAME_SIZE, DATA_BYTES_MAX)
    + setting(MAX_HEADER_LIST_SIZE, BLOCK_BYTES_MAX),
) + frame(WINDOW_UPDATE, 0, 0, number_of(CONNECTION_WINDOW - USUAL_WINDOW))


class Whole:
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


@dataclass(frozen=True, slots=True)
class Keeping:
    """How connections are kept; times in seconds, None: not so."""

    ping_interval: float | None = None
    """We ask a silent client so often whether it is there."""
    ping_timeout: float | None = None
    """It has so long to answer."""
    ping_interval_min: float | None = None
    """A client that asks more often is sent away."""
    idle_max: float | None = None
    age_max: float | None = None
    """After it a client is asked to connect anew, so that load spreads over new replicas."""
    age_grace: float | None = None


PING_TIMEOUT_SECONDS: Final = 20.0
"""As gRPC does it by itself."""
FAREWELL: Final = b"farewell"
"""A ping behind the first GOAWAY: its answer tells that the client has read that, too."""
FAREWELL_SECONDS: Final = 1.0
"""Who has not answered by then is taken to know."""


class Stream(ABC):
    """One request and its answer."""

    deadline = NEVER
    """When its body has taken too long, on the loop's clock."""
    is_whole = False
    """All of the request has come."""
    is_begun = False
    """Some of the answer has been sent."""
    is_ended = False
    """All of the answer has been said; some may wait for room."""
    has_body = False
    """Some of the body has come."""
    left = -1
    """Bytes of the body that are still to come, where the request says its length; -1: it does not."""

    def __init__(self, connection: Http2, number: int) -> None:
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

    def send_whole(self, answer: Whole) -> None:
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


class Http2(ConnectionBase):
    """One connection.

    Args:
        start: makes a stream of a number.
        read: makes of headers what `Stream.begin` wants.
        connections: the listener's connections.
        keeping: for how long.
        turns: the listener's, too.
        stats: where faults are counted.
    """

    def __init__(
        self,
        start: Callable[[Http2, int], Stream],
        read: Callable[[list[Header]], Any],
        connections: Connections,
        keeping: Keeping,
        turns: Turns,
        stats: Stats,
    ) -> None:
        self.connections = connections
        self.idle = True
        """Whoever is too slow here is counted by its call."""
        self.is_deaf = False
        self.now = asyncio.get_running_loop().time
        self.stream_window = USUAL_WINDOW
        self.streams: dict[int, Stream] = {}
        self._start = start
        self._head_of = read
        self._keeping = keeping
        self._turns = turns
        self._stats = stats
        self._decoder: Decoder[Section] = Decoder(Section)
        self._rest = b""
        self._is_waiting = False
        """For its next turn: the rest may have more than the beginning of a frame."""
        self._is_queued = False
        """It gets that turn by itself; else it waits for its client, too."""
        self._is_greeted = self._has_settings = self._is_foreign = False
        self._last = 0
        """The highest number of a stream."""
        self._closed = ClosedStreams()
        self._data_of = self._data_flags = self._data_left = self._data_padding = 0
        """Of the frame of data that is being read: its stream, its flags, how much of it is still to
        come, and how much of that is padding."""
        self._block = b""
        self._block_of: tuple[int, int] | None = None
        """Number and flags of the headers that are not whole."""
        self._room = CONNECTION_WINDOW
        self._window = USUAL_WINDOW
        self._thrown_away = -1
        """Bytes that came behind a fault; -1: there was none."""
        self._pinged = -NEVER
        self._ping_strikes = 0
        self._asked: float | None = None
        """When we asked whether it is there, and it has not answered."""
        self._heard = self._quiet = self._born = self.now()
        """The last sign of it; since when it has no streams; and its beginning."""
        self._budget = FrameBudget(self._born)
        self._leaving: float | None = None
        """Since when it is asked to go."""
        self._is_parted = False
        """It knows: what it begins from now on is not looked at."""
        self._readable = True
        self.deadline = NEVER

    @property
    def is_busy(self) -> bool:
        """Some call has begun and is not answered, or what was said last may not have been read."""
        return bool(self.streams) or self._leaving is not None

    # --- the transport --------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.connections.join(self)
        self.connections.await_(self)
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self.connections.part(self)
        self.is_deaf = True
        self._give_up()

    def _give_up(self) -> None:
        """Forgets what has begun, and what was to be read."""
        self._rest = self._block = b""
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            if not stream.is_ended:
                stream.lost()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the loop's
        inbox = self.connections.inbox
        return inbox if len(self._turns) < FEW_WAITING else inbox[:CROWDED_BYTES]

    def data_received(self, data: bytes) -> None:
        if self.is_deaf:
            self._throw_away(len(data))
        else:
            self._hear(data)

    def buffer_updated(self, count: int) -> None:
        if self.is_deaf:
            self._throw_away(count)
        else:
            data = self.connections.inbox[:count]
            self._hear(data.tobytes() if count <= COPIED_BYTES else data)

    def _throw_away(self, count: int) -> None:
        if self._thrown_away >= 0:
            self._thrown_away += count
            if self._thrown_away > THROWN_AWAY_MAX:
                self.end()

    def _hear(self, data: Data) -> None:
        """Takes what has come, unless it is not its turn."""
        self._heard = self.now()
        if self._rest:
            data = b"".join((self._rest, data))
        if self._is_waiting:  # it was under way when we stopped reading
            self._rest = part(data, 0, len(data))
        elif self._take_turn(data):
            self._is_waiting = True
            self._watch_socket()
            self._queue()

    def _queue(self) -> None:
        self._is_queued = True
        self._turns.wait(self._go_on)

    def _go_on(self) -> bool:
        """Takes its next turn; false: it has read all that had come, or its client does not read."""
        self._is_queued = False
        if not self._readable:
            return False
        try:
            self._is_waiting = not self.is_deaf and self._take_turn(self._rest)
        except Exception:
            self.end()  # as a loop does where a protocol fails
            raise
        self._is_queued = self._is_waiting
        self._watch_socket()
        return self._is_waiting

    def _take_turn(self, data: Data) -> bool:
        """Reads as far as frames are whole and its time goes; true: there is more to read."""
        try:
            at, has_more = self._read(data)
        except ConnectionFault as fault:
            self._fail(fault.code, fault.text)
        except TooLarge as large:  # compiled, a name has one type
            self._fail(ENHANCE_YOUR_CALM, str(large))
        except HpackError as error:
            self._fail(COMPRESSION_ERROR, str(error))
        else:
            self._rest = part(data, at, len(data))
            return has_more
        return False

    def _fail(self, code: int, text: str) -> None:
        """Names the fault, and looks at nothing more that comes."""
        self._stats.count("http2_errors", "connection", error_name(code))
        self._go_away(code, text, self._last)
        self._thrown_away = 0
        self._part_at_once()
        self._give_up()

    def pause_writing(self) -> None:
        self._readable = False
        self._watch_socket()

    def resume_writing(self) -> None:
        self._readable = True
        if self._is_waiting and not self._is_queued:
            self._queue()
        self._watch_socket()

    def _watch_socket(self) -> None:
        """Reads the socket while the client reads ours, and it is not for us to read on first."""
        if self.transport.is_closing():
            return
        if self._readable and not self._is_waiting:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def write(self, data: bytes) -> None:
        if not self.is_deaf and data:
            self._ping_strikes = 0
            self._pinged = -NEVER
            self.transport.write(data)

    def _control(self, data: bytes) -> None:
        """Writes what is no answer."""
        if not self.is_deaf:
            self.transport.write(data)

    # --- frames ---------------------------------------------------------------------------------

    def _read(self, data: Data) -> tuple[int, bool]:
        """Takes whole frames; returns where the rest begins, and whether it was cut short.

        It is when the turn is over, or the client does not read what it is answered.
        """
        at, size = 0, len(data)
        ends = time.perf_counter() + TURN_SECONDS
        high: int  # what is unpacked is of any type, unless it is told
        low: int
        kind: int
        flags: int
        number: int
        if not self._is_greeted:
            if not self._greet(data):
                return 0, False
            at = len(PREFACE)
        while not self.is_deaf:
            if self._data_left:
                if at == size:
                    break
                at = self._take_data(data, at)
                continue
            begin = at + HEAD_BYTES
            if begin > size:
                break
            if time.perf_counter() >= ends or not self._readable:
                return at, True
            high, low, kind, flags, number = FRAME_HEAD.unpack_from(data, at)
            number &= NUMBER_MASK
            length = high << 16 | low
            if kind or flags & PADDED or length > DATA_BYTES_MAX:
                check_frame(kind, flags, number, length)
            if begin + (length if kind else flags & PADDED and 1) > size:
                break
            if self._block_of is not None or not self._has_settings:
                self._expect(kind, flags, number)
            at = begin
            if kind:
                at += length
                self._take(kind, flags, number, part(data, begin, at))
            else:
                at = self._begin_data(flags, number, length, data, at)
        return at, False

    def _greet(self, data: Data) -> bool:
        """Whether HTTP/2 is spoken; what is not is told so."""
        if part(data, 0, len(PREFACE)) != PREFACE:
            greeting = bytes(data)
            if not is_short(greeting):
                self._refuse_other(greeting)
            return False
        self._is_greeted = True
        self._control(GREETING)
        self._schedule()
        return True

    def _expect(self, kind: int, flags: int, number: int) -> None:
        """Whether such a frame may come now."""
        if self._block_of is not None and (kind, number) != (CONTINUATION, self._block_of[0]):
            raise ConnectionFault(PROTOCOL_ERROR, "headers are not continued")
        if not self._has_settings and (kind != SETTINGS or flags & ACK):
            raise ConnectionFault(PROTOCOL_ERROR, "the first frame is not SETTINGS")

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        self._charge(1)
        if kind == HEADERS:
            self._take_headers(flags, number, payload)
        elif kind == CONTINUATION:
            self._take_continuation(flags, payload)
        elif kind == WINDOW_UPDATE:
            self._take_window(number, payload)
        elif kind == SETTINGS:
            self._take_settings(flags, payload)
        elif kind == PING:
            self._take_ping(flags, payload)
        elif kind == RST_STREAM:
            self._take_reset(number)
        elif kind == PRIORITY:
            self._take_priority(number, payload)
        elif kind == PUSH_PROMISE:
            raise ConnectionFault(PROTOCOL_ERROR, "clients do not push")
        # GOAWAY says that the client opens nothing; other kinds are unknown.

    def _charge(self, cost: int) -> None:
        """Takes from what the client may ask of us for nothing."""
        if not self._budget.spend(cost, self._heard):
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    def _is_idle(self, number: int) -> bool:
        """No stream of that number has begun."""
        return number > self._last or not number & 1

    def _blame(self, number: int, code: int) -> None:
        """Ends a stream by a fault of the client's (5.4.2)."""
        self._charge(RESET_FRAMES)
        self.reset(number, code)

    def reset(self, number: int, code: int) -> None:
        """Ends a stream with an error."""
        self._stats.count("http2_errors", "stream", error_name(code))
        self._control(frame(RST_STREAM, 0, number, number_of(code)))
        self._closed.add(number)
        stream = self.streams.pop(number, None)
        if stream is not None:
            if not stream.is_ended:
                stream.lost()
            self._part()

    # --- bodies ---------------------------------------------------------------------------------

    def _begin_data(self, flags: int, number: int, length: int, data: Data, at: int) -> int:
        """The head of a frame of data, and as much of the rest as has come; returns where that ends.

        Args:
            flags: of the frame.
            number: of the stream.
            length: of the payload.
            data: what has been read.
            at: where the payload begins in it; of a padded one, the first byte has come.
        """
        if number > self._last or not number & 1:
            raise ConnectionFault(PROTOCOL_ERROR, "data without headers")
        if length > self._room:
            raise ConnectionFault(FLOW_CONTROL_ERROR, "more data than the window has room for")
        if length < SMALL_DATA_BYTES:
            self._charge(1)
        stream = self.streams.get(number)
        if stream is None:
            if not self._closed.is_ours(number):
                self._blame(number, STREAM_CLOSED)
        elif stream.is_whole:
            self._blame(number, STREAM_CLOSED)
        elif length > stream.room:
            self._blame(number, FLOW_CONTROL_ERROR)
        padding = 0
        if flags & PADDED:
            padding = data[at]
            if padding >= length:
                raise ConnectionFault(PROTOCOL_ERROR, "more padding than there is")
            at += 1
            length -= 1
            self._room -= 1
            if stream is not None:
                stream.room -= 1
        self._data_of, self._data_flags = number, flags
        self._data_left, self._data_padding = length, padding
        return self._take_data(data, at)

    def _take_data(self, data: Data, at: int) -> int:
        """As much of a frame of data as has come; returns where it ends."""
        last = end = at + self._data_left
        content_end = last - self._data_padding
        if last > len(data):
            end = len(data)
            if content_end > end:
                content_end = end
            else:
                self._data_padding = last - end
        self._data_left = last - end
        size = end - at
        self._room -= size
        if self._room < CONNECTION_WINDOW // 2:
            self._control(frame(WINDOW_UPDATE, 0, 0, number_of(CONNECTION_WINDOW - self._room)))
            self._room = CONNECTION_WINDOW
        is_last = not self._data_left and self._data_flags & END_STREAM != 0
        stream = self.streams.get(self._data_of)
        if stream is None:  # of a call that is over
            if is_last:
                self._closed.discard(self._data_of)
            return end
        stream.room -= size
        if content_end > at:
            self._take_content(stream, data, at, content_end)
        if is_last:
            self._complete(stream)
        elif self._wants_more(stream):
            more = number_of(STREAM_WINDOW - stream.room)
            self._control(frame(WINDOW_UPDATE, 0, stream.number, more))
            stream.room = STREAM_WINDOW
        return end

    def _wants_more(self, stream: Stream) -> bool:
        """It is to be told that there is room again."""
        is_low = stream.room < STREAM_WINDOW // 2
        return is_low and not stream.is_ended and stream.number in self.streams

    def _take_content(self, stream: Stream, data: Data, at: int, end: int) -> None:
        stream.has_body = True
        if stream.left >= 0:
            stream.left -= end - at
            if stream.left < 0:
                self._blame(stream.number, PROTOCOL_ERROR)
                return
        if not stream.is_ended:
            stream.piece(data, at, end)

    def _complete(self, stream: Stream) -> None:
        """The client has said all; nothing is done where its stream is over."""
        if stream.number not in self.streams:
            self._closed.discard(stream.number)
            return
        if stream.left > 0:
            self._blame(stream.number, PROTOCOL_ERROR)
            return
        stream.is_whole = True
        stream.deadline = NEVER
        if not stream.is_ended:
            stream.complete()

    # --- headers --------------------------------------------------------------------------------

    def _take_headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number & 1:
            raise ConnectionFault(PROTOCOL_ERROR, "a stream of no client")
        if flags & PADDED:
            payload = unpadded(payload)
        if flags & PRIORITISED:
            if len(payload) < PRIORITY_BYTES:
                raise ConnectionFault(FRAME_SIZE_ERROR, "a priority that is too short")
            if depends_on_itself(number, payload):
                raise ConnectionFault(PROTOCOL_ERROR, "a stream that depends on itself")
            payload = payload[PRIORITY_BYTES:]
        if flags & END_HEADERS:
            self._take_block(flags, number, payload)
        else:
            self._block_of = number, flags
            self._block = payload

    def _take_continuation(self, flags: int, payload: bytes) -> None:
        if self._block_of is None:
            raise ConnectionFault(PROTOCOL_ERROR, "nothing is to be continued")
        self._block += payload
        if len(self._block) > BLOCK_BYTES_MAX:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "the headers are too large")
        if flags & END_HEADERS:
            (number, first), self._block_of = self._block_of, None
            block, self._block = self._block, b""
            self._take_block(first, number, block)

    def _take_block(self, flags: int, number: int, block: bytes) -> None:
        self._charge(len(block) // BLOCK_BYTES_PER_FRAME)
        section = self._decoder.decode(block)  # in any case: the next one builds on it
        stream = self.streams.get(number)
        if stream is not None:
            if stream.is_whole:
                self._blame(number, STREAM_CLOSED)
            elif section.trailers_fault or not flags & END_STREAM:
                self._blame(number, PROTOCOL_ERROR)
            else:
                self._complete(stream)
        elif number > self._last:
            if number > self._last + 2:
                self._closed.skip(self._last + 2 if self._last else 1, number - 2)
            self._last = number
            self._open(flags, number, section)
        elif not self._closed.is_ours(number):
            raise ConnectionFault(
                PROTOCOL_ERROR if self._closed.was_skipped(number) else STREAM_CLOSED,
                "headers of a stream that is over",
            )
        elif flags & END_STREAM:  # trailers that were under way
            self._closed.discard(number)

    def _open(self, flags: int, number: int, section: Section) -> None:
        is_whole = flags & END_STREAM != 0
        if section.request_fault or (is_whole and section.length > 0):
            self._blame(number, PROTOCOL_ERROR)
        elif self._is_parted:
            self._closed.add(number)  # GOAWAY has told it
        elif len(self.streams) >= STREAMS_MAX:
            self.reset(number, REFUSED_STREAM)
        else:
            self._begin(number, section, is_whole)
        if is_whole:
            self._closed.discard(number)

    def _begin(self, number: int, section: Section, is_whole: bool) -> None:
        self.connections.await_(self)
        if section.head is None:
            section.head = self._head_of(section.fields)
            section.fields = []
        stream = self.streams[number] = self._start(self, number)
        stream.left, stream.is_whole = section.length, is_whole
        stream.begin(section.head)
        if is_whole:
            self._complete(stream)
        else:
            self.deadline = min(self.deadline, stream.deadline)

    # --- other frames ---------------------------------------------------------------------------

    def _take_window(self, number: int, payload: bytes) -> None:
        more = int.from_bytes(payload, "big") & NUMBER_MASK
        if not number:
            self._window += more
            if not more:
                raise ConnectionFault(PROTOCOL_ERROR, "a window update by nothing")
            if self._window > WINDOW_MAX:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "the window is too large")
            for each in [each for each in self.streams.values() if each.waiting]:
                self.flush(each)
            return
        if self._is_idle(number):
            raise ConnectionFault(PROTOCOL_ERROR, "a window update of no stream")
        stream = self.streams.get(number)
        if stream is None:
            return  # of a call that is over
        stream.window += more
        if not more:
            self._blame(number, PROTOCOL_ERROR)
        elif stream.window > WINDOW_MAX:
            self._blame(number, FLOW_CONTROL_ERROR)
        else:
            self.flush(stream)

    def _take_settings(self, flags: int, payload: bytes) -> None:
        self._has_settings = True
        if flags & ACK:
            return
        self._charge(len(payload) // SETTING_BYTES_PER_FRAME)
        window = settings_of(payload).get(INITIAL_WINDOW_SIZE, self.stream_window)
        change, self.stream_window = window - self.stream_window, window
        self._control(frame(SETTINGS, ACK, 0))
        if not change:
            return
        for stream in list(self.streams.values()):
            stream.window += change
            if stream.window > WINDOW_MAX:  # 6.9.2
                raise ConnectionFault(FLOW_CONTROL_ERROR, "the window is too large")
            self.flush(stream)

    def _take_ping(self, flags: int, payload: bytes) -> None:
        if flags & ACK:
            self._asked = None
            if payload == FAREWELL and self._leaving is not None:
                self._part_with()
            self._schedule()
            return
        least = self._keeping.ping_interval_min
        if self._heard - self._pinged < (PING_SECONDS_MIN if least is None else least):
            self._ping_strikes += 1
            if self._ping_strikes > PING_STRIKES_MAX:
                raise ConnectionFault(ENHANCE_YOUR_CALM, "too_many_pings")
        self._pinged = self._heard
        self._control(frame(PING, ACK, 0, payload))

    def _take_reset(self, number: int) -> None:
        if self._is_idle(number):
            raise ConnectionFault(PROTOCOL_ERROR, "a reset of no stream")
        self._charge(RESET_FRAMES)
        self._closed.discard(number)
        stream = self.streams.pop(number, None)
        if stream is not None:
            if not stream.is_ended:
                stream.lost()
            self._part()

    def _take_priority(self, number: int, payload: bytes) -> None:
        """A priority says nothing any more (5.3.2), but for whether it is one."""
        if len(payload) != PRIORITY_BYTES:
            code = FRAME_SIZE_ERROR
        elif depends_on_itself(number, payload):
            code = PROTOCOL_ERROR
        else:
            return
        if self._is_idle(number):  # which is not to be reset (6.4)
            raise ConnectionFault(code, "no priority")
        if not self._closed.is_ours(number):
            self._blame(number, code)

    # --- answers --------------------------------------------------------------------------------

    def room_for(self, stream: Stream) -> int:
        """Bytes of one frame that may go now."""
        room = min(self._window, stream.window)
        return min(room, ANSWER_BYTES_MAX)

    def spend(self, stream: Stream, size: int) -> None:
        self._window -= size
        stream.window -= size

    def flush(self, stream: Stream) -> None:
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

    def ended(self, stream: Stream) -> None:
        """All of the answer has been written."""
        if not stream.is_whole:  # RFC 9113 8.1: the rest is not wanted
            self._control(frame(RST_STREAM, 0, stream.number, number_of(NO_ERROR)))
            self._closed.add(stream.number)
        useful = stream.is_whole and stream.has_body
        self._budget.earn(CALL_FRAMES if useful else REFUSAL_FRAMES)
        if self.streams.pop(stream.number, None) is not None:
            self._part()

    def _part(self) -> None:
        """A stream is over."""
        if self.streams:
            return
        self._quiet = self._heard
        if self._is_parted:
            self._hang_up()
        elif self._keeping.idle_max is not None:
            self._schedule()

    # --- time -----------------------------------------------------------------------------------

    @property
    def _is_unused(self) -> bool:
        """No call has ever begun, and it has not been asked to go."""
        return not self._last and self._leaving is None

    def _schedule(self) -> None:
        """When to look again."""
        if self.is_deaf:
            return
        keeping = self._keeping
        times = [stream.deadline for stream in self.streams.values()]
        if self._is_unused:
            times.append(self._born + self.connections.bounds.head)
        if keeping.idle_max is not None and not self.streams:
            times.append(self._quiet + keeping.idle_max)
        if self._leaving is not None:
            if not self._is_parted:
                times.append(self._leaving + FAREWELL_SECONDS)
            if keeping.age_grace is not None:
                times.append(self._leaving + keeping.age_grace)
        elif keeping.age_max is not None:
            times.append(self._born + keeping.age_max)
        if self._asked is not None:
            limit = keeping.ping_timeout
            times.append(self._asked + (PING_TIMEOUT_SECONDS if limit is None else limit))
        elif keeping.ping_interval is not None:
            times.append(self._heard + keeping.ping_interval)
        self.deadline = min(times, default=NEVER)

    def time_out(self) -> None:
        """Does what is due."""
        if self.is_deaf:
            self.end()
            return
        now, keeping = self.now(), self._keeping
        gone = not self._is_greeted and now >= self._born + self.connections.bounds.head
        for stream in [each for each in self.streams.values() if each.deadline <= now]:
            stream.deadline = NEVER
            gone |= bool(stream.waiting)
            stream.late()
        if self._asked is not None:
            limit = keeping.ping_timeout
            gone |= now >= self._asked + (PING_TIMEOUT_SECONDS if limit is None else limit)
        elif keeping.ping_interval is not None and now >= self._heard + keeping.ping_interval:
            self._asked = now
            self._control(frame(PING, 0, 0, b"offrails"))
        if self._leaving is not None:
            gone |= keeping.age_grace is not None and now >= self._leaving + keeping.age_grace
            if now >= self._leaving + FAREWELL_SECONDS:
                self._part_with()
        elif (
            (keeping.age_max is not None and now >= self._born + keeping.age_max)
            or (
                keeping.idle_max is not None
                and not self.streams
                and now >= self._quiet + keeping.idle_max
            )
            or (self._is_unused and now >= self._born + self.connections.bounds.head)
        ):
            self.shut_down()
        if gone:
            self.end()
        self._schedule()

    # --- the end --------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Asks the client to go; the calls that it begins before it knows are answered.

        It is told twice (RFC 9113 6.8): first without a last stream, and once it has answered a ping
        that follows, with the last one that it began.
        """
        if not self._is_greeted:
            self.end()
        elif self._leaving is None:
            self._leaving = self.now()
            self._go_away(NO_ERROR, "going away", NUMBER_MASK)
            self._control(frame(PING, 0, 0, FAREWELL))
            self._schedule()

    def _part_with(self) -> None:
        """The client knows, or had its time: what it has begun by now is all that is answered."""
        if not self._is_parted:
            self._is_parted = True
            self._go_away(NO_ERROR, "going away", self._last)
            if not self.streams:
                self._hang_up()

    def _hang_up(self) -> None:
        """Says nothing more, and leaves it to the client to close.

        What it still sends is thrown away: closed with something unread, the kernel would take back
        what the client has not read of our answers.
        """
        self.is_deaf = True
        if self.transport.is_closing():
            self.end()
            return
        self.deadline = self.now() + LINGER_SECONDS
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _part_at_once(self) -> None:
        """Says nothing more, and closes where it cannot say that, as in TLS: the client need not."""
        if self.transport.can_write_eof():
            self._hang_up()
        else:
            self.end()

    def end(self) -> None:
        """Closes the connection."""
        self.connections.leave(self)
        self.is_deaf = True
        self.transport.close()

    def no_grpc(self) -> None:
        """A request was none of gRPC; of a connection that is said once."""
        if not self._is_foreign:
            self._is_foreign = True
            self.connections.foreign("http2", "gRPC")

    def _refuse_other(self, greeting: bytes) -> None:
        """Says what is spoken here, in HTTP/1.1 to who speaks that."""
        name = protocol_of(greeting, "gRPC")
        self.connections.foreign(name, "gRPC")
        if name == "http1":
            self._control(NO_HTTP1)
        else:
            self._control(GREETING)
            text = "HTTP/2 with prior knowledge is spoken here"
            self._go_away(PROTOCOL_ERROR, text, self._last)
        self._part_at_once()

    def _go_away(self, code: int, text: str, last: int) -> None:
        payload = number_of(last) + number_of(code) + text.encode()
        self._control(frame(GOAWAY, 0, 0, payload))
