"""The worst sessions first, from however many there are, without holding up the process."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from collector.api.list_fields import Key, sort_key, summary
from collector.api.session_query import (
    LISTED_MAX,
    Follow,
    Matcher,
    Place,
    SessionQuery,
    follow_nothing,
)
from collector.api.shared_answers import SharedAnswers
from collector.archive.record import SessionName
from monitor.engine import Monitor
from monitor.records import SessionKey
from monitor.session.judgement.judgement import Judgement
from monitor.session.session import Session

if TYPE_CHECKING:
    from collector.api.archive.past_sessions import PastSessions
    from collector.archive.reader import PastSession

__all__ = [
    "LISTED_MAX",
    "ListedSession",
    "OffsetTooFarError",
    "SessionLists",
    "SessionPage",
    "SessionQuery",
    "paged",
    "ranked",
]

_LUMP = 500
"""Judgements looked at before other tasks get their turn: half a millisecond."""
_DEEP = 50
"""Sessions between two turns of other tasks, if each of their calls may have to be examined."""


class ListedSession(NamedTuple):
    """One session of a list."""

    key: Key
    begun: int
    """Start of its first call. It breaks ties, the later first, and behind it the name: so pages follow each other."""
    name: SessionName
    """Name of the session, as it is shown."""
    session: Session
    """Never compared: no two have one name."""
    judgements: list[Judgement]
    """Judgements that match."""


class SessionPage(NamedTuple):
    """One page of a list, of the monitor's sessions and the archive's."""

    sessions: list[ListedSession | PastSession]
    matching: int
    is_capped: bool
    """True if more match than are counted."""
    live: int
    next: str
    """The cursor of the page behind it; "" if there is none."""
    problem: str = ""
    """Why nothing of the archive is in it."""

    def about(self) -> dict[str, Any]:
        """What is said beside the sessions."""
        return {
            "matching": self.matching,
            **({"matching_at_least": True} if self.is_capped else {}),
            "live": self.live,
            "next": self.next or None,
            **({"archive_error": self.problem} if self.problem else {}),
        }


class OffsetTooFarError(ValueError):
    """So many sessions cannot be skipped: few of very many match."""

    def __init__(self, offset: int) -> None:
        super().__init__(
            f"offset={offset} skips too many sessions that would have to be looked at:"
            " go on by cursor, which is `next` of the page before, or narrow the search"
        )


async def paged(
    monitor: Monitor,
    query: SessionQuery,
    shown: Callable[[str], str] = str,
    follow: Follow = follow_nothing,
    past: PastSessions | None = None,
    *,
    steps: bool = False,
) -> SessionPage:
    """One page of sessions, and how many match in all.

    A session is one entry, ranked by the judgement of it that comes first; its judgements that match stand
    together. Memory is bounded by the offset and the limit; other tasks run between lumps.

    Args:
        monitor: has the sessions of now.
        query: which of them, and in what order.
        shown: what is shown of a name.
        follow: leads from a trace's id to its sessions.
        past: has those of before; None if none are kept.
        steps: True if the archive's sessions are to have whole judgement objects.

    Raises:
        OffsetTooFarError: there was no time to look at all sessions that the offset skips.
    """
    key, most = sort_key(query.sort, monitor.reader.tool_name), query.offset + query.limit + 1
    matcher = None
    if query.filters:
        labelled = await _labelled(past, query.label)
        matcher = Matcher(monitor, query, shown, follow, labelled)
    lump = _DEEP if query.looks_at_calls else _LUMP
    by_id = past is not None and bool(query.trace_id or query.span_id)
    after = None if query.after is None else _place(query.after)
    best: list[ListedSession] = []
    found_here: set[SessionName] = set()
    living: dict[SessionKey, Session] = {}
    matching = seen = live = 0
    last: Session | None = None
    for session, found in _by_session(monitor):
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
        # All may be gone from the monitor by the time that the archive has answered.
        noted = past is not None and (by_id or session.ended is not None)
        if past is not None and not noted:
            living[session.key] = session  # takes less than its name does
        if len(best) == most and rank < best[0].key and not noted:
            continue
        name = SessionName(
            shown(session.key.namespace), shown(session.key.id), session.started_ns
        )
        if noted:
            found_here.add(name)
        if after is not None and (rank, name.begun, name) >= after:
            continue
        entry = ListedSession(rank, name.begun, name, session, judgements)
        if len(best) < most:
            heapq.heappush(best, entry)
        elif best and entry > best[0]:
            heapq.heapreplace(best, entry)
    entries: list[ListedSession | PastSession] = [*best]
    is_capped, problem, reached = False, "", None
    if past is not None:
        before = await past.page(query, found_here, living, most, steps=steps)
        reached = before.reached
        if reached is not None and query.offset:
            raise OffsetTooFarError(query.offset)
        if reached is not None:
            # What is behind it comes with the sessions of the archive that are there.
            entries = [each for each in entries if _place(each) >= _place(reached)]
        entries += before.sessions
        matching, is_capped, problem = (
            matching + before.matching,
            before.is_capped,
            before.problem,
        )
    entries.sort(key=_place, reverse=True)
    page = entries[query.offset : most - 1]
    behind = len(entries) >= most and page
    place = Place(page[-1].key, page[-1].name) if behind else reached
    cursor = "" if place is None else place.as_cursor(query.sort)
    everything = query.access.namespaces is None
    return SessionPage(
        page, matching, is_capped, monitor.sessions if everything else live, cursor, problem
    )


def _place(entry: ListedSession | PastSession | Place) -> tuple[Key, int, SessionName]:
    return entry.key, entry.name.begun, entry.name


async def _labelled(past: PastSessions | None, label: str) -> frozenset[tuple[str, str]]:
    if past is None or not label:
        return frozenset()
    return await past.labelled(label)


async def ranked(
    monitor: Monitor,
    query: SessionQuery,
    shown: Callable[[str], str] = str,
    follow: Follow = follow_nothing,
    past: PastSessions | None = None,
) -> dict[str, Any]:
    """The summaries of one page of sessions; arguments as of `paged`."""
    page = await paged(monitor, query, shown, follow, past)
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(page.sessions, 1):
        if isinstance(entry, ListedSession):
            rows += [
                summary(entry.session, each, monitor.reader.tool_name)
                for each in entry.judgements
            ]
        else:
            rows += [json.loads(each) for each in entry.objects]
        if number % _DEEP == 0:
            await asyncio.sleep(0)
    return {"sessions": rows, **page.about()}


def _by_session(monitor: Monitor) -> Iterator[tuple[Session, list[Judgement]]]:
    for session, pairs in groupby(monitor.reader.open_judgements(), key=lambda pair: pair[0]):
        yield session, [judgement for _, judgement in pairs]


class SessionLists(SharedAnswers[SessionQuery, dict[str, Any]]):
    """What `ranked` gives, for all who ask for the same list."""

    def __init__(
        self,
        monitor: Monitor,
        shown: Callable[[str], str] = str,
        follow: Follow = follow_nothing,
        past: PastSessions | None = None,
    ) -> None:
        async def make(query: SessionQuery) -> dict[str, Any]:
            return await ranked(monitor, query, shown, follow, past)

        super().__init__(make)
