"""HTTP/1.1 on one connection: httptools parses, and what comes of it is an `Exchange`.

Everything is done where it arrives, in the callbacks of the parser: no task, no timer and one write
a request. Requests that follow before the one in front is answered wait their turn (RFC 9112 9.3.2),
and no more of them is read meanwhile.

The parser cannot be stopped within what it is given, so that is a small slice each time; requests that
it finds there after the connection's turn (`turns`) has ended wait, too.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import httptools

from collector.receive.http.head_cache import KnownHead, known_head
from collector.receive.http.responses import error_response
from collector.receive.http.turns import SLICE_BYTES, TURN_SECONDS, TurnConnection
from collector.receive.listener.connections import (
    LINGER_SECONDS,
    NEVER,
    Connections,
    Data,
    part,
)
from collector.receive.listener.protocol_detection import protocol_of

__all__ = ["Exchange", "HttpConnection"]

IDLE_SECONDS_MAX: Final = 75
"""Keep-alive. Exporters send every few seconds; a connection is dear to them."""
HEADER_BYTES_MAX: Final = 256 << 10
"""Header bytes of one request. Generous: one read of the socket may bring that many at once."""
HEADER_FIELDS_MAX: Final = 1_000
"""Header fields of one request; each costs far more memory than its bytes."""
BODY_SLICE_BYTES: Final = 32 << 10
"""Bytes given to the parser at once in the middle of a body."""
UNREAD_SECONDS_MAX: Final = 20.0
"""Time for a client to read a buffer of ours, usually 48 KiB; then the connection is closed."""
HEADS_MAX: Final = 3
"""Heads remembered of a connection: one sender sends traces, metrics and logs."""
UNUSUAL: Final = frozenset((b"expect", b"transfer-encoding", b"upgrade"))
"""Headers after which more is to be done than to read a body."""
FRAMING: Final = frozenset((b"content-length", b"transfer-encoding"))
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
HEADERS_TOO_LARGE: Final = error_response(431, 8, "headers are too large")
TOO_SLOW: Final = error_response(408, 4, "the request did not arrive in time")
NOT_HTTP: Final = error_response(400, 3, "not an HTTP/1.1 request")
WRONG_HOST: Final = error_response(400, 3, "expected one Host header with a host")
CHUNKED_1_0: Final = error_response(400, 3, "HTTP/1.0 has no Transfer-Encoding")
CODED: Final = frozenset((b"transfer-encoding",))
HOST: Final = re.compile(
    rb"(?:\[[0-9A-Za-z:.%~_-]+\]|[0-9A-Za-z.~_!$&'()*+,;=%-]*)(?::[0-9]*)?"
)
"""RFC 9110 7.2: a host as RFC 3986 writes it, and perhaps a port."""


class Exchange(ABC):
    """One request and its answer, which `HttpConnection.answered` ends."""

    method = b""
    url = b""
    version = "1.1"
    keep_alive = True
    is_whole = False
    """True once all of the request has arrived."""
    is_begun = False
    """True once some of the answer has been sent."""
    is_answered = False

    def __init__(self, connection: HttpConnection) -> None:
        self.connection = connection

    @abstractmethod
    def header(self, name: bytes, value: bytes) -> None:
        """One has come, its name in small letters."""

    @abstractmethod
    def headers_of(self, names: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
        """Those of these names that have come."""

    @abstractmethod
    def route(self) -> None:
        """The head has come.

        Raises:
            httptools.HttpParserInvalidURLError: the target is none.
        """

    def again(self) -> Exchange | None:
        """One with the same head, but for its length; None if each is to be read anew."""
        return None

    @abstractmethod
    def begin(self) -> None:
        """All that came before is answered."""

    @abstractmethod
    def piece(self, data: bytes) -> None:
        """Some of the body; not called once it is answered."""

    @abstractmethod
    def complete(self) -> None:
        """The body has ended; not called once it is answered."""

    @abstractmethod
    def lost(self) -> None:
        """The client has gone before it was answered."""

    def write(self, data: bytes) -> None:
        """Sends some of the answer, while there is somebody to read it."""
        self.is_begun = True
        if not self.connection.is_discarding:
            self.connection.transport.write(data)

    def go_on(self, expected: bytes) -> None:
        """Tells a client that asks first, by its Expect header, that it may send the body."""
        asks = expected.lower() == b"100-continue"
        if asks and not (self.is_whole or self.is_begun or self.connection.is_discarding):
            self.connection.transport.write(CONTINUE)


class HttpConnection(TurnConnection):
    """One connection, with bounds on size and time of what its client sends.

    Args:
        start: makes an exchange when a request begins.
        connections: the listener's connections.
    """

    def __init__(
        self, start: Callable[[HttpConnection], Exchange], connections: Connections
    ) -> None:
        super().__init__(connections)
        self.idle = False
        """True between two requests."""
        self._start = start
        self._now = asyncio.get_running_loop().time
        self._parser: Any = _parser(self)
        self._reading: Exchange | None = None
        """The request that is being parsed."""
        self._first: Exchange | None = None
        """The first request that began in what is being parsed."""
        self._heads: list[tuple[KnownHead, Exchange]] = []
        """Known heads, each with its first exchange."""
        self._left = 0
        """Bytes left of a body whose head was known: the parser does not get them."""
        self._declined: Exchange | None = None
        """The same, while a parser reads its head once more."""
        self._front: Exchange | None = None
        """The request whose turn it is; answered, it stays here until the next one's."""
        self._later: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        """Parsed parts of requests that are not in front."""
        self._head_bytes = 0
        """Bytes without a body that ended no request: headers, trailers, the framing of chunks."""
        self._fields = 0
        self._hosts: list[bytes] = []
        """Headers of the request that is being parsed."""
        self._in_head = False
        self._is_timed = False
        """The deadline is that of what is being read."""
        self._first_bytes = b""
        self._is_http = False
        self._born = self._now()
        self._leaving = False
        self._is_turn_due = False
        """True if parsed parts go on in the next round of the loop."""

    @property
    def is_busy(self) -> bool:
        """A request has begun and is not answered."""
        return self._front is not None and not self._front.is_answered

    # --- the transport --------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.deadline = self._born + self.connections.bounds.head
        self.connections.register(self)
        self.connections.start_waiting(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self.connections.remove(self)
        self.is_discarding = True
        self._later.clear()
        self._unread = b""
        self._let_write()
        front, self._front, self._reading = self._front, None, None
        self._parser = self._first = None  # they know each other
        self._heads.clear()
        if front is not None and not front.is_answered:
            front.lost()

    def _consume(self, data: Data, head: bytes) -> None:
        begun = self._reading
        at, size = 0, len(data)
        if self._left:
            at = self._go_on(data, 0)
        elif begun is None and self._heads:
            at = self._take_known(data, head)
        while at < size and not self.is_discarding:
            if self._held or (at and perf_counter() >= self._turn_end):
                self._unread = part(data, at, size)
                self.connections.count_deferred()
                break
            is_framed = self._in_head or self._reading is None
            end = min(at + (SLICE_BYTES if is_framed else BODY_SLICE_BYTES), size)
            if not self._feed(data if size == end - at else data[at:end], b"" if at else head):
                return
            at = end
        reading = self._reading
        if reading is not None and not self._held:
            self._time(is_new=reading is not begun)

    def _feed(self, data: Data, head: bytes) -> bool:
        """Has the parser take it; False if it was refused."""
        if not self._is_http and head:
            self._first_bytes = head[:24]
        is_between = self._reading is None
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self._refuse_other()
            return False
        first, self._first = self._first, None
        if is_between and head and first is not None and len(self._heads) < HEADS_MAX:
            self._learn(first, head)
        self._head_bytes += len(data)
        too_large = self._head_bytes > HEADER_BYTES_MAX
        if too_large and not self.is_discarding and not self.transport.is_closing():
            self._refuse(HEADERS_TOO_LARGE)
            return False
        return True

    def pause_writing(self) -> None:
        self._is_writable = False
        self.writable.clear()
        if not self.is_discarding:
            self._wait(UNREAD_SECONDS_MAX)

    def resume_writing(self) -> None:
        self._let_write()
        if self.is_discarding:
            return
        front = self._front
        if front is not None and not front.is_answered:
            if front.is_whole:
                self.deadline = NEVER
                self.connections.stop_waiting(self)
            else:
                self._wait(self.connections.bounds.body)
        self._listen()

    def _parse(self, data: Data) -> None:
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = memoryview(data)[upgrade.args[0] :]
                self._decline()
            else:
                return

    def _decline(self) -> None:
        """Goes on in HTTP/1.1 after a head that asked for another protocol (RFC 9110 7.8).

        The parser takes what follows such a head for the other protocol; another one gets how
        long the body is.
        """
        reading, self._reading = self._reading, None
        self._parser = _parser(self)
        if reading is not None:
            framing = reading.headers_of(FRAMING)
            self._declined = reading
            self._parser.feed_data(
                b"POST / HTTP/1.1\r\n%b\r\n"
                % b"".join(b"%b: %b\r\n" % each for each in framing)
            )

    # --- heads that are known -------------------------------------------------------------------

    def _learn(self, first: Exchange, head: bytes) -> None:
        """Remembers the head of a request that was parsed, if the next one may have the same."""
        if (
            first.method != b"POST"
            or not head.startswith(b"POST ")
            or not first.keep_alive
            or first.headers_of(UNUSUAL)
            or self._declined is not None
        ):
            return
        known = known_head(head)
        if known is not None and first.again() is not None:
            self._heads.append((known, first))

    def _take_known(self, data: Data, head: bytes) -> int:
        """Takes a request whose head is known, as far as it has come; returns where that ends."""
        if self.is_busy or self._later:
            return 0
        for known, first in self._heads:
            length, at = known.read(head)
            exchange = first.again() if length else None
            if exchange is not None:
                self.idle = self._is_timed = False
                exchange.keep_alive = not self._leaving and not self._is_old()
                self._left = length
                self._reading = self._front = exchange
                exchange.begin()
                return self._go_on(data, at)
        return 0

    def _go_on(self, data: Data, at: int) -> int:
        """Takes more of the body of such a request; returns where that ends."""
        end = min(at + self._left, len(data))
        self._left -= end - at
        reading = self._reading
        if reading is not None and end > at and not reading.is_answered:
            reading.piece(part(data, at, end))
        if not self._left and reading is not None and not self.is_discarding:
            self._reading = None
            self._complete(reading)
        return end

    # --- the parser -----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._declined is not None:
            return
        self.idle = self._is_timed = False
        self._in_head = True
        self._head_bytes = self._fields = 0
        self._hosts.clear()
        self._reading = self._start(self)
        if self._first is None:
            self._first = self._reading

    def on_url(self, url: bytes) -> None:
        if self._reading is not None:
            self._reading.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._reading is not None:  # it is, but while a head is read once more
            name = name.lower()
            self._fields += 1
            if name == b"host":
                self._hosts.append(value)
            if self._fields <= HEADER_FIELDS_MAX:
                self._reading.header(name, value)
            elif not self.is_discarding:
                self._refuse(HEADERS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        if self._declined is not None:
            self._reading, self._declined = self._declined, None
            return
        self._in_head = False
        self._head_bytes = 0
        self._is_http = True
        reading = self._reading
        assert reading is not None
        reading.method = self._parser.get_method()
        reading.version = self._parser.get_http_version()
        reading.keep_alive = (
            not self._leaving
            and reading.version != "1.0"
            and self._parser.should_keep_alive()
            and not self._is_old()
        )
        if not self.is_discarding:
            self._check_framing(reading)
        if self.is_discarding:
            return
        reading.route()
        self._is_timed = False
        if self._front is None or (self._front.is_answered and not self._must_wait()):
            self._front = reading
            reading.begin()
            return
        self._later.append((self._begin, (reading,)))
        self._hold()
        if not self.is_busy:
            self._go_on_later()

    def _must_wait(self) -> bool:
        """Whether a request waits though the one before it is answered: others do, or the turn has ended."""
        if self._later:
            return True
        return self._turn_end != NEVER and perf_counter() >= self._turn_end

    def _check_framing(self, reading: Exchange) -> None:
        """Refuses a request that RFC 9112 has a server refuse, and that the parser takes."""
        hosts = self._hosts
        if reading.version == "1.0":
            if reading.headers_of(CODED):  # 6.1: its framing is faulty
                self._refuse(CHUNKED_1_0)
                return
        elif not hosts:
            self._refuse(WRONG_HOST)  # 3.2
            return
        if len(hosts) > 1 or (hosts and HOST.fullmatch(hosts[0]) is None):
            self._refuse(WRONG_HOST)

    def on_body(self, piece: bytes) -> None:
        self._head_bytes = 0
        reading = self._reading
        if self.is_discarding or reading is None:
            return
        if reading is not self._front:
            self._later.append((self._piece, (reading, piece)))
        elif not reading.is_answered:
            reading.piece(piece)

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        self._head_bytes = 0
        reading, self._reading = self._reading, None
        if self.is_discarding or reading is None:
            return
        if reading is self._front:
            self._complete(reading)
        else:
            self._later.append((self._complete, (reading,)))

    # --- turns ----------------------------------------------------------------------------------

    def _begin(self, exchange: Exchange) -> None:
        self._front = exchange
        exchange.begin()

    def _piece(self, exchange: Exchange, piece: bytes) -> None:
        if not exchange.is_answered:
            exchange.piece(piece)

    def _complete(self, exchange: Exchange) -> None:
        exchange.is_whole = True
        if exchange.is_answered:
            self._rest()
        else:
            self.deadline = NEVER
            exchange.complete()
            if not exchange.is_answered:
                self.connections.stop_waiting(self)

    def answered(self, exchange: Exchange) -> None:
        """The answer has been written."""
        exchange.is_answered = True
        if self._is_body_paused:
            self.take_no_body(is_paused=False)
        if not exchange.keep_alive:
            self._hang_up(is_read=exchange.is_whole)
            self.connections.moved.set()
            return
        if exchange.is_whole:
            self._rest()
        if not self._is_writable:
            self._hold()
        if self._held:
            self._go_on_later()

    def _go_on_later(self) -> None:
        """Has what was parsed go on once the other connections have had their turn."""
        if not self._is_turn_due:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _take_turns(self) -> None:
        """Goes on with what was parsed meanwhile, and then listens again."""
        self._is_turn_due = False
        ends = perf_counter() + TURN_SECONDS
        while self._later and not self.is_discarding and self._is_next():
            event, arguments = self._later.popleft()
            event(*arguments)
            if self._later and perf_counter() >= ends:
                self._go_on_later()
                return
        self._listen()

    def _is_next(self) -> bool:
        """Whether the next event is not one of a request that has to wait."""
        _, arguments = self._later[0]
        return not self.is_busy or arguments[0] is self._front

    def _listen(self) -> None:
        """Reads again, unless there is still something to do first."""
        if not self._held or self.is_discarding or self._later or not self._is_writable:
            return
        self._held = False
        bounds = self.connections.bounds
        if self._reading is not None:
            self._is_timed = True
            self._wait(bounds.head if self._in_head else bounds.body)
        elif not self.is_busy:
            self._rest()
        if not self._is_yielding:
            self._read_on()

    # --- time -----------------------------------------------------------------------------------

    def _time(self, *, is_new: bool) -> None:
        """What has begun to come, and is not whole, has until then: looked at once a read."""
        if not self._is_timed:
            self._is_timed = True
            bounds = self.connections.bounds
            self.deadline = self._now() + (bounds.head if self._in_head else bounds.body)
        if is_new:
            self.connections.start_waiting(self)

    def _wait(self, seconds: float) -> None:
        self.deadline = self._now() + seconds
        self.connections.start_waiting(self)

    def _rest(self) -> None:
        """Nothing is under way."""
        self.idle = True
        if self._is_writable:
            self._wait(IDLE_SECONDS_MAX)

    def _is_old(self) -> bool:
        age = self.connections.bounds.age
        return age is not None and self._now() - self._born >= age

    # --- the end --------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Closes an idle connection now, a busy one after its answer."""
        self._leaving = True
        if self._front is not None and self.is_busy:
            self._front.keep_alive = False
        else:
            self.is_discarding = True
            self.transport.close()

    def time_out(self) -> None:
        """Closes the connection, with an answer to what did not arrive in time."""
        if self.is_stalled:
            self.end()
            self.transport.abort()  # nothing more would be read
            return
        begun = self._front is not None and self.is_busy and self._front.is_begun
        if (self._in_head or self.is_busy) and not begun and not self.is_discarding:
            self.transport.write(TOO_SLOW)
        self.end()

    def end(self) -> None:
        """Closes the connection."""
        self.connections.stop_waiting(self)
        self.is_discarding = True
        self.transport.close()

    def _refuse_other(self) -> None:
        if not self._is_http:
            self.connections.count_foreign(protocol_of(self._first_bytes, "HTTP"), "HTTP")
        self._refuse(NOT_HTTP)

    def _refuse(self, words: bytes) -> None:
        """Says the last words."""
        self.transport.write(words)
        self._hang_up(is_read=False)

    def _hang_up(self, *, is_read: bool) -> None:
        """Closes; where not all was read, once the client has had a chance to read our words."""
        self.is_discarding = True
        self._unread = b""
        if is_read or self.transport.is_closing() or not self.transport.can_write_eof():
            self.transport.close()
            return
        self._in_head = self.idle = False
        self._wait(LINGER_SECONDS)
        self.transport.write_eof()
        if self._held or self._is_yielding:
            self.transport.resume_reading()


def _parser(connection: HttpConnection) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(connection)
    # What follows a request that closes the connection is not listened to, and no fault.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
