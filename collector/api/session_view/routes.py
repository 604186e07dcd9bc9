"""The session view, and the part of the API that it alone uses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from collector.api.access import Access, access_of
from collector.api.list_fields import agent_of, trail
from collector.api.overview.overview_query import NAMES
from collector.api.query_string import check_names, parameters
from collector.api.session_list import SessionLists, SessionQuery
from collector.api.session_query import RANKED, Follow, follow_nothing
from collector.api.session_view.about import ServiceInfo
from collector.api.session_view.files import FILES, send_file
from collector.api.session_view.reference_view import tree
from collector.api.session_view.runbooks import PATH as RUNBOOKS
from collector.api.session_view.runbooks import runbook
from collector.api.spec_view import drawn
from collector.api.streams.change_stream import Events
from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.net.asgi import (
    Application,
    Receive,
    Scope,
    Send,
    path_of,
    send_json,
    send_status,
)
from collector.net.health import Health
from collector.net.host_guard import HostGuard
from collector.telemetry.clock import now_ns
from collector.telemetry.json_text import as_json
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.session.judgement.judgement import Judgement
from monitor.session.report.harms import harms
from monitor.session.session import Session

if TYPE_CHECKING:
    from collector.api.archive.past_sessions import PastSessions
    from collector.api.archive.written_sessions import WrittenSessions
    from collector.api.overview.overview_answers import OverviewAnswers

__all__ = ["SessionView"]

Answer = Callable[[Send, str, Mapping[str, str], Access], Awaitable[None]]

_API = b"/api/v1/"
SUMS: Final = (b"agents", b"timeline", b"versions", b"overview")
"""Paths whose answers are added up."""
_TAKEN: Final[Mapping[bytes, tuple[str, ...]]] = {
    b"sessions": ("steps", *RANKED),
    b"trails": ("namespace",),
    b"openapi.json": ("listener",),
    **dict.fromkeys((b"specs", *SUMS), NAMES),
}
"""Parameters of each path that has any, by the path's first part below `/api/v1/`."""


class SessionView:
    """An ASGI application around the API.

    `/` is the session view. `GET /api/v1/sessions?steps=0` lists summaries, cut and counted by sessions;
    `SessionQuery` has its parameters. `/api/v1/specs` lists the specs, `/api/v1/specs/{id}` is one as it is
    drawn, `/api/v1/trails/{session}` its scores after each call, its harmful calls' severities, and the learnt
    tree with its way, `/api/v1/events` a stream of server-sent events that name the sessions that changed.
    `/runbooks/{alert}` is an alert's runbook as text.
    Everything else is the API's.
    """

    def __init__(
        self,
        api: Application,
        monitor: Monitor,
        health: Health,
        guard: HostGuard,
        about: ServiceInfo | None = None,
        *,
        redaction: Redaction | None = None,
        follow: Follow = follow_nothing,
        past: PastSessions | None = None,
        denied: PreventedCalls | None = None,
        written: WrittenSessions | None = None,
        clock: Callable[[], int] = now_ns,
        documents: Mapping[str, Callable[[], dict[str, Any]]] = MappingProxyType({}),
    ) -> None:
        self._api = api
        self._follow = follow
        self._redaction = redaction or Redaction()
        self._monitor = monitor
        self._guard = guard
        self._events = Events(monitor, health, self._redaction)
        self._lists = SessionLists(monitor, self._redaction.name, follow, past)
        self._encoded: tuple[Mapping[str, Any], bytes] = {}, b""
        """The last list, and as it is sent."""
        self._turn = asyncio.Lock()
        self._about = about or ServiceInfo()
        self._answers: dict[bytes, Answer] = {
            b"about": self._send_about,
            b"specs": self._send_specs,
            b"trails": self._send_trails,
            b"openapi.json": self._send_openapi,
            **{name: partial(self._send_sums, name) for name in SUMS},
        }
        """Handlers, by the first part of the path below `/api/v1/`."""
        self._documents = documents
        shown = self._redaction.name

        @cache
        def sums() -> OverviewAnswers:
            # What adds up is loaded when somebody asks.
            from collector.api.overview.overview import Overview
            from collector.api.overview.overview_answers import OverviewAnswers

            return OverviewAnswers(
                Overview(monitor, shown, denied or PreventedCalls(), past, written),
                self._lists.get,
                monitor,
                self._redaction,
                clock,
                past=past is not None,
            )

        self._sums = sums

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._guard.refuses(scope)
        if refused is not None:
            await send_json(send, 403, {"error": refused})
            return
        path = path_of(scope)
        query = parameters(scope)
        first, _, rest = path.removeprefix(_API).partition(b"/")
        answer = self._answers.get(first) if path.startswith(_API) else None
        if path == _API + b"sessions" and query.get("steps") == "0":
            answer = self._send_sessions
        if path.startswith(RUNBOOKS):
            answer, rest = self._send_runbook, path.removeprefix(RUNBOOKS)
        events = path == _API + b"events"
        if answer is None and not events and path not in FILES:
            await self._api(scope, receive, send)
        elif scope["method"] != "GET" and (events or scope["method"] != "HEAD"):
            allow = b"GET" if events else b"GET, HEAD"
            await send_json(send, 405, {"error": "use GET"}, (b"allow", allow))
        elif path in FILES:  # its parameters are its script's
            await send_file(send, path)
        else:
            try:
                check_names(query, () if first == b"specs" and rest else _TAKEN.get(first, ()))
            except ValueError as problem:
                await send_json(send, 400, {"error": str(problem)})
                return
            access = access_of(scope)
            if answer is None:
                await self._send_events(receive, send, access)
            else:
                name = unquote(rest.decode("latin-1"), encoding="utf-8", errors="replace")
                await answer(send, name, query, access)

    async def _send_runbook(
        self, send: Send, name: str, _query: Mapping[str, str], _access: Access
    ) -> None:
        page = runbook(name)
        if page is None:
            await send_json(send, 404, {"error": "no such runbook", "runbook": name})
        else:
            await send_status(send, 200, page, b"text/plain; charset=utf-8")

    async def _send_about(
        self, send: Send, _name: str, _query: Mapping[str, str], access: Access
    ) -> None:
        await send_json(send, 200, {**self._about.as_json(), "role": access.role})

    async def _send_sessions(
        self, send: Send, _name: str, query: Mapping[str, str], access: Access
    ) -> None:
        try:
            asked = SessionQuery.read({**query, **self._redaction.originals(query)})
            found = await self._lists.get(asked._replace(access=access.view))
        except ValueError as problem:
            await send_json(send, 400, {"error": str(problem)})
            return
        if self._encoded[0] is not found:  # one list is for all who waited for it
            self._encoded = found, as_json(self._redaction.shown(found))
        async with self._turn:  # however many waited, spans are judged in between
            await asyncio.sleep(0)
        await send_status(send, 200, self._encoded[1], b"application/json")

    async def _send_events(self, receive: Receive, send: Send, access: Access) -> None:
        if self._events.full:
            await send_json(send, 503, {"error": "too many open streams"})
        else:
            await self._events.serve(receive, send, access)

    async def _send_openapi(
        self, send: Send, name: str, query: Mapping[str, str], _access: Access
    ) -> None:
        listener = query.get("listener", "admin")
        if name:
            await send_json(send, 404, {"error": "no such path"})
        elif listener not in self._documents:
            known = ", ".join(self._documents)
            await send_json(send, 400, {"error": f"listener must be one of {known}"})
        else:
            await send_json(send, 200, self._documents[listener]())

    async def _send_sums(
        self, what: bytes, send: Send, name: str, query: Mapping[str, str], access: Access
    ) -> None:
        if name:
            await send_json(send, 404, {"error": "no such path"})
        else:
            await self._sums().send(send, what.decode(), query, access)

    async def _send_specs(
        self, send: Send, name: str, query: Mapping[str, str], access: Access
    ) -> None:
        judges = self._monitor.binder.judges
        if not name:
            await self._sums().send(send, "specs", query, access)
        elif name in judges:
            await send_json(send, 200, drawn(judges[name].spec))
        else:
            await send_json(send, 404, {"error": "no such spec", "spec": name})

    async def _send_trails(
        self, send: Send, name: str, query: Mapping[str, str], access: Access
    ) -> None:
        name, query = (
            self._redaction.original(name),
            {**query, **self._redaction.originals(query)},
        )
        found = [
            {
                "namespace": session.key.namespace,
                "agent": agent_of(session, judgement),
                "spec": judgement.judge.spec.id or None,
                "turn": judgement.part if judgement.judge.spec.scope == "turn" else None,
                "trail": trail(judgement),
                "severities": {
                    str(harm.step): harm.severity
                    for harm in harms(judgement, self._monitor.reader.tool_name)
                },
                **_learnt_tree(judgement),
            }
            for session, judgement in self._named(name, query.get("namespace"))
            if access.sees(session.key.namespace)
        ]
        if found:
            await send_json(send, 200, self._redaction.shown({"trails": found}))
        else:
            shown = self._redaction.name(name)
            await send_json(send, 404, {"error": "no such session", "session": shown})

    def _named(self, name: str, namespace: str | None) -> list[tuple[Session, Judgement]]:
        """Sessions with this id, each with its judgements; else those of the trace with this id."""
        found = list(self._monitor.reader.named(name, namespace))
        if not found:
            for key in self._follow(name, namespace):
                found += self._monitor.reader.named(key.id, key.namespace)
        return found


def _learnt_tree(judgement: Judgement) -> dict[str, Any]:
    """The tree that the session is compared with; nothing where it is judged by other means."""
    learnt = judgement.judge.spec.learnt
    return {} if learnt is None else {"tree": tree(learnt, judgement)}
