"""Sessions of the archive for those who ask the API, beside those that the monitor still has.

Invariant: a session that the monitor has is shown as it is there; what the archive has of it is left out, also where
the monitor forgets the session before the archive has answered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from collector.api.access import Access
from collector.api.session_query import Place, SessionQuery
from collector.archive.connection import FAULTS
from collector.archive.page_search import LOOK_SECONDS
from collector.archive.reader import (
    LABELS_MAX,
    ArchiveReader,
    PastSession,
    TooSlowError,
)
from collector.archive.record import (
    ArchiveUnreadError,
    FigureGroup,
    Figures,
    SessionName,
    VerdictLabels,
)
from collector.archive.schema import NewerSchemaError, OlderSchemaError
from collector.archive.search import ArchiveSearch, SumsSearch
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.records import SessionKey
from monitor.session.session import Session

__all__ = ["PastPage", "PastSessions"]

_FAULTS: Final = (*FAULTS, OSError, NewerSchemaError, OlderSchemaError, TooSlowError)
"""What keeps the archive from answering."""
OFFSET_SECONDS: Final = 1.0
"""Time to look for a page behind an offset, in each of the ways in which sessions are looked at: it has to be whole."""
_LUMP: Final = 500
"""Names looked at before other tasks get their turn: half a millisecond."""


class PastPage(NamedTuple):
    """What the archive has of one page."""

    sessions: list[PastSession]
    matching: int
    is_capped: bool
    """True if more match than are counted."""
    problem: str = ""
    """Why nothing of the archive is in it."""
    reached: Place | None = None
    """Sessions behind this place were not looked at, for want of time."""


class PastSessions:
    """Asks the archive, in a thread.

    Args:
        reader: of the archive.
        monitor: has sessions that the archive has, too.
        redaction: leads from shown names to those that are meant.
    """

    def __init__(self, reader: ArchiveReader, monitor: Monitor, redaction: Redaction) -> None:
        self.reader = reader
        self._monitor = monitor
        self._redaction = redaction

    async def page(
        self,
        query: SessionQuery,
        here: Set[SessionName],
        live: Mapping[SessionKey, Session],
        limit: int,
        *,
        steps: bool,
    ) -> PastPage:
        """The first sessions of the archive that are asked for and not shown from the monitor.

        Args:
            query: what is asked for.
            here: sessions that the monitor shows. It may have forgotten them since.
            live: others that it shows, which lived. They may have ended since, and be forgotten.
            limit: so many, at most.
            steps: True gives whole judgement objects, else summaries.
        """
        if "live" in (query.state, query.only):
            return PastPage([], 0, is_capped=False)
        search = _search(query, self._redaction.name)
        by_id = bool(query.trace_id or query.span_id)

        def shown(name: SessionName) -> bool:
            return name in here or self._is_of(name, live, or_kept=not by_id)

        seconds = OFFSET_SECONDS if query.offset else LOOK_SECONDS
        ask = partial(self.reader.page, search, steps=steps, without=here, seconds=seconds)
        found: list[PastSession] = []
        try:
            page = await asyncio.to_thread(ask, limit, query.after)
            matching, asked = page.matching, limit
            found += [each for each in page.sessions if not shown(each.name)]
            while len(found) < limit and len(page.sessions) == asked:
                last, asked = page.sessions[-1], limit - len(found)
                page = await asyncio.to_thread(ask, asked, Place(last.key, last.name))
                found += [each for each in page.sessions if not shown(each.name)]
        except _FAULTS as problem:
            return PastPage([], 0, is_capped=False, problem=_told(problem))
        held = self._held(here, live, len(matching.names))
        new = await _count(matching.names, held, shown)
        reached = None if page.reached is None else Place(*page.reached)
        if reached is None and query.after is None and len(found) < limit:
            new = len(found)  # these are all
        return PastPage(found, new, is_capped=not matching.is_all, reached=reached)

    def _held(
        self, here: Set[SessionName], live: Iterable[SessionKey], count: int
    ) -> set[tuple[str, str]] | None:
        """Namespaces and ids, as they are shown, of sessions that the monitor shows or has; None if they are more than `count`."""
        shown = self._redaction.name
        kept = (session.key for session, _ in self._monitor.reader.open_judgements())
        named = ((shown(key.namespace), shown(key.id)) for key in chain(live, kept))
        found: set[tuple[str, str]] = set()
        for each in chain((name[:2] for name in here), named):
            found.add(each)
            if len(found) > count:
                return None
        return found

    def _is_of(
        self, name: SessionName, live: Mapping[SessionKey, Session], *, or_kept: bool
    ) -> bool:
        """True if a session of the archive is one of these, or of those that the monitor has now."""
        original = self._redaction.original
        key = SessionKey(original(name.namespace), original(name.session))
        found = [live[key]] if key in live else []
        if or_kept:
            found += [
                session for session, _ in self._monitor.reader.named(key.id, key.namespace)
            ]
        return any(session.started_ns <= name.begun <= session.last_ns for session in found)

    async def sums(
        self, search: SumsSearch
    ) -> tuple[
        list[tuple[int, FigureGroup, Figures]], list[tuple[FigureGroup, str, str, int]], str
    ]:
        """The sums of groups by step, their harms, and why there are none."""
        try:
            figures = await asyncio.to_thread(self.reader.sums, search)
            harms = await asyncio.to_thread(self.reader.harm_sums, search)
        except _FAULTS as problem:
            return [], [], _told(problem)
        return figures, harms, ""

    async def label_counts(
        self, search: SumsSearch, since: int
    ) -> tuple[dict[str, VerdictLabels], str]:
        """Labels of harmful sessions by spec, and why there are none."""
        try:
            return await asyncio.to_thread(self.reader.label_counts, search, since), ""
        except _FAULTS as problem:
            return {}, _told(problem)

    def live(self) -> list[SessionName]:
        """Sessions that live by their rows."""
        try:
            return self.reader.live()
        except _FAULTS as problem:
            _told(problem)
            return []

    async def labelled(self, label: str) -> frozenset[tuple[str, str]]:
        """Namespaces and ids, as they are shown, of sessions with a label."""
        try:
            found = await asyncio.to_thread(self.reader.labelled, label)
        except _FAULTS as problem:
            _told(problem)
            found = []
        return frozenset((name.namespace, name.session) for name in found)

    async def find(
        self, session: str, namespace: str | None, begun: int | None, access: Access
    ) -> list[dict[str, Any]]:
        """The judgement objects of the latest session of this id, or of that which began then.

        The id of a trace leads to the latest session that has calls of it.

        Raises:
            ArchiveUnreadError: nobody knows whether there is one.
        """
        name, within = self._shown(session), namespace and self._shown(namespace)
        try:
            found = await asyncio.to_thread(self.reader.named, name, within, begun)
            if not found and len(session) in (16, 32):
                found = await asyncio.to_thread(self._of_id, session)
            latest: dict[str, SessionName] = {}
            for each in found:
                if access.sees(each.namespace) and within in (None, each.namespace):
                    latest.setdefault(each.namespace, each)
            texts = await asyncio.to_thread(self._objects, latest.values())
        except _FAULTS as problem:
            raise ArchiveUnreadError(_told(problem)) from None
        return [json.loads(text) for text in texts]

    async def latest(
        self, session: str, namespace: str | None, begun: int | None, access: Access
    ) -> SessionName | None:
        """The latest session of this id, of now or of before; or that which began then.

        Raises:
            ArchiveUnreadError: none is known of now, and nobody knows whether there is one of before.
        """
        original, shown = self._redaction.original, self._redaction.name
        name, within = self._shown(session), namespace and self._shown(namespace)
        inner = None if namespace is None else original(namespace)
        names = [
            SessionName(shown(each.key.namespace), shown(each.key.id), each.started_ns)
            for each, _ in self._monitor.reader.named(original(session), inner)
            if access.sees(each.key.namespace)
        ]
        try:
            before = await asyncio.to_thread(self.reader.named, name, within, begun)
        except _FAULTS as problem:
            unread, before = _told(problem), []
        else:
            unread = ""
        names += [each for each in before if access.sees(each.namespace)]
        fitting = [each for each in names if begun in (None, each.begun)]
        if unread and not fitting:
            raise ArchiveUnreadError(unread)
        return max(fitting, key=lambda each: each.begun, default=None)

    async def labels(self, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """`labels` of the sessions of judgement objects, the latest first, and `labels_more`, how many are left out."""
        names = {
            SessionName(each["namespace"], each["session"], each["started"]) for each in found
        }
        try:
            labels = [
                label
                for name in names
                for label in await asyncio.to_thread(self.reader.labels, name)
            ]
            more = 0
            if len(labels) >= LABELS_MAX:
                for name in names:
                    more += await asyncio.to_thread(self.reader.labels_more, name)
        except _FAULTS as problem:
            _told(problem)
            return {"labels": []}
        told = [each.as_json() for each in sorted(labels, key=lambda each: -each.at)]
        return {"labels": told, **({"labels_more": more} if more else {})}

    async def judged(self, name: SessionName) -> list[dict[str, Any]]:
        """What models said of a session, the earliest first."""
        try:
            found = await asyncio.to_thread(self.reader.judged, name)
        except _FAULTS as problem:
            _told(problem)
            return []
        return [json.loads(each) for each in found]

    def _shown(self, asked: str) -> str:
        """What the archive has for a name: as it is shown, or as it was sent."""
        return self._redaction.name(self._redaction.original(asked))

    def _of_id(self, id_: str) -> list[SessionName]:
        try:
            return self.reader.of_id(bytes.fromhex(id_))
        except ValueError:
            return []

    def _objects(self, names: Iterable[SessionName]) -> list[bytes]:
        return [
            text
            for name in names
            for _, objects in self.reader.session(name.session, name.namespace, name.begun)
            for text in objects
        ]


async def _count(
    names: Sequence[SessionName],
    held: Collection[tuple[str, str]] | None,
    shown: Callable[[SessionName], bool],
) -> int:
    """How many are not shown; other tasks run between lumps.

    Args:
        names: of sessions of the archive.
        held: namespaces and ids of which some may be shown; None if all may be.
        shown: True of those that are.
    """
    new = 0
    for number, name in enumerate(names, 1):
        new += not ((held is None or name[:2] in held) and shown(name))
        if number % _LUMP == 0:
            await asyncio.sleep(0)
    return new


def _told(problem: Exception) -> str:
    """Why the archive does not answer, which the log says, too."""
    if isinstance(problem, TooSlowError):
        why = "the archive took too long: narrow the search"
    elif isinstance(problem, NewerSchemaError):
        why = f"the archive is of a newer version: {problem}"
    elif isinstance(problem, OlderSchemaError):
        why = f"the archive is of an older version: {problem}"
    else:
        why = f"the archive cannot be read: {problem}"
    log.warning("archive_unread", reason=why)
    return why


def _search(query: SessionQuery, shown: Callable[[str], str]) -> ArchiveSearch:
    return ArchiveSearch(
        sort=query.sort,
        agent=shown(query.agent) if query.agent else "",
        spec=shown(query.spec) if query.spec else "",
        namespace=None if query.namespace is None else shown(query.namespace),
        text=query.text,
        harmful=query.only == "harmful",
        unjudged=query.only == "unjudged",
        spec_version=query.spec_version,
        service_version=query.service_version,
        reason=query.reason,
        severity=query.severity,
        tool=query.tool,
        mode=query.mode,
        since=query.since,
        until=query.until,
        ids=tuple(each for each in (query.trace_id, query.span_id) if each),
        label=query.label,
        thing=query.thing,
        namespaces=query.access.namespaces,
    )
