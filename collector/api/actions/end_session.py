"""`POST /api/v1/sessions/{session}/end`: an operator ends a running session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from collector.api.access import access_of
from collector.api.query_string import check_names, parameters, session_to
from collector.api.session_query import Follow, follow_nothing
from collector.net.asgi import Receive, Scope, Send, is_refused, send_json
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.records import SessionKey

__all__ = ["EndEndpoint"]


class EndEndpoint:
    """The admin application, and the path that ends sessions: 200 `{"ended": n}`, 404 where none is live.

    Args:
        inner: the admin application.
        monitor: knows which sessions there are.
        end: ends sessions, and returns how many were live.
        redaction: leads from shown names to those that are meant.
        follow: leads from a trace's id to the sessions of its calls.
    """

    def __init__(
        self,
        inner: Any,
        monitor: Monitor,
        end: Callable[[Sequence[SessionKey]], int],
        redaction: Redaction,
        follow: Follow = follow_nothing,
    ) -> None:
        self._inner = inner
        self._monitor = monitor
        self._end = end
        self._redaction = redaction
        self._follow = follow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shown = session_to(b"end", scope)
        if shown is None:
            await self._inner(scope, receive, send)
        elif not await is_refused(scope, send):
            await self._end_named(scope, shown, send)

    async def _end_named(self, scope: Scope, shown: str, send: Send) -> None:
        query = parameters(scope)
        try:
            check_names(query, ("namespace",))
        except ValueError as problem:
            await send_json(send, 400, {"error": str(problem)})
            return
        session = self._redaction.original(shown)
        given = query.get("namespace")
        namespace = None if given is None else self._redaction.original(given)
        access = access_of(scope)
        named = self._monitor.reader.live_named(session, namespace) or self._follow(
            session, namespace
        )
        ended = self._end([key for key in named if access.sees(key.namespace)])
        if not ended:
            said = {"error": "no such session is running", "session": shown}
            await send_json(send, 404, said)
            return
        log.info("audit", action="end", who=access.who, session=shown, ended=ended)
        await send_json(send, 200, {"ended": ended})
