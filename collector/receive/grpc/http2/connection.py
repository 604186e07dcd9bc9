"""HTTP/2 (RFC 9113) on one connection, as far as a gRPC server needs it.

Idea: frames are taken where they arrive, and a call is answered with one write. Streams are few and
short: a request that is read whole, an answer that fits a packet. So nothing is prioritised or
pushed, our header blocks are literals, and only an answer that is larger than its window waits.

This module reads frames. What stands alone has a module of its own: `frames` (bytes of a frame),
`header_blocks` over `hpack` and `header_fields` (headers), `read_turns`, `streams` (answers, windows),
`closed_streams`, `frame_budget` (floods), `keepalive` (pings), `lifetime` (age, GOAWAY).

Invariants:

- A turn is bounded (`TURN_SECONDS`). What is left waits in `rest`, and the socket is not read meanwhile.
- Every frame that asks for nothing is paid for from `FrameBudget`; calls that are answered earn.
- A fault of a stream resets that stream. A fault of the connection is named by GOAWAY, and nothing that
  follows it is looked at.

Example: a client sends preface, SETTINGS, HEADERS of stream 1 and DATA of 5 + n bytes with END_STREAM
in one packet. `_read` takes the preface and writes `OUR_PREFACE`; SETTINGS are acknowledged; HEADERS make
a `GrpcStream`; DATA goes to `GrpcStream.piece` without a copy, then `GrpcStream.complete` answers: HEADERS, DATA and
trailers in one write.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from collector.receive.grpc.http2.closed_streams import ClosedStreams
from collector.receive.grpc.http2.frame_budget import (
    BLOCK_BYTES_PER_FRAME,
    CALL_FRAMES,
    REFUSAL_FRAMES,
    RESET_FRAMES,
    SETTING_BYTES_PER_FRAME,
    SMALL_DATA_BYTES,
    FrameBudget,
)
from collector.receive.grpc.http2.frames import (
    ACK,
    BLOCK_BYTES_MAX,
    COMPRESSION_ERROR,
    CONTINUATION,
    DATA_BYTES_MAX,
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
    NUMBER_MASK,
    PADDED,
    PING,
    PRIORITY,
    PRIORITY_BYTES,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_UPDATE,
    ConnectionFault,
    check_frame,
    depends_on_itself,
    error_name,
    frame,
    number_of,
    setting,
    settings_of,
)
from collector.receive.grpc.http2.header_blocks import HeaderBlocks
from collector.receive.grpc.http2.header_fields import Section
from collector.receive.grpc.http2.hpack import Header, HpackError, TooLarge
from collector.receive.grpc.http2.keepalive import Keepalive
from collector.receive.grpc.http2.read_turns import ReadingConnection
from collector.receive.grpc.http2.streams import (
    STREAM_WINDOW,
    USUAL_WINDOW,
    GrpcStream,
)
from collector.receive.http.responses import error_response
from collector.receive.listener.connection_turns import TURN_SECONDS, Turns
from collector.receive.listener.connections import (
    LINGER_SECONDS,
    NEVER,
    Connections,
    Data,
    part,
)
from collector.receive.listener.protocol_detection import PREFACE, is_short, protocol_of
from collector.telemetry.counters import Stats

__all__ = ["Http2"]

STREAMS_MAX: Final = 256
CONNECTION_WINDOW: Final = 16 << 20
NO_HTTP1: Final = error_response(
    400,
    3,
    "gRPC over HTTP/2 is spoken here; OTLP over HTTP has a port of its own, usually 4318",
)


OUR_PREFACE: Final = frame(
    SETTINGS,
    0,
    0,
    setting(MAX_CONCURRENT_STREAMS, STREAMS_MAX)
    + setting(INITIAL_WINDOW_SIZE, STREAM_WINDOW)
    + setting(MAX_FRAME_SIZE, DATA_BYTES_MAX)
    + setting(MAX_HEADER_LIST_SIZE, BLOCK_BYTES_MAX),
) + frame(WINDOW_UPDATE, 0, 0, number_of(CONNECTION_WINDOW - USUAL_WINDOW))


FAREWELL: Final = b"farewell"
"""A ping behind the first GOAWAY: its answer shows that the client has read that, too."""


class Http2(ReadingConnection):
    """One connection.

    Args:
        start: makes a stream of a number.
        read: makes of headers what `GrpcStream.begin` wants.
        connections: the listener's connections.
        keepalive: for how long.
        turns: the listener's, too.
        stats: where faults are counted.
    """

    def __init__(
        self,
        start: Callable[[Http2, int], GrpcStream],
        read: Callable[[list[Header]], Any],
        connections: Connections,
        keepalive: Keepalive,
        turns: Turns,
        stats: Stats,
    ) -> None:
        super().__init__(connections, keepalive, turns)
        self.idle = True
        """Whoever is too slow here is counted by its call."""
        self._start = start
        self._head_of = read
        self._stats = stats
        self._blocks = HeaderBlocks()
        self._has_preface = self._has_settings = False
        self._last = 0
        """The highest number of a stream."""
        self._closed = ClosedStreams()
        self._data_of = self._data_flags = self._data_left = self._data_padding = 0
        """Stream and flags of the data frame that is being read, the bytes still to come, and their
        padding."""
        self._room = CONNECTION_WINDOW
        """Bytes of all bodies that may still come, before the client must wait for us."""
        self._budget = FrameBudget(self.life.born_at)

    @property
    def is_busy(self) -> bool:
        """Some call has begun and is not answered, or the client may not have read the last answer."""
        return bool(self.streams) or self.life.leaving_since is not None

    # --- the transport --------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.connections.register(self)
        self.connections.start_waiting(self)
        self._schedule()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self.connections.remove(self)
        self.is_discarding = True
        self._give_up()

    def _give_up(self) -> None:
        """Forgets what has begun, and what was to be read."""
        self.rest = b""
        self._blocks.forget()
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            if not stream.is_ended:
                stream.lost()

    def take_turn(self, data: Data) -> bool:
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
            self.rest = part(data, at, len(data))
            return has_more
        return False

    def _fail(self, code: int, text: str) -> None:
        """Names the fault, and looks at nothing more that comes."""
        self._stats.count("http2_errors", "connection", error_name(code))
        self._go_away(code, text, self._last)
        self.thrown_away = 0
        self._part_at_once()
        self._give_up()

    # --- frames ---------------------------------------------------------------------------------

    def _read(self, data: Data) -> tuple[int, bool]:
        """Takes whole frames; returns where the rest begins, and whether it was cut short.

        It is when the turn is over, or the client does not read what it is answered.
        """
        at, size = 0, len(data)
        ends = time.perf_counter() + TURN_SECONDS
        high: int  # what is unpacked is of any type, unless it is declared
        low: int
        kind: int
        flags: int
        number: int
        if not self._has_preface:
            if not self._read_preface(data):
                return 0, False
            at = len(PREFACE)
        while not self.is_discarding:
            if self._data_left:
                if at == size:
                    break
                at = self._take_data(data, at)
                continue
            begin = at + HEAD_BYTES
            if begin > size:
                break
            if time.perf_counter() >= ends or not self.client_reads:
                return at, True
            high, low, kind, flags, number = FRAME_HEAD.unpack_from(data, at)
            number &= NUMBER_MASK
            length = high << 16 | low
            if kind or flags & PADDED or length > DATA_BYTES_MAX:
                check_frame(kind, flags, number, length)
            if begin + (length if kind else flags & PADDED and 1) > size:
                break
            if self._blocks.number or not self._has_settings:
                self._expect(kind, flags, number)
            at = begin
            if kind:
                at += length
                self._take(kind, flags, number, part(data, begin, at))
            else:
                at = self._begin_data(flags, number, length, data, at)
        return at, False

    def _read_preface(self, data: Data) -> bool:
        """Whether HTTP/2 is spoken; another protocol gets an answer that says what is."""
        if part(data, 0, len(PREFACE)) != PREFACE:
            beginning = bytes(data)
            if not is_short(beginning):
                self._refuse_other(beginning)
            return False
        self._has_preface = True
        self.write_control(OUR_PREFACE)
        self._schedule()
        return True

    def _expect(self, kind: int, flags: int, number: int) -> None:
        """Whether such a frame may come now."""
        self._blocks.check_order(kind, number)
        if not self._has_settings and (kind != SETTINGS or flags & ACK):
            raise ConnectionFault(PROTOCOL_ERROR, "the first frame is not SETTINGS")

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        self._charge(1)
        if kind == HEADERS:
            block = self._blocks.begin(flags, number, payload)
            if block is not None:
                self._take_block(flags, number, block)
        elif kind == CONTINUATION:
            first_flags = self._blocks.flags
            block = self._blocks.go_on(flags, payload)
            if block is not None:
                self._take_block(first_flags, number, block)
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
        if not self._budget.spend(cost, self.pings.read_at):
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
        self.write_control(frame(RST_STREAM, 0, number, number_of(code)))
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
            self.write_control(
                frame(WINDOW_UPDATE, 0, 0, number_of(CONNECTION_WINDOW - self._room))
            )
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
            self.write_control(frame(WINDOW_UPDATE, 0, stream.number, more))
            stream.room = STREAM_WINDOW
        return end

    def _wants_more(self, stream: GrpcStream) -> bool:
        """The client needs a WINDOW_UPDATE of the stream."""
        is_low = stream.room < STREAM_WINDOW // 2
        return is_low and not stream.is_ended and stream.number in self.streams

    def _take_content(self, stream: GrpcStream, data: Data, at: int, end: int) -> None:
        stream.has_body = True
        if stream.left >= 0:
            stream.left -= end - at
            if stream.left < 0:
                self._blame(stream.number, PROTOCOL_ERROR)
                return
        if not stream.is_ended:
            stream.piece(data, at, end)

    def _complete(self, stream: GrpcStream) -> None:
        """The client has sent all; nothing is done where its stream is over."""
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

    def _take_block(self, flags: int, number: int, block: bytes) -> None:
        self._charge(len(block) // BLOCK_BYTES_PER_FRAME)
        section = self._blocks.decoder.decode(block)  # in any case: the next one builds on it
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
        elif self.life.is_parted:
            self._closed.add(number)  # the client knows by GOAWAY
        elif len(self.streams) >= STREAMS_MAX:
            self.reset(number, REFUSED_STREAM)
        else:
            self._begin(number, section, is_whole)
        if is_whole:
            self._closed.discard(number)

    def _begin(self, number: int, section: Section, is_whole: bool) -> None:
        self.connections.start_waiting(self)
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
            self.widen(more)
            return
        if self._is_idle(number):
            raise ConnectionFault(PROTOCOL_ERROR, "a window update of no stream")
        stream = self.streams.get(number)
        if stream is None:
            return  # of a call that is over
        fault = self.widen_stream(stream, more)
        if fault != NO_ERROR:
            self._blame(number, fault)

    def _take_settings(self, flags: int, payload: bytes) -> None:
        self._has_settings = True
        if flags & ACK:
            return
        self._charge(len(payload) // SETTING_BYTES_PER_FRAME)
        window = settings_of(payload).get(INITIAL_WINDOW_SIZE, self.stream_window)
        self.write_control(frame(SETTINGS, ACK, 0))
        self.use_stream_window(window)

    def _take_ping(self, flags: int, payload: bytes) -> None:
        if flags & ACK:
            self.pings.answered()
            if payload == FAREWELL and self.life.leaving_since is not None:
                self._part_with()
            self._schedule()
        elif self.pings.takes():
            self.write_control(frame(PING, ACK, 0, payload))
        else:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "too_many_pings")

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

    # --- the end of a stream --------------------------------------------------------------------

    def ended(self, stream: GrpcStream) -> None:
        """All of the answer has been written."""
        if not stream.is_whole:  # RFC 9113 8.1: the rest is not wanted
            self.write_control(frame(RST_STREAM, 0, stream.number, number_of(NO_ERROR)))
            self._closed.add(stream.number)
        useful = stream.is_whole and stream.has_body
        self._budget.earn(CALL_FRAMES if useful else REFUSAL_FRAMES)
        if self.streams.pop(stream.number, None) is not None:
            self._part()

    def _part(self) -> None:
        """A stream is over."""
        if self.streams:
            return
        self.life.quiet_since = self.pings.read_at
        if self.life.is_parted:
            self._hang_up()
        elif self.life.has_idle_limit:
            self._schedule()

    # --- time -----------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """When to look again."""
        if self.is_discarding:
            return
        due = self.life.due_at(is_unused=not self._last, is_quiet=not self.streams)
        due = min(due, self.pings.due_at())
        for stream in self.streams.values():
            due = min(due, stream.deadline)
        self.deadline = due

    def time_out(self) -> None:
        """Does what is due."""
        if self.is_discarding:
            self.end()
            return
        now, life = self.now(), self.life
        gone = not self._has_preface and life.is_mute(now)
        for stream in [each for each in self.streams.values() if each.deadline <= now]:
            stream.deadline = NEVER
            gone |= bool(stream.waiting)
            stream.late()
        gone |= self.pings.is_unanswered(now)
        if self.pings.sends(now):
            self.write_control(frame(PING, 0, 0, b"offrails"))
        if life.leaving_since is not None:
            gone |= life.is_grace_over(now)
            if life.knows_to_go(now):
                self._part_with()
        elif life.is_over(now, is_unused=not self._last, is_quiet=not self.streams):
            self.shut_down()
        if gone:
            self.end()
        self._schedule()

    # --- the end --------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Asks the client to go; the calls that it begins before it knows are answered.

        It gets GOAWAY twice (RFC 9113 6.8): first without a last stream, and once it has answered a ping
        that follows, with the last one that it began.
        """
        if not self._has_preface:
            self.end()
        elif self.life.leaving_since is None:
            self.life.leaving_since = self.now()
            self._go_away(NO_ERROR, "going away", NUMBER_MASK)
            self.write_control(frame(PING, 0, 0, FAREWELL))
            self._schedule()

    def _part_with(self) -> None:
        """The client knows, or had its time: what it has begun by now is all that is answered."""
        if not self.life.is_parted:
            self.life.is_parted = True
            self._go_away(NO_ERROR, "going away", self._last)
            if not self.streams:
                self._hang_up()

    def _hang_up(self) -> None:
        """Says nothing more, and leaves it to the client to close.

        What it still sends is thrown away: closed with something unread, the kernel would take back
        what the client has not read of our answers.
        """
        self.is_discarding = True
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
        self.connections.stop_waiting(self)
        self.is_discarding = True
        self.transport.close()

    def _refuse_other(self, beginning: bytes) -> None:
        """Says what is spoken here, in HTTP/1.1 to who speaks that."""
        name = protocol_of(beginning, "gRPC")
        self.connections.count_foreign(name, "gRPC")
        if name == "http1":
            self.write_control(NO_HTTP1)
        else:
            self.write_control(OUR_PREFACE)
            text = "HTTP/2 with prior knowledge is spoken here"
            self._go_away(PROTOCOL_ERROR, text, self._last)
        self._part_at_once()

    def _go_away(self, code: int, text: str, last: int) -> None:
        payload = number_of(last) + number_of(code) + text.encode()
        self.write_control(frame(GOAWAY, 0, 0, payload))
