"""The worst sessions first, from however many there are, without holding up the process."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from collector.api.list_fields import SORTS, summary
from collector.api.session_query import (
    LISTED_MAX,
    Follow,
    Matcher,
    SessionQuery,
    follow_nothing,
)
from monitor.engine import Monitor
from monitor.session.judgement.judgement import Judgement
from monitor.session.session import Session

__all__ = ["LISTED_MAX", "SessionLists", "SessionQuery", "ranked"]

_LUMP = 500
"""Judgements looked at before other tasks get their turn: half a millisecond."""
_DEEP = 50
"""Sessions between two turns of other tasks, if each of their calls may have to be examined."""

REST: Final = 4
"""Pause after a list, as a multiple of the list's own time: lists take a fifth of the time at most."""


class _Entry(NamedTuple):
    """One session of a list. Its number breaks ties, the more recent first; sessions are never compared."""

    key: Any
    number: int
    session: Session
    judgements: list[Judgement]


async def ranked(
    monitor: Monitor,
    query: SessionQuery,
    shown: Callable[[str], str] = str,
    follow: Follow = follow_nothing,
) -> dict[str, Any]:
    """The summaries of one page of sessions, and how many sessions match in all.

    A session is one entry, ranked by the judgement of it that comes first; its judgements that match stand
    together. Memory is bounded by the offset and the limit; other tasks run between lumps.

    Args:
        monitor: has the sessions.
        query: which of them, and in what order.
        shown: what is shown of a tool's name.
        follow: leads from a trace's id to its sessions.
    """
    key, most = SORTS[query.sort], query.offset + query.limit
    matcher = Matcher(monitor, query, shown, follow) if query.filters else None
    lump = _DEEP if query.text or query.tool or query.reason or query.severity else _LUMP
    best: list[_Entry] = []
    matching = seen = live = 0
    last: Session | None = None
    for number, (session, found) in enumerate(_by_session(monitor)):
        seen += len(found)
        if seen >= lump:
            seen = 0
            await asyncio.sleep(0)
        if session is not last and session.ended is None:
            last, live = session, live + query.access.sees(session.key.namespace)
        judgements = found
        if matcher is not None:
            judgements = [each for each in found if matcher.matches(session, each)]
        if not judgements:
            continue
        matching += 1
        rank = max(key(session, each) for each in judgements)
        entry = _Entry(rank, -number, session, judgements)
        if len(best) < most:
            heapq.heappush(best, entry)
        elif best and entry > best[0]:
            heapq.heapreplace(best, entry)
    page = sorted(best)[::-1][query.offset :]
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(page, 1):
        rows += [
            summary(entry.session, each, monitor.reader.tool_name) for each in entry.judgements
        ]
        if number % _DEEP == 0:
            await asyncio.sleep(0)
    all_live = query.access.namespaces is None
    return {
        "sessions": rows,
        "matching": matching,
        "live": monitor.sessions if all_live else live,
    }


def _by_session(monitor: Monitor) -> Iterator[tuple[Session, list[Judgement]]]:
    for session, pairs in groupby(monitor.reader.open_judgements(), key=lambda pair: pair[0]):
        yield session, [judgement for _, judgement in pairs]


class SessionLists:
    """One list at a time, shared by all who wait for the same one, so that ingest comes first.

    However many session views are open, ranking takes a fifth of the process's time at most. Who asks
    while a list is being made waits for the next one, so that none is older than the question.
    """

    def __init__(
        self,
        monitor: Monitor,
        shown: Callable[[str], str] = str,
        follow: Follow = follow_nothing,
    ) -> None:
        self._monitor = monitor
        self._shown = shown
        self._follow = follow
        self._waiting: dict[SessionQuery, asyncio.Future[dict[str, Any]]] = {}
        """Lists that have not begun, by query."""
        self._turn = asyncio.Lock()
        self._next = 0.0
        """The event loop's time from which there may be another list."""

    async def get(self, query: SessionQuery) -> dict[str, Any]:
        """What `ranked` gives, no earlier than now."""
        found = self._waiting.get(query)
        if found is None:
            found = self._waiting[query] = asyncio.ensure_future(self._make(query))
        return await asyncio.shield(found)

    async def _make(self, query: SessionQuery) -> dict[str, Any]:
        async with self._turn:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._next - loop.time())
            del self._waiting[query]
            began = time.thread_time()
            try:
                return await ranked(self._monitor, query, self._shown, self._follow)
            finally:
                self._next = loop.time() + REST * (time.thread_time() - began)
