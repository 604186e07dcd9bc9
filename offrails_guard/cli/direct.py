"""The guard of a process that asks once: one connection, in the thread that asks.

A hook is a process for each call. When many start at once they wait for the processor, and that is no reason to let
their calls go on. So the deadline counts the time that the service takes: of each wait for it no more than was asked for,
however long this process was kept from going on (`patience`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from offrails_guard.base import BaseGuard
from offrails_guard.decision import Decision, Outcome
from offrails_guard.question import Question
from offrails_guard.transport.patience import Patience
from offrails_guard.transport.wire import (
    ANSWER_BYTES_MAX,
    DECIDE,
    OUTCOME,
    TOO_MUCH,
    URL,
    Failure,
    ResultError,
    ServiceAddress,
    ServiceResponse,
    headers_of,
    outcome_body,
    read_answer,
    read_outcome,
)

if TYPE_CHECKING:
    import ssl

__all__ = ["DirectGuard"]

PORTS: Final = {"http": 80, "https": 443}

Done = TypeVar("Done")


class DirectGuard(BaseGuard):
    """Asks a running service over a connection for each question.

    Args:
        url: `http://HOST:PORT`, `https://...`, or `unix:/path` of a socket.
        deadline_seconds: how long the service may take for a question, and for an outcome.
        token: of the service's `decide` listener.
        ca: file with the trusted authorities, PEM; the system's where it is not given.
        named: what every guard takes; see `BaseGuard`.

    Raises:
        ValueError: the URL or an attribute cannot be used.
        OSError: the file of authorities cannot be read.
    """

    def __init__(
        self,
        url: str = URL,
        *,
        deadline_seconds: float,
        token: str | None = None,
        ca: str | None = None,
        **named: Any,
    ) -> None:
        super().__init__(**named)
        self.deadline_seconds: Final = deadline_seconds
        self._address = ServiceAddress.of(url)
        self._headers = headers_of(self._address, token)
        self._trust = _trust(ca) if self._address.has_tls else None

    def outcome(self, decision_id: str, outcome: Outcome, result: tuple[Any, ...] = ()) -> None:
        """Says what became of a call, and waits until the service has it; "" as the id is nobody's call."""
        if not decision_id:
            return
        try:
            patience = Patience(self.deadline_seconds)
            body = self._outcome_body(decision_id, outcome, result)
            answer = self._post(OUTCOME, body, patience)
            if result and answer.status in TOO_MUCH:
                self._lose("results_lost", ResultError("the service does not read it"))
                answer = self._post(OUTCOME, outcome_body(decision_id, outcome), patience)
            read_outcome(answer)
        except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
            self._lose("outcomes_lost", problem)

    def _decide(self, question: Question) -> list[Decision]:
        question, patience = question.named(), Patience(self.deadline_seconds)
        try:
            answer = self._post(DECIDE, question.body(), patience)
            if answer.status in TOO_MUCH and any(each.arguments for each in question.calls):
                answer = self._post(DECIDE, question.body(arguments=False), patience)
            found = self._placed(question, read_answer(answer, question, self.policies))
        except TimeoutError:
            found = self._without(Failure("deadline"), len(question.calls))
        except OSError:
            found = self._without(Failure("connection"), len(question.calls))
        except Exception as problem:  # noqa: BLE001 - an agent does not fail for its guard
            found = self._without(problem, len(question.calls))
        self._count(question, found)
        return found

    async def _adecide(self, question: Question) -> list[Decision]:
        return self._decide(question)  # nothing else runs in such a process

    def _post(self, path: str, body: bytes, patience: Patience) -> ServiceResponse:
        base = urlsplit(self._address.base)
        head = [b"POST %s%s HTTP/1.1" % (base.path.encode(), path.encode())]
        head += [b"%s: %s" % each for each in self._headers]
        head += [b"connection: close", b"content-length: %d" % len(body), b"", b""]
        with _Line(self._address, self._trust, patience) as line:
            line.send(b"\r\n".join(head) + body)
            return _answer(line)


class _Line:
    """One connection, which waits as long as its patience allows.

    Raises:
        OSError: there is no such connection.
        TimeoutError: the time is up.
    """

    def __init__(
        self, address: ServiceAddress, trust: ssl.SSLContext | None, patience: Patience
    ) -> None:
        self._patience = patience
        self._socket = _connected(address, patience)
        if trust is not None:
            try:
                self._begin_tls(trust, urlsplit(address.base).hostname)
            except BaseException:
                self._socket.close()
                raise

    def _begin_tls(self, trust: ssl.SSLContext, host: str | None) -> None:
        line = trust.wrap_socket(
            self._socket, server_hostname=host, do_handshake_on_connect=False
        )
        self._socket = line
        self._go_on(line.do_handshake)

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        sent = 0
        while sent < len(data):
            sent += self._go_on(partial(self._socket.send, data[sent:]), to_write=True)

    def receive(self) -> bytes:
        """Some bytes; b"" at the end."""
        return self._go_on(partial(self._socket.recv, 1 << 16))

    def _go_on(self, work: Callable[[], Done], *, to_write: bool = False) -> Done:
        while True:
            try:
                return work()
            except BlockingIOError:
                self._patience.wait(self._socket.fileno(), to_write=to_write)
            except OSError as problem:
                # TLS may have to read in order to write, and the reverse.
                wants = type(problem).__name__
                if wants not in ("SSLWantReadError", "SSLWantWriteError"):
                    raise
                self._patience.wait(
                    self._socket.fileno(), to_write=wants == "SSLWantWriteError"
                )


def _connected(address: ServiceAddress, patience: Patience) -> socket.socket:
    """A connection to the first of the host's addresses that has one."""
    if address.socket is not None:
        return _open(socket.AF_UNIX, address.socket, patience)
    parts = urlsplit(address.base)
    port = parts.port or PORTS[parts.scheme]
    problem: OSError | None = None
    for family, _, _, _, place in socket.getaddrinfo(
        parts.hostname, port, type=socket.SOCK_STREAM
    ):
        try:
            return _open(family, place, patience)
        except OSError as found:
            problem = found
    raise problem or OSError("the host has no address")


def _open(family: int, place: Any, patience: Patience) -> socket.socket:
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setblocking(False)
        if family == socket.AF_UNIX:
            patience.connect(found, place)
        else:
            _connect(found, place, patience)
    except BaseException:
        found.close()
        raise
    return found


def _connect(to: socket.socket, place: Any, patience: Patience) -> None:
    to.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(BlockingIOError):
        to.connect(place)
    patience.wait(to.fileno(), to_write=True)
    code = to.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, "the service cannot be reached")


def _answer(line: _Line) -> ServiceResponse:
    """The answer that comes over a connection that is closed after it.

    Raises:
        Failure: it is none, or not a whole one.
    """
    seen = bytearray()
    while b"\r\n\r\n" not in seen:
        seen += _more(line, seen)
    head, _, rest = bytes(seen).partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (each.partition(b":") for each in lines)
    }
    try:
        status = int(first.split(b" ")[1])
        length = int(headers[b"content-length"])
    except (IndexError, KeyError, ValueError):
        raise Failure("unreadable") from None
    body = bytearray(rest)
    while len(body) < length:
        body += _more(line, body)
    return ServiceResponse(status, bytes(body[:length]))


def _more(line: _Line, seen: bytearray) -> bytes:
    found = line.receive()
    if not found:
        raise Failure("connection")
    if len(seen) + len(found) > ANSWER_BYTES_MAX:
        raise Failure("unreadable")
    return found


def _trust(ca: str | None) -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context(cafile=ca)
