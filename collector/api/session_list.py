"""The worst sessions first, from however many there are, without holding up the process."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from monitor.engine import Monitor
from monitor.session.judgement import Judgement
from monitor.session.session import Session
from monitor.session.summary import SORTS, agent_of, summary

__all__ = ["LISTED_MAX", "SessionLists", "SessionQuery", "ranked"]

LISTED_MAX = 1_000
"""Rows of one list."""

_LUMP = 500
"""Sessions looked at before other tasks get their turn: half a millisecond."""


REST: Final = 4
"""After a list the process rests from lists for so many times as long as it took: a fifth at most."""


PARTS: Final = ("harmful", "live", "ended")
"""Of all sessions, those that may be listed alone."""


class SessionQuery(NamedTuple):
    """What a list is to have; "" lets anything pass."""

    sort: str
    limit: int
    agent: str = ""
    spec: str = ""
    namespace: str | None = None
    text: str = ""
    """Part of a session's id, its agent or its spec, in any case."""
    only: str = ""
    """One of `PARTS`."""

    @classmethod
    def read(cls, query: Mapping[str, str]) -> SessionQuery:
        """Reads a query string's values.

        Raises:
            ValueError: `sort`, `limit` or `only` is none that there is.
        """
        sort, limit = query.get("sort", "recent"), query.get("limit", "200")
        only = query.get("only", "")
        if sort not in SORTS:
            raise ValueError(f"sort must be one of {', '.join(SORTS)}")
        if not (limit.isascii() and limit.isdecimal()):
            raise ValueError("limit must be a whole number")
        if only and only not in PARTS:
            raise ValueError(f"only must be one of {', '.join(PARTS)}")
        return cls(
            sort,
            min(int(limit[:9]), LISTED_MAX),
            query.get("agent", ""),
            query.get("spec", ""),
            query.get("namespace"),
            query.get("q", "").casefold(),
            only,
        )

    @property
    def filters(self) -> bool:
        """True where some judgements do not match."""
        return self != SessionQuery(self.sort, self.limit)

    def matches(self, session: Session, judgement: Judgement) -> bool:
        """True where a row of the list is about this judgement."""
        spec, agent = judgement.judge.spec.id, agent_of(session, judgement)
        return (
            (not self.agent or agent == self.agent)
            and (not self.spec or spec == self.spec)
            and (self.namespace is None or session.key.namespace == self.namespace)
            and self._has(session, judgement)
            and (not self.text or self.text in f"{session.key.id}\n{agent}\n{spec}".casefold())
        )

    def _has(self, session: Session, judgement: Judgement) -> bool:
        if self.only == "harmful":
            judged = judgement.judge.spec.kind != "reference"
            return judged and judgement.head.tally.harmful_steps > 0
        if self.only in ("live", "ended"):
            return (session.ended is None) == (self.only == "live")
        return True


async def ranked(monitor: Monitor, query: SessionQuery) -> dict[str, Any]:
    """The first `limit` summaries, and how many judgements match in all.

    Memory is bounded by the limit; other tasks run between lumps.
    """
    key, filters = SORTS[query.sort], query.filters
    best: list[tuple[Any, int, Session, Judgement]] = []
    matching = 0
    for number, (session, judgement) in enumerate(monitor.open_judgements()):
        if number % _LUMP == _LUMP - 1:
            await asyncio.sleep(0)
        if filters and not query.matches(session, judgement):
            continue
        matching += 1
        # The number breaks ties: the more recent first, and sessions are never compared.
        entry = (key(session, judgement), -number, session, judgement)
        if len(best) < query.limit:
            heapq.heappush(best, entry)
        elif best and entry > best[0]:
            heapq.heapreplace(best, entry)
    rows = [summary(session, judgement) for _, _, session, judgement in sorted(best)[::-1]]
    return {"sessions": rows, "matching": matching, "live": monitor.sessions}


class SessionLists:
    """One list at a time, shared by all who wait for the same one, so that ingest comes first.

    However many session views are open, ranking takes a fifth of the process's time at most. Who asks
    while a list is being made waits for the next one, so that none is older than the question.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._waiting: dict[SessionQuery, asyncio.Future[dict[str, Any]]] = {}
        """By query, the list that has not been begun."""
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
                return await ranked(self._monitor, query)
            finally:
                self._next = loop.time() + REST * (time.thread_time() - began)
