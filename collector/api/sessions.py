"""The admin listener: what the monitor knows, as JSON. Meant for loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from collector.api.access import Access, access_of
from collector.api.argument_audit import ArgumentAudit
from collector.api.denied_calls import mark_overruled, prevented
from collector.api.model_judgements import ModelJudgements
from collector.api.query_string import check_names, parameters
from collector.api.session_list import ListedSession, SessionPage, paged
from collector.api.session_query import (
    FILTERS,
    Follow,
    SessionQuery,
    follow_nothing,
    whole_number,
)
from collector.archive.record import ArchiveUnreadError
from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.calls.inventory.inventory import Inventory
from collector.net.asgi import Receive, Scope, Send, path_of, send_json
from collector.net.health import Health
from collector.net.long_responses import LongResponses
from collector.telemetry.json_text import as_json
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.session.judgement.judgement import Judgement

if TYPE_CHECKING:
    from collector.api.archive.past_sessions import PastSessions

__all__ = ["Admin"]

_SESSIONS = b"/api/v1/sessions"
_SEEN = b"/api/v1/seen"
PART_OBJECTS: Final = 50
"""Judgements looked at, at most, before others have their turn."""
PART_BYTES: Final = 64 << 10
"""Encoded, at most, but for the last judgement of a part."""

_NO_SCOPES: Final[Mapping[str, bool]] = MappingProxyType({})

_LIST: Final = ("steps", "limit", "cursor", "sort", *FILTERS)
"""Parameters of the list."""


class Admin:
    """An ASGI application.

    `GET /api/v1/sessions` gives `{"sessions": [judgement, ...]}`, most recently active first,
    and takes `limit`, `cursor`, `sort` and the filters of `SessionQuery`. `GET /api/v1/sessions/{session}` gives all
    judgements of one session (its id percent-encoded) and its prevented calls, or 404. A trace's id leads to the sessions
    of its calls. `GET /api/v1/seen` gives what was seen of each service, with or without a spec, and the scopes that
    spans came from.
    """

    def __init__(
        self,
        monitor: Monitor,
        seen: Inventory,
        health: Health,
        redaction: Redaction | None = None,
        denied: PreventedCalls | None = None,
        scopes: Mapping[str, bool] = _NO_SCOPES,
        follow: Follow = follow_nothing,
        audit: ArgumentAudit | None = None,
        past: PastSessions | None = None,
        judgements: ModelJudgements | None = None,
    ) -> None:
        self._past = past
        self._judgements = judgements
        self._monitor = monitor
        self._follow = follow
        self._denied = denied or PreventedCalls()
        self._redaction = redaction or Redaction()
        self._seen = seen
        self._scopes = scopes
        self._audit = audit or ArgumentAudit(shown=False, clock=lambda: 0)
        self._health = health
        self._long = LongResponses()

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if await self._health.answer(scope, send):
            return
        is_seen = path == _SEEN
        if not is_seen and path != _SESSIONS and not path.startswith(_SESSIONS + b"/"):
            await send_json(send, 404, {"error": "no such path"})
        elif scope["method"] not in ("GET", "HEAD"):
            await send_json(send, 405, {"error": "use GET"}, (b"allow", b"GET, HEAD"))
        else:
            name = path[len(_SESSIONS) :].strip(b"/")
            known = () if is_seen else ("namespace", "begun") if name else _LIST
            query, access = parameters(scope), access_of(scope)
            try:
                check_names(query, known)
                begun = whole_number(query["begun"], "begun") if "begun" in query else None
                listed = None if is_seen or name else _listed(query, self._redaction, access)
            except ValueError as problem:
                await send_json(send, 400, {"error": str(problem)})
                return
            if is_seen:
                await self._send_seen(send, access)
            elif listed is not None:
                asked = scope["query_string"].decode("latin-1")
                self._audit.read(access.who, f"sessions?{asked}" if asked else "sessions")
                parts = self._list(listed)
                await self._long.send(scope, send, b"application/json", parts)
            else:
                await self._send_session(send, name, query.get("namespace"), begun, access)

    async def _send_seen(self, send: Send, access: Access) -> None:
        agents = [
            self._redaction.shown(agent.as_json())
            for agent in self._seen
            if access.sees(agent.namespace)
        ]
        everything = access.namespaces is None
        scopes = [
            {"name": name, "of_agents": of_agents}
            for name, of_agents in (self._scopes.items() if everything else ())
        ]
        shown = self._redaction.shown({"scopes": scopes})
        await send_json(send, 200, {"agents": agents, **shown})

    async def _send_session(
        self,
        send: Send,
        name: bytes,
        shown_namespace: str | None,
        begun: int | None,
        access: Access,
    ) -> None:
        session = unquote(name.decode("latin-1"), encoding="utf-8", errors="replace")
        original = self._redaction.original
        namespace = None if shown_namespace is None else original(shown_namespace)
        found = self._judged(original(session), namespace).begun_at(begun).seen_by(access)
        shown = self._redaction.shown(found._asdict())
        if not found.sessions and self._past is not None:
            try:
                before = await self._past.find(session, shown_namespace, begun, access)
            except ArchiveUnreadError as problem:
                await send_json(send, 503, {"error": str(problem), "session": session})
                return
            shown = {**shown, "sessions": before}
        if any(shown.values()):
            self._audit.read(access.who, session)
            if self._past is not None:
                shown = {**shown, **await self._past.labels(shown["sessions"])}
            if self._judgements is not None:
                shown = {**shown, "judged": await self._judgements.of(shown["sessions"])}
            await send_json(send, 200, shown)
        else:
            await send_json(send, 404, {"error": "no such session", "session": session})

    def _judged(self, session: str, namespace: str | None) -> _Judged:
        """A session as it is shown; where no session has this id, those of the trace with this id."""
        found = self._of(session, namespace)
        if not any(found):
            for key in self._follow(session, namespace):
                more = self._of(key.id, key.namespace)
                found = _Judged(
                    found.sessions + more.sessions, found.prevented + more.prevented
                )
        return found

    def _of(self, session: str, namespace: str | None) -> _Judged:
        found = self._monitor.find(session, namespace)
        mark_overruled(found, self._denied, session)
        return _Judged(found, prevented(self._denied, session, namespace))

    async def _list(self, query: SessionQuery) -> AsyncIterator[bytes]:
        name, follow = self._redaction.name, self._follow
        page = await paged(self._monitor, query, name, follow, self._past, steps=True)
        yield b'{"sessions":['
        part: list[bytes] = []
        size = 0
        for number, text in enumerate(self._objects(page), 1):
            part.append((b"," if number > 1 else b"") + text)
            size += len(text)
            if size >= PART_BYTES or number % PART_OBJECTS == 0:
                yield b"".join(part)
                part.clear()
                size = 0
        about = as_json(page.about())
        yield b"".join(part) + b"]," + about[1:]

    def _objects(self, page: SessionPage) -> Iterator[bytes]:
        for entry in page.sessions:
            if isinstance(entry, ListedSession):
                for judgement in _in_order(entry.judgements):
                    found = self._monitor.reader.as_object(entry.session, judgement)
                    yield as_json(self._redaction.shown(found))
            else:
                yield from entry.objects


def _in_order(judgements: list[Judgement]) -> list[Judgement]:
    return sorted(judgements, key=lambda each: (each.judge.spec.id, each.part))


class _Judged(NamedTuple):
    """What is answered about one session."""

    sessions: list[dict[str, Any]]
    prevented: list[dict[str, Any]]

    def begun_at(self, begun: int | None) -> _Judged:
        """What is of the session that began then; None: as it is."""
        if begun is None:
            return self
        return _Judged([each for each in self.sessions if each["started"] == begun], [])

    def seen_by(self, access: Access) -> _Judged:
        """What is of namespaces that may be shown."""
        return _Judged(
            [each for each in self.sessions if access.sees(each["namespace"])],
            [each for each in self.prevented if access.sees(each["namespace"])],
        )


def _listed(query: Mapping[str, str], redaction: Redaction, access: Access) -> SessionQuery:
    """Reads the parameters of a list of whole judgements.

    Raises:
        ValueError: a sentence; one has a value that it cannot have.
    """
    if query.get("steps", "1") != "1":  # 0 is the session view's
        raise ValueError("steps must be 0 or 1")
    given = {name: query[name] for name in _LIST if name in query}
    asked = SessionQuery.read({**given, **redaction.originals(given)})
    return asked._replace(access=access.view)
