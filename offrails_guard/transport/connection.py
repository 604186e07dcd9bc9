"""Kept HTTP connections to the service, on a thread with an event loop of their own.

The caller waits for a `Future`, never for a socket: name look-up, connecting, TLS and a server that
drips its answer all take their time on that thread, and the caller leaves when its time is up. The
request goes on without it, so the connection is there for the next one, and an answer that comes
late is still acted upon.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias

import httpcore

from offrails_guard.forks import hold_at_fork, renew_after_fork
from offrails_guard.transport.deadline import Silence
from offrails_guard.transport.pause import Pause
from offrails_guard.transport.time_limit import time_limit
from offrails_guard.transport.wire import (
    ANSWER_BYTES_MAX,
    Failure,
    ServiceAddress,
    ServiceResponse,
    headers_of,
)

__all__ = ["Loop", "ServiceConnection", "Waiter"]

CONNECTIONS_MAX: Final = 16
"""Connections that are kept. One is enough for an agent that makes a call at a time."""

REQUESTS_MAX: Final = 2_048
"""Requests in flight at a time, including those that nobody waits for any more."""

REQUESTS_BYTES_MAX: Final = 64 << 20
"""Bytes of their bodies."""


FIRST_SECONDS: Final = 0.5
"""How long a new connection is waited for before anything is asked, so that no call pays for it."""

WARM_UP: Final = "/-/healthy"

REQUEST_SECONDS: Final = 2.0
"""How long a request goes on, whoever waits for it: long enough for a first TLS connection."""

QUEUE_SECONDS: Final = 10.0
"""How long it waits before that until a connection is free."""

REQUEST_SILENCES: Final = 10
"""Deadlines of silence that both last longer: this process may wait for the processor meanwhile."""

LOADED_LATER: Final = ("anyio._backends._asyncio", "anyio.streams.tls", "encodings.idna")
"""What would be loaded with the first request: a process that forks meanwhile would hang where it loads the same."""


for _name in LOADED_LATER:
    with suppress(ImportError):
        import_module(_name)

Work: TypeAlias = "Callable[[Loop], Coroutine[Any, Any, None]]"


class Waiter(NamedTuple):
    """Who waits for an answer."""

    is_over: Callable[[], bool]
    give_up: Callable[[], None]
    """Called if the service is silent for too long."""


class ServiceConnection:
    """Sends JSON to one service.

    Args:
        url: `http://HOST:PORT`, `https://...`, or `unix:/path` of a socket.
        token: sent as a bearer token.
        ca: file with the trusted authorities, PEM; the system's where it is not given.
        silence: seconds for which the service may answer nobody while somebody waits.

    Raises:
        ValueError: the URL is none of these.
        OSError: the file of authorities cannot be read.
    """

    def __init__(
        self, url: str, token: str | None = None, ca: str | None = None, silence: float = 1.0
    ) -> None:
        self._address = ServiceAddress.of(url)
        self._headers = headers_of(self._address, token)
        self._silence = silence
        # Reading the system's authorities takes 20 to 60 ms, so it is done now, and for TLS alone.
        self._trust: ssl.SSLContext = (
            ssl.create_default_context(cafile=ca)
            if self._address.has_tls
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        self._lock = threading.Lock()
        self._running: Loop | None = None
        self._loop().warm_up(FIRST_SECONDS)
        hold_at_fork(self, last=True)
        renew_after_fork(self)

    def run(self, work: Work, size: int = 0, waiting: Waiter | None = None) -> None:
        """Starts work on the loop and returns at once.

        Args:
            work: gets the loop to `post` with.
            size: bytes that it holds.
            waiting: who waits for it, if somebody does.

        Raises:
            Failure: `REQUESTS_MAX` are on their way, or `REQUESTS_BYTES_MAX`.
        """
        self._loop().start(work, size, waiting)

    def close(self, seconds: float) -> None:
        """Waits for what is on its way, that long at most, and closes the connections."""
        with self._lock:
            loop, self._running = self._running, None
        if loop is not None:
            loop.close(seconds)

    def _loop(self) -> Loop:
        with self._lock:
            if self._running is None:
                self._running = Loop(
                    self._pool(), self._address.base, self._headers, Silence(self._silence)
                )
            return self._running

    def _pool(self) -> httpcore.AsyncConnectionPool:
        # No proxy: what decides is near. No time-outs: the time is that of the whole request.
        return httpcore.AsyncConnectionPool(
            ssl_context=self._trust,
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=CONNECTIONS_MAX,
            uds=self._address.socket,
        )

    @property
    def lock(self) -> AbstractContextManager[None]:
        """Held while the process forks: the loop stands still."""
        loop = self._running
        return nullcontext() if loop is None else loop.pause

    def renew(self) -> None:
        """After a fork: the thread is the parent's, and its sockets are, too."""
        self._lock = threading.Lock()
        self._running = None


class Loop:
    """The thread, its event loop and its connections."""

    def __init__(
        self,
        pool: httpcore.AsyncConnectionPool,
        base: str,
        headers: list[tuple[bytes, bytes]],
        silence: Silence,
    ) -> None:
        self._silence = silence
        self._more_seconds = REQUEST_SILENCES * silence.seconds
        self._pool = pool
        self._base = base
        self._headers = headers
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = self._bytes = 0
        self._lock = threading.Lock()
        self._answers = 0
        """Number of answers that have arrived."""
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)
        """The pool looks at all who wait for a connection whenever one is free, so nobody waits in it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="offrails-guard", daemon=True)
        self._thread.start()
        self.pause: Final = Pause(self._loop, self._thread)

    def warm_up(self, seconds: float) -> None:
        """Connects, and waits for that so long at most."""
        warm: Future[None] = asyncio.run_coroutine_threadsafe(self._connect(), self._loop)
        with suppress(FutureTimeoutError):  # another one than the built-in before Python 3.11
            warm.result(seconds)

    async def _connect(self) -> None:
        with suppress(Failure):
            await self._request("GET", WARM_UP)

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def start(self, work: Work, size: int, waiting: Waiter | None) -> None:
        with self._lock:
            if self._waiting >= REQUESTS_MAX or self._bytes + size > REQUESTS_BYTES_MAX:
                raise Failure("busy")
            self._waiting += 1
            self._bytes += size
        self._loop.call_soon_threadsafe(self._begin, work, size, waiting)

    def _begin(self, work: Work, size: int, waiting: Waiter | None) -> None:
        task = self._loop.create_task(work(self))
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, size))
        if waiting is not None and self._silence.add(
            *waiting, answers=self._answers, now=self._loop.time()
        ):
            self._loop.call_later(self._silence.part, self._look)

    def _look(self) -> None:
        if self._silence.look(self._answers, self._loop.time()):
            self._loop.call_later(self._silence.part, self._look)

    def _end(self, size: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        with self._lock:
            self._waiting -= 1
            self._bytes -= size

    async def post(self, path: str, body: bytes) -> ServiceResponse:
        """One request and its whole answer.

        Raises:
            Failure: there is none within `REQUEST_SECONDS`.
        """
        return await self._request("POST", path, body)

    async def _request(
        self, method: str, path: str, body: bytes | None = None
    ) -> ServiceResponse:
        try:
            async with (
                time_limit(QUEUE_SECONDS + self._more_seconds),
                self._free,
                time_limit(REQUEST_SECONDS + self._more_seconds),
                self._pool.stream(
                    method, self._base + path, headers=self._headers, content=body
                ) as answer,
            ):
                parts, size = [], 0
                async for part in answer.aiter_stream():
                    size += len(part)
                    if size > ANSWER_BYTES_MAX:
                        raise Failure("unreadable")
                    parts.append(part)
                self._answers += 1
                return ServiceResponse(answer.status, b"".join(parts))
        except TimeoutError as problem:
            raise Failure("deadline") from problem
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as problem:
            raise Failure("connection") from problem

    def close(self, seconds: float) -> None:
        if threading.current_thread() is self._thread:
            return
        done: Future[None] = asyncio.run_coroutine_threadsafe(self._finish(seconds), self._loop)
        with suppress(Exception):
            done.result(seconds + 1)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(1)

    async def _finish(self, seconds: float) -> None:
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await self._pool.aclose()
