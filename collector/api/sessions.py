"""The admin listener: what the monitor knows, as JSON. Meant for loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from urllib.parse import parse_qs, unquote

from collector.api.denied_calls import mark_overruled, prevented
from collector.api.session_query import whole_number
from collector.calls.decision_records import DecisionRecords
from collector.calls.seen_agents import Inventory
from collector.net.asgi import Receive, Scope, Send, send_json
from collector.net.health import Health
from collector.net.long_responses import LongResponses
from collector.telemetry.json_text import as_json
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor

__all__ = ["Admin"]

_SESSIONS = b"/api/v1/sessions"
_SEEN = b"/api/v1/seen"
PART_OBJECTS: Final = 50
"""Judgements looked at, at most, before others have their turn."""
PART_BYTES: Final = 64 << 10
"""Encoded, at most, but for the last judgement of a part."""


class Admin:
    """An ASGI application.

    `GET /api/v1/sessions` gives `{"sessions": [judgement, ...]}`, most recently active first,
    and takes `limit`, `agent`, `spec` and `namespace`. `GET /api/v1/sessions/{session}` gives all
    judgements of one session (its id percent-encoded) and its prevented calls, or 404. `GET /api/v1/seen` gives what was
    seen of each service, with or without a spec.
    """

    def __init__(
        self,
        monitor: Monitor,
        seen: Inventory,
        health: Health,
        redaction: Redaction | None = None,
        denied: DecisionRecords | None = None,
    ) -> None:
        self._monitor = monitor
        self._denied = denied or DecisionRecords()
        self._redaction = redaction or Redaction()
        self._seen = seen
        self._health = health
        self._long = LongResponses()
        self._fixed: dict[bytes, Callable[[Send], Awaitable[None]]] = {_SEEN: self._send_seen}
        """Answers that have one path."""

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        if await self._health.answer(scope, send):
            return
        fixed = self._fixed.get(path)
        if fixed is None and path != _SESSIONS and not path.startswith(_SESSIONS + b"/"):
            await send_json(send, 404, {"error": "no such path"})
        elif scope["method"] not in ("GET", "HEAD"):
            await send_json(send, 405, {"error": "use GET"}, (b"allow", b"GET, HEAD"))
        elif fixed is not None:
            await fixed(send)
        else:
            query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            wanted = {name: values[-1] for name, values in query.items()}
            await self._sessions(scope, send, path[len(_SESSIONS) :].strip(b"/"), wanted)

    async def _send_seen(self, send: Send) -> None:
        agents = [self._redaction.shown(agent.as_json()) for agent in self._seen]
        await send_json(send, 200, {"agents": agents})

    async def _sessions(
        self, scope: Scope, send: Send, name: bytes, wanted: dict[str, str]
    ) -> None:
        if not name:
            limit = wanted.pop("limit", None)
            try:
                most = None if limit is None else whole_number(limit, "limit")
            except ValueError as problem:
                await send_json(send, 400, {"error": str(problem)})
                return
            parts = self._list(most, wanted)
            await self._long.send(scope, send, b"application/json", parts)
            return
        session = unquote(name.decode("latin-1"), encoding="utf-8", errors="replace")
        namespace, original = wanted.get("namespace"), self._redaction.original
        if namespace is not None:
            namespace = original(namespace)
        session_id = original(session)
        found = self._monitor.find(session_id, namespace)
        denied = prevented(self._denied, session_id, namespace)
        if found or denied:
            mark_overruled(found, self._denied, session_id)
            shown = self._redaction.shown({"sessions": found, "prevented": denied})
            await send_json(send, 200, shown)
        else:
            await send_json(send, 404, {"error": "no such session", "session": session})

    async def _list(self, limit: int | None, wanted: dict[str, str]) -> AsyncIterator[bytes]:
        filters = {key: wanted[key] for key in ("agent", "spec", "namespace") if key in wanted}
        yield b'{"sessions":['
        part: list[bytes] = []
        size = shown = 0
        for number, judged in enumerate(self._monitor.judgements(), 1):
            if limit is not None and shown >= limit:
                break
            judgement = self._redaction.shown(judged)
            if all(judgement[key] == value for key, value in filters.items()):
                part.append((b"," if shown else b"") + as_json(judgement))
                size += len(part[-1])
                shown += 1
            if size >= PART_BYTES or number % PART_OBJECTS == 0:
                yield b"".join(part)
                part.clear()
                size = 0
        yield b"".join(part) + b"]}"
