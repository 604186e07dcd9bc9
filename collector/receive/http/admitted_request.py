"""A request that is admitted before its body is read: what OTLP/HTTP and the decisions before calls share.

The head decides: the path, the method, the page it comes from, the name it is sent to, the media type, the token of its
sender, and whether there is room. Then the body is kept piece by piece, within its bound, and taken where its last
byte arrives. A subclass says which paths there are, what to do with a body, and how an answer is written.

Invariant: a request holds a place from the first byte of its body to its answer, or until its client has gone.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import httptools

from collector.net.host_guard import HostGuard, is_foreign, is_local_name
from collector.receive.admission import Admission, AdmissionPlace
from collector.receive.http.connection import Exchange, HttpConnection
from collector.receive.http.responses import head_of
from collector.receive.listener.connections import Connections
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import Stats

__all__ = ["AdmittedExchange", "HttpResponse", "Service", "refusal_headers", "routed"]

PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"authorization, content-encoding, content-type"),
    (b"access-control-max-age", b"7200"),
)
CODES: Final = {each.value: str(each.value) for each in HTTPStatus}
SMALL_BYTES: Final = 4 << 10
"""Pieces of a body up to this are joined as they come: an object for each would cost more than it."""
DRAIN_FACTOR: Final = 4
"""Limits of a body over the limit that are read and thrown away before the answer: most clients
send all of it before they listen."""
TOO_LARGE: Final = ExportStatus.TOO_LARGE.value.http

Route = TypeVar("Route")


def routed(paths: Mapping[bytes, Route], url: bytes) -> Route | None:
    """What stands at the path of a request's target, which may have a query and percent codes; None if nothing does."""
    found = paths.get(url)
    if found is None:
        target: Any = httptools.parse_url(url)  # whose parts may be None
        path: bytes = target.path or b""
        found = paths.get(unquote(path.decode("ascii")).encode())
    return found


class HttpResponse:
    """What goes out.

    Args:
        status: of HTTP.
        body: of the answer.
        headers: beside those about the body.
        whole: all of it, where nothing about the request or the connection changes it.
    """

    __slots__ = ("body", "code", "headers", "status", "whole")

    def __init__(
        self,
        status: int,
        body: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        whole: bytes = b"",
    ) -> None:
        self.status = status
        self.code = CODES[status]
        self.body = body
        self.headers = headers
        self.whole = whole


class Service(ABC):
    """What the requests of one listener share.

    Args:
        stats: counts them.
        max_body: bytes, before and after decompression.
        admission: who is let in.
        origins: of pages whose browsers may send (CORS), as `https://*.example.com`; none by
            default.
        guard: by which names it is reached.
    """

    def __init__(
        self,
        stats: Stats,
        max_body: int,
        admission: Admission | None = None,
        origins: Sequence[str] = (),
        guard: HostGuard | None = None,
    ) -> None:
        self.stats = stats
        self.max_body = max_body
        self.admission = admission or Admission()
        self.origins = tuple(origin.lower() for origin in origins)
        self.guard = guard or HostGuard("")

    def __call__(self, connections: Connections) -> HttpConnection:
        return HttpConnection(self.start, connections)

    @abstractmethod
    def start(self, connection: HttpConnection) -> Exchange:
        """The exchange of a request that begins."""

    @abstractmethod
    def fault(self, error: Exception) -> Refusal:
        """Counts and logs an error of ours; returns the refusal for the sender."""


class AdmittedExchange(Exchange):
    """One request."""

    _sender: str | None = None
    _place: AdmissionPlace | None = None
    _foreign: str | None = None
    """Why the sender may not send."""
    _size = 0

    def __init__(self, connection: HttpConnection, service: Service) -> None:
        super().__init__(connection)
        self._service = service
        self._found: dict[bytes, bytes] = {}
        """Headers by name; of several, the first."""
        self._pieces: list[bytes | bytearray] = []

    # --- what a subclass says -------------------------------------------------------------------

    @abstractmethod
    def _check(self) -> None:
        """Checks path, method and media type, in this order; may answer.

        Raises:
            Refusal: the request cannot be taken.
        """

    @abstractmethod
    def _take(self) -> None:
        """The body is whole: answers, or has a task answer.

        Raises:
            Refusal: to be answered.
        """

    @abstractmethod
    def _refused(self, refusal: Refusal) -> HttpResponse:
        """The answer to a request that is refused."""

    @abstractmethod
    def _content_type(self) -> bytes:
        """The media type of the answer."""

    @abstractmethod
    def _count(self, code: str) -> None:
        """Counts the request by its status."""

    @abstractmethod
    def _count_lost(self) -> None:
        """Counts a client that went in the middle of its request."""

    # --- the head -------------------------------------------------------------------------------

    def header(self, name: bytes, value: bytes) -> None:
        if name not in self._found:
            self._found[name] = value
        elif name == b"transfer-encoding":  # codings in several lines are one list
            self._found[name] += b", " + value

    def headers_of(self, names: frozenset[bytes]) -> list[tuple[bytes, bytes]]:
        return [header for header in self._found.items() if header[0] in names]

    def _refuses(self) -> str | None:
        """Why who sends it may not: another site's page, or a name that is not ours."""
        host, origin = self._found.get(b"host"), self._found.get(b"origin")
        if origin is not None and is_foreign(origin, host) and not self._is_granted():
            return "pages of other sites may not send here (receiver.cors.origins)"
        if origin is None and host is not None and is_local_name(host):
            return None  # no browser's page, which would say its origin
        return self._service.guard.refuses_host(host)

    # --- what comes in --------------------------------------------------------------------------

    def begin(self) -> None:
        try:
            self._enter()
        except Refusal as refusal:
            self._answer(self._refused(refusal))

    def _enter(self) -> None:
        """Checks all that the head says; afterwards there is a place, or an answer."""
        self._check()
        if self.is_answered:
            return
        admission = self._service.admission
        self._sender = (
            admission.sender(self._text(b"authorization")) if admission.needs_token else None
        )
        self._place = admission.enter(self._sender, self.connection.client, self)
        expected = self._found.get(b"expect")
        if expected is not None:
            length = self._found.get(b"content-length", b"")
            if length.isdigit() and int(length) > self._service.max_body:
                raise self._too_large()  # it has not been sent yet, and need not be
            self.go_on(expected)

    def piece(self, data: bytes) -> None:
        """Keeps some of the body; one over the limit is drained, not kept."""
        assert self._place is not None
        self._size += len(data)
        if self._size > self._service.max_body:
            self._pieces.clear()
            self._place.release()
            if self._size > self._service.max_body * DRAIN_FACTOR:
                self._answer(self._refused(self._too_large()))
            return
        try:
            self._place.grow(len(data))
        except Refusal as refusal:
            self._answer(self._refused(refusal))
            return
        pieces = self._pieces
        if len(data) > SMALL_BYTES or not pieces:
            pieces.append(data)
        elif isinstance(pieces[-1], bytearray):
            pieces[-1] += data
        else:
            pieces.append(bytearray(data))

    def complete(self) -> None:
        if self._size > self._service.max_body:
            self._answer(self._refused(self._too_large()))
            return
        try:
            self._take()
        except Refusal as refusal:
            self._answer(self._refused(refusal))
        except Exception as error:  # noqa: BLE001 - whatever it was, others are served
            self._answer(self._refused(self._service.fault(error)))

    def lost(self) -> None:
        self._leave()
        if not self.is_whole:
            self._count_lost()

    def _answer_later(self, reply: Callable[[], Coroutine[Any, Any, HttpResponse]]) -> None:
        """Has a task answer. It holds the request's place to its end, also where the connection is lost."""
        place, self._place = self._place, None
        if place is not None:
            place.keep()
        tasks = self.connection.connections.tasks
        task = asyncio.get_running_loop().create_task(self._answer_by(reply, place))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _answer_by(
        self,
        reply: Callable[[], Coroutine[Any, Any, HttpResponse]],
        place: AdmissionPlace | None,
    ) -> None:
        try:
            found = await reply()
        except Refusal as refusal:
            found = self._refused(refusal)
        except Exception as error:  # noqa: BLE001 - as above
            found = self._refused(self._service.fault(error))
        finally:
            if place is not None:
                place.leave()
        self._answer(found)

    def _body(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return whole if isinstance(whole, bytes) else bytes(whole)

    def crowd_out(self, refusal: Refusal) -> None:
        """Its body is not whole, and its place is given to another."""
        if not self.is_answered:
            self._answer(self._refused(refusal))

    def _leave(self) -> None:
        self._pieces.clear()
        if self._place is not None:
            self._place.leave()
            self._place = None

    # --- what goes out --------------------------------------------------------------------------

    def _answer(self, reply: HttpResponse) -> None:
        """Writes all of the answer at once."""
        self._leave()
        self._count(reply.code)
        if reply.status == TOO_LARGE and not self.is_whole:  # the rest may be much
            self.keep_alive = False
        if reply.whole and self.keep_alive and not self._service.origins:
            self.write(reply.whole)
        else:
            self.write(self._worded(reply))
        self.connection.answered(self)

    def _worded(self, reply: HttpResponse) -> bytes:
        headers = list(reply.headers)
        if reply.status != 204:  # RFC 9110 8.6: MUST NOT have a length
            headers.append((b"content-type", self._content_type()))
            headers.append((b"content-length", b"%d" % len(reply.body)))
        if self._service.origins:
            headers += self._grant()
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        body = b"" if self.method == b"HEAD" else reply.body
        return head_of(reply.status, headers) + b"\r\n" + body

    def _grant(self) -> list[tuple[bytes, bytes]]:
        """Headers by which a browser lets its page send; nothing for other origins."""
        vary = [(b"vary", b"origin")]
        if not self._is_granted():
            return vary
        granted = [(b"access-control-allow-origin", self._found[b"origin"]), *vary]
        return [*granted, *PREFLIGHT] if self._is_preflight() else granted

    def _is_granted(self) -> bool:
        """Its origin is one whose pages may send."""
        origin = self._text(b"origin").lower()
        return bool(origin) and any(
            fnmatchcase(origin, allowed) for allowed in self._service.origins
        )

    def _is_preflight(self) -> bool:
        """A browser asks whether a page of the origin may send."""
        return b"origin" in self._found and b"access-control-request-method" in self._found

    def _text(self, name: bytes) -> str:
        return self._found.get(name, b"").decode("latin-1")

    def _too_large(self) -> Refusal:
        limit = self._service.max_body
        return Refusal(ExportStatus.TOO_LARGE, f"the body has more than {limit} bytes")


def refusal_headers(refusal: Refusal) -> list[tuple[bytes, bytes]]:
    """Headers that the status of a refusal asks for."""
    headers = []
    if refusal.status is ExportStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    if refusal.status is ExportStatus.UNAUTHENTICATED:
        headers.append((b"www-authenticate", b"Bearer"))  # RFC 9110 11.6.1: MUST
    if refusal.status.value.retryable:
        headers.append((b"retry-after", str(refusal.retry_seconds).encode()))
    return headers
