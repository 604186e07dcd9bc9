"""HTTP/2 (RFC 9113) on one connection, as far as a gRPC server needs it.

Frames are taken where they arrive, and a call is answered with one write. Streams are few and
short: a request that is read whole, an answer that fits a packet. So nothing is prioritised or
pushed, our header blocks are literals, and only an answer that is larger than its window waits.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from collector.receivers.crowd import (
    COPIED_BYTES,
    LINGER_SECONDS,
    NEVER,
    Crowd,
    Data,
    Member,
    part,
)
from collector.receivers.greeting import PREFACE, is_short, protocol_of
from collector.receivers.hpack import Decoder, Header, HpackError
from collector.receivers.words import last_words

__all__ = ["Http2", "Keeping", "Stream", "Whole"]

DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9
"""Kinds of frames (RFC 9113 6)."""
ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITISED: Final = 0x20
"""Their flags."""
NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
FLOW_CONTROL_ERROR: Final = 3
FRAME_SIZE_ERROR: Final = 6
REFUSED_STREAM: Final = 7
COMPRESSION_ERROR: Final = 9
ENHANCE_YOUR_CALM: Final = 11
"""Errors (7)."""
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6
"""Settings (6.5.2)."""

_HEAD: Final = Struct(">BHBBI")
HEAD_BYTES: Final = _HEAD.size
NUMBER_BYTES: Final = 4
NUMBER_MASK: Final = 0x7FFF_FFFF
ANSWER_BYTES_MAX: Final = 16_384
"""Of a payload of ours: what everyone must take."""
DATA_BYTES_MAX: Final = 1 << 20
"""Of a payload of data, which is taken as it comes, whole or not: fewer frames cost less."""
BLOCK_BYTES_MAX: Final = 64 << 10
"""Of a header block, over all its frames, and of any other payload."""
STREAMS_MAX: Final = 256
STREAM_WINDOW: Final = 1 << 20
"""Of a body that is not ours to read yet, at most so much is under way."""
CONNECTION_WINDOW: Final = 16 << 20
USUAL_WINDOW: Final = 65_535
WINDOW_MAX: Final = 2**31 - 1
PING_SECONDS_MIN: Final = 300.0
PING_STRIKES_MAX: Final = 2
"""As gRPC counts: more pings that come too soon, with nothing of ours between them, are too many."""
IDLE_FRAMES_MAX: Final = 10_000
"""That ask for nothing, since a call was answered."""
UNREAD_SECONDS_MAX: Final = 60.0
"""For an answer that finds no room in the client's window; then the connection is closed."""
RESETS_MAX: Final = 500
"""Calls that were given up, since one was answered."""
NO_HTTP1: Final = last_words(
    400,
    3,
    "gRPC over HTTP/2 is spoken here; OTLP over HTTP has a port of its own, usually 4318",
)


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    """A frame (RFC 9113 4.1)."""
    size = len(payload)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, number) + payload


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _setting(name: int, value: int) -> bytes:
    return name.to_bytes(2, "big") + _number(value)


GREETING: Final = frame(
    SETTINGS,
    0,
    0,
    _setting(MAX_CONCURRENT_STREAMS, STREAMS_MAX)
    + _setting(INITIAL_WINDOW_SIZE, STREAM_WINDOW)
    + _setting(MAX_FRAME_SIZE, DATA_BYTES_MAX)
    + _setting(MAX_HEADER_LIST_SIZE, BLOCK_BYTES_MAX),
) + frame(WINDOW_UPDATE, 0, 0, _number(CONNECTION_WINDOW - USUAL_WINDOW))


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
        of = _number(number)
        return b"".join([self._first, of, self._second, of, self._third, of, self._fourth])


class _Fault(Exception):  # noqa: N818 - the peer's
    """The connection cannot go on."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


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

    def send(self, head: bytes, data: bytes, trailers: bytes = b"") -> None:
        """Answers, or goes on answering.

        Args:
            head: a header block, with the first piece.
            data: some of the body.
            trailers: a header block, with the last piece.
        """
        if self.number not in self.connection.streams:
            return  # nobody waits for it any more
        self.is_begun = True
        self.is_ended = bool(trailers)
        self.trailers = trailers
        begun = frame(HEADERS, END_HEADERS, self.number, head) if head else b""
        if data and (self.waiting or len(data) > self.connection.room_for(self)):
            self.connection.write(begun)
            self.waiting += data
            self.deadline = self.connection.now() + UNREAD_SECONDS_MAX
            self.connection.flush(self)
            return
        if data:
            self.connection.spend(self, len(data))
            begun += frame(DATA, 0, self.number, data)
        if trailers:
            begun += frame(HEADERS, END_HEADERS | END_STREAM, self.number, trailers)
        self.connection.write(begun)
        if trailers:
            self.connection.ended(self)

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


class Http2(Member):
    """One connection.

    Args:
        start: makes a stream of a number.
        read: makes of headers what `Stream.begin` wants.
        crowd: the listener's connections.
        keeping: for how long.
    """

    def __init__(
        self,
        start: Callable[[Http2, int], Stream],
        read: Callable[[list[Header]], Any],
        crowd: Crowd,
        keeping: Keeping,
    ) -> None:
        self.crowd = crowd
        self.idle = True
        """Whoever is too slow here is counted by its call."""
        self.is_deaf = False
        self.now = asyncio.get_running_loop().time
        self.stream_window = USUAL_WINDOW
        self.streams: dict[int, Stream] = {}
        self._start = start
        self._keeping = keeping
        self._decoder = Decoder(read)
        self._rest = b""
        self._is_greeted = self._has_settings = self._is_foreign = False
        self._last = 0
        """The highest number of a stream."""
        self._data_of = self._data_flags = self._data_left = self._data_padding = 0
        """Of the frame of data that is being read: its stream, its flags, how much of it is still to
        come, and how much of that is padding."""
        self._block = b""
        self._block_of: tuple[int, int] | None = None
        """Number and flags of the headers that are not whole."""
        self._room = CONNECTION_WINDOW
        self._window = USUAL_WINDOW
        self._idle_frames = self._resets = 0
        self._pinged = -NEVER
        self._ping_strikes = 0
        self._asked: float | None = None
        """When we asked whether it is there, and it has not answered."""
        self._heard = self._quiet = self._born = self.now()
        """The last sign of it; since when it has no streams; and its beginning."""
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
        self.crowd.join(self)
        self.crowd.await_(self)
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self.crowd.part(self)
        self.is_deaf = True
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            if not stream.is_ended:
                stream.lost()

    def data_received(self, data: bytes) -> None:
        if not self.is_deaf:
            self._hear(data)

    def buffer_updated(self, count: int) -> None:
        if not self.is_deaf:
            data = self.crowd.inbox[:count]
            self._hear(data.tobytes() if count <= COPIED_BYTES else data)

    def _hear(self, data: Data) -> None:
        """Takes what has come, as far as its frames are whole."""
        self._heard = self.now()
        if self._rest:
            data = b"".join((self._rest, data))
        try:
            at = self._read(data)
        except _Fault as fault:
            self._go_away(fault.code, fault.text, self._last)
            self.end()
        except HpackError as error:
            self._go_away(COMPRESSION_ERROR, str(error), self._last)
            self.end()
        else:
            self._rest = part(data, at, len(data))

    def pause_writing(self) -> None:
        self._readable = False
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._readable = True
        self.transport.resume_reading()

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

    def _read(self, data: Data) -> int:
        """Takes all whole frames; returns where the rest begins."""
        at, size = 0, len(data)
        high: int  # what is unpacked is of any type, unless it is told
        low: int
        kind: int
        flags: int
        number: int
        if not self._is_greeted:
            if part(data, 0, len(PREFACE)) != PREFACE:
                greeting = bytes(data)
                if not is_short(greeting):
                    self._refuse_other(greeting)
                return 0
            at = len(PREFACE)
            self._is_greeted = True
            self._control(GREETING)
            self._schedule()
        while not self.is_deaf:
            if self._data_left:
                if at == size:
                    break
                at = self._take_data(data, at)
                continue
            begin = at + HEAD_BYTES
            if begin > size:
                break
            high, low, kind, flags, number = _HEAD.unpack_from(data, at)
            number &= NUMBER_MASK
            length = high << 16 | low
            if length > (BLOCK_BYTES_MAX if kind else DATA_BYTES_MAX):
                raise _Fault(FRAME_SIZE_ERROR, "a frame is too large")
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
        return at

    def _expect(self, kind: int, flags: int, number: int) -> None:
        """Whether such a frame may come now."""
        if self._block_of is not None and (kind, number) != (CONTINUATION, self._block_of[0]):
            raise _Fault(PROTOCOL_ERROR, "headers are not continued")
        if not self._has_settings and (kind != SETTINGS or flags & ACK):
            raise _Fault(PROTOCOL_ERROR, "the first frame is not SETTINGS")

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == HEADERS:
            self._take_headers(flags, number, payload)
        elif kind == CONTINUATION:
            self._take_continuation(flags, payload)
        elif kind == WINDOW_UPDATE:
            self._take_window(number, payload)
        else:
            self._ask_nothing()
            self._take_other(kind, flags, number, payload)

    def _ask_nothing(self) -> None:
        self._idle_frames += 1
        if self._idle_frames > IDLE_FRAMES_MAX:
            raise _Fault(ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    def _take_other(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == SETTINGS:
            self._take_settings(flags, number, payload)
        elif kind == PING:
            self._take_ping(flags, number, payload)
        elif kind == RST_STREAM:
            self._take_reset(number, payload)
        elif kind == PUSH_PROMISE:
            raise _Fault(PROTOCOL_ERROR, "clients do not push")
        # PRIORITY says nothing any more; GOAWAY, that the client opens nothing; others are unknown.

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
            raise _Fault(PROTOCOL_ERROR, "data without headers")
        padding = 0
        if flags & PADDED:
            padding = data[at]
            if padding >= length:
                raise _Fault(PROTOCOL_ERROR, "more padding than there is")
            at += 1
            length -= 1
            self._room -= 1
        if length == padding and not flags & END_STREAM:
            self._ask_nothing()
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
            self._control(frame(WINDOW_UPDATE, 0, 0, _number(CONNECTION_WINDOW - self._room)))
            self._room = CONNECTION_WINDOW
        stream = self.streams.get(self._data_of)
        if stream is None or stream.is_whole:
            return end  # of a call that is over
        stream.room -= size
        if content_end > at and not stream.is_ended:
            stream.piece(data, at, content_end)
        if not self._data_left and self._data_flags & END_STREAM:
            self._complete(stream)
        elif stream.room < STREAM_WINDOW // 2 and not stream.is_ended:
            more = _number(STREAM_WINDOW - stream.room)
            self._control(frame(WINDOW_UPDATE, 0, stream.number, more))
            stream.room = STREAM_WINDOW
        return end

    def _take_headers(self, flags: int, number: int, payload: bytes) -> None:
        if not number & 1:
            raise _Fault(PROTOCOL_ERROR, "a stream of no client")
        if flags & PADDED:
            payload = _unpadded(payload)
        if flags & PRIORITISED:
            payload = payload[5:]
        if flags & END_HEADERS:
            self._take_block(flags, number, payload)
        else:
            self._block_of = number, flags
            self._block = payload

    def _take_continuation(self, flags: int, payload: bytes) -> None:
        if self._block_of is None:
            raise _Fault(PROTOCOL_ERROR, "nothing is to be continued")
        self._idle_frames += 1
        self._block += payload
        if len(self._block) > BLOCK_BYTES_MAX or self._idle_frames > IDLE_FRAMES_MAX:
            raise _Fault(ENHANCE_YOUR_CALM, "the headers are too large")
        if flags & END_HEADERS:
            (number, first), self._block_of = self._block_of, None
            block, self._block = self._block, b""
            self._take_block(first, number, block)

    def _take_block(self, flags: int, number: int, block: bytes) -> None:
        head = self._decoder.decode(block)  # in any case: the next one builds on it
        stream = self.streams.get(number)
        if stream is not None:
            if stream.is_whole or not flags & END_STREAM:
                raise _Fault(PROTOCOL_ERROR, "headers in the middle of a body")
            self._complete(stream)
        elif number > self._last:
            self._last = number
            self._open(flags, number, head)
        # Of a call that is over: trailers that were under way.

    def _open(self, flags: int, number: int, head: Any) -> None:
        if self._is_parted:
            return  # GOAWAY has told it
        if len(self.streams) >= STREAMS_MAX:
            self._control(frame(RST_STREAM, 0, number, _number(REFUSED_STREAM)))
            return
        self.crowd.await_(self)
        stream = self.streams[number] = self._start(self, number)
        stream.begin(head)
        if flags & END_STREAM:
            self._complete(stream)
        else:
            self.deadline = min(self.deadline, stream.deadline)

    def _complete(self, stream: Stream) -> None:
        stream.is_whole = True
        stream.deadline = NEVER
        if not stream.is_ended:
            stream.complete()

    def _take_window(self, number: int, payload: bytes) -> None:
        self._idle_frames += 1
        if len(payload) != 4:
            raise _Fault(FRAME_SIZE_ERROR, "a window update of another size")
        more = int.from_bytes(payload, "big") & NUMBER_MASK
        stream = self.streams.get(number) if number else None
        if not more or self._idle_frames > IDLE_FRAMES_MAX:
            raise _Fault(PROTOCOL_ERROR, "a window update by nothing")
        if not number:
            self._window += more
            if self._window > WINDOW_MAX:
                raise _Fault(FLOW_CONTROL_ERROR, "the window is too large")
            for each in [each for each in self.streams.values() if each.waiting]:
                self.flush(each)
        elif stream is not None:
            stream.window += more
            if stream.window > WINDOW_MAX:
                raise _Fault(FLOW_CONTROL_ERROR, "the window is too large")
            self.flush(stream)

    def _take_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number or len(payload) % 6 or (flags & ACK and payload):
            raise _Fault(FRAME_SIZE_ERROR, "no settings")
        self._has_settings = True
        if flags & ACK:
            return
        for at in range(0, len(payload), 6):
            name = int.from_bytes(payload[at : at + 2], "big")
            value = int.from_bytes(payload[at + 2 : at + 6], "big")
            if name == INITIAL_WINDOW_SIZE:
                if value > WINDOW_MAX:
                    raise _Fault(FLOW_CONTROL_ERROR, "the window is too large")
                change, self.stream_window = value - self.stream_window, value
                for stream in list(self.streams.values()):
                    stream.window += change
                    self.flush(stream)
        self._control(frame(SETTINGS, ACK, 0))

    def _take_ping(self, flags: int, number: int, payload: bytes) -> None:
        if number or len(payload) != 8:
            raise _Fault(FRAME_SIZE_ERROR, "no ping")
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
                raise _Fault(ENHANCE_YOUR_CALM, "too_many_pings")
        self._pinged = self._heard
        self._control(frame(PING, ACK, 0, payload))

    def _take_reset(self, number: int, payload: bytes) -> None:
        if not number or number > self._last or len(payload) != 4:
            raise _Fault(PROTOCOL_ERROR, "a reset of no stream")
        self._resets += 1
        if self._resets > RESETS_MAX:
            raise _Fault(ENHANCE_YOUR_CALM, "too many calls are given up")
        stream = self.streams.pop(number, None)
        if stream is not None:
            if not stream.is_ended:
                stream.lost()
            self._part()

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
            self.write(frame(DATA, 0, stream.number, data))
        if stream.is_ended and stream.trailers and not stream.waiting:
            trailers, stream.trailers = stream.trailers, b""
            self.write(frame(HEADERS, END_HEADERS | END_STREAM, stream.number, trailers))
            self.ended(stream)

    def ended(self, stream: Stream) -> None:
        """All of the answer has been written."""
        self._idle_frames = self._resets = 0
        if not stream.is_whole:  # RFC 9113 8.1: the rest is not wanted
            self._control(frame(RST_STREAM, 0, stream.number, _number(NO_ERROR)))
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
            times.append(self._born + self.crowd.bounds.head)
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
        gone = not self._is_greeted and now >= self._born + self.crowd.bounds.head
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
            or (self._is_unused and now >= self._born + self.crowd.bounds.head)
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

    def end(self) -> None:
        """Closes the connection."""
        self.crowd.leave(self)
        self.is_deaf = True
        self.transport.close()

    def no_grpc(self) -> None:
        """A request was none of gRPC; of a connection that is said once."""
        if not self._is_foreign:
            self._is_foreign = True
            self.crowd.foreign("http2", "gRPC")

    def _refuse_other(self, greeting: bytes) -> None:
        """Says what is spoken here, in HTTP/1.1 to who speaks that."""
        name = protocol_of(greeting, "gRPC")
        self.crowd.foreign(name, "gRPC")
        if name == "http1":
            self._control(NO_HTTP1)
        else:
            self._control(GREETING)
            text = "HTTP/2 with prior knowledge is spoken here"
            self._go_away(PROTOCOL_ERROR, text, self._last)
        self._hang_up()

    def _go_away(self, code: int, text: str, last: int) -> None:
        payload = _number(last) + _number(code) + text.encode()
        self._control(frame(GOAWAY, 0, 0, payload))


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise _Fault(PROTOCOL_ERROR, "more padding than there is")
    return payload[1 : len(payload) - payload[0]]
