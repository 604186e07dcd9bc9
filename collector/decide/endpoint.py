"""The listener of decisions: `POST /api/v1/decide`, `POST /api/v1/outcome` and `GET /-/healthy`, in JSON.

A request is answered where its last byte arrives, without a task: a decision takes microseconds. To read a large one may
take tens of milliseconds, and to decide many parallel calls as long. So may an outcome, where later and parallel calls of the
session are judged once more. So these wait for each other: one in a turn of the event loop, between which others are
answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal

from collector.decide.service import DecideService
from collector.net.host_guard import HostGuard
from collector.receive.admission import Admission
from collector.receive.http.admitted_request import (
    AdmittedExchange,
    HttpResponse,
    Service,
    refusal_headers,
    routed,
)
from collector.receive.http.connection import Exchange, HttpConnection
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import Stats

__all__ = ["DecideApp"]

Path = Literal["decide", "outcome", "healthy"]

PATHS: Final[Mapping[bytes, Path]] = {
    b"/api/v1/decide": "decide",
    b"/api/v1/outcome": "outcome",
    b"/-/healthy": "healthy",
}
LARGE_BYTES: Final = 16 << 10
"""Size of a large body. Reading a smaller one takes a few milliseconds at most, whatever it holds."""
GROUP: Final = b'"calls"'
"""Text that the body of a question about parallel calls contains."""
GROUP_BYTES: Final = 512
"""Size of a body that may ask about many calls; smaller ones ask about a few."""
JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
HEALTHY: Final = HttpResponse(200, b"ok\n")


class DecideApp(Service):
    """Serves decisions.

    Args:
        decisions: answers.
        stats: counts requests of clients that have gone.
        fault: counts and logs an error of ours.
        max_body: bytes of one request.
        admission: who is let in.
        guard: by which names it is reached.
    """

    def __init__(
        self,
        decisions: DecideService,
        stats: Stats,
        fault: Callable[[Exception], Refusal],
        max_body: int,
        admission: Admission,
        guard: HostGuard,
    ) -> None:
        super().__init__(stats, max_body, admission, (), guard)
        self.decisions = decisions
        self.large = asyncio.Lock()
        """Held while a large request or a late outcome is answered."""
        self._fault = fault

    def start(self, connection: HttpConnection) -> Exchange:
        return _Exchange(connection, self)

    def fault(self, error: Exception) -> Refusal:
        return self._fault(error)


class _Exchange(AdmittedExchange):
    """One request."""

    _path: Path | None = None

    def __init__(self, connection: HttpConnection, app: DecideApp) -> None:
        super().__init__(connection, app)
        self._app = app

    def route(self) -> None:
        self._path = routed(PATHS, self.url)
        self._foreign = self._refuses()

    def again(self) -> Exchange | None:
        if self._foreign is not None or self._path == "healthy":
            return None
        other = _Exchange(self.connection, self._app)
        other.method, other.url = self.method, self.url
        other._found, other._path = self._found, self._path
        return other

    def _check(self) -> None:
        if self._path is None:
            paths = ", ".join(path.decode() for path in PATHS)
            raise Refusal(ExportStatus.NOT_FOUND, f"no such path; there are {paths}")
        wanted = (b"GET", b"HEAD") if self._path == "healthy" else (b"POST",)
        if self.method not in wanted:
            method = self.method.decode("latin-1")[:20]
            use = wanted[0].decode()
            raise Refusal(
                ExportStatus.METHOD_NOT_ALLOWED, f"{method} is not allowed; use {use}"
            )
        if self._foreign is not None:
            raise Refusal(ExportStatus.PERMISSION_DENIED, self._foreign)
        if self._path == "healthy":
            self._answer(HEALTHY)
            return
        media_type = self._found.get(b"content-type", b"")
        if media_type != JSON and media_type.split(b";", 1)[0].strip().lower() != JSON:
            raise Refusal(
                ExportStatus.UNSUPPORTED_MEDIA, "expected Content-Type: application/json"
            )
        if self._found.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refusal(
                ExportStatus.UNSUPPORTED_MEDIA, "expected a body without Content-Encoding"
            )

    def _take(self) -> None:
        body = self._body()
        if self._takes_long(body):
            self._answer_later(partial(self._reply_large, body))
        else:
            self._answer(self._reply(body))

    def _takes_long(self, body: bytes) -> bool:
        if len(body) > LARGE_BYTES or (len(body) > GROUP_BYTES and GROUP in body):
            return True
        return self._path == "outcome" and self._app.decisions.may_settle_late(body)

    def _reply(self, body: bytes) -> HttpResponse:
        decisions = self._app.decisions
        take = decisions.decide if self._path == "decide" else decisions.settle
        return HttpResponse(*take(body, self._sender))

    async def _reply_large(self, body: bytes) -> HttpResponse:
        async with self._app.large:
            await asyncio.sleep(0)
            return self._reply(body)

    def _refused(self, refusal: Refusal) -> HttpResponse:
        headers = refusal_headers(refusal)
        if refusal.status is ExportStatus.METHOD_NOT_ALLOWED and self._path == "healthy":
            headers = [(b"allow", b"GET, HEAD")]
        body = json.dumps({"error": refusal.message}).encode()
        return HttpResponse(refusal.status.value.http, body, headers)

    def _content_type(self) -> bytes:
        is_text = self._path == "healthy" and self.method in (b"GET", b"HEAD")
        return TEXT if is_text else JSON

    def _count(self, code: str) -> None:
        if self._path != "healthy":
            self._app.decisions.requests.add(1, code)

    def _count_lost(self) -> None:
        self._app.stats.count("client_disconnects", "decide")
