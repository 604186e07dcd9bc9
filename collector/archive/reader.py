"""Questions to the archive. Each opens the file for itself, so any thread may ask while the writer writes.

Idea: what a list shows stands in the rows as JSON. So SQL chooses and sorts sessions, and nothing is judged again.

Invariant: a page goes on behind the last session of the page before, by its sort key and its name: a session that was
there and did not move is on one page.
"""

# ruff: noqa: S608 - conditions are texts of ours; what is asked for is bound
from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import zstandard

from collector.archive.connection import ArchiveConnection
from collector.archive.page_search import (
    LOOK_SECONDS,
    FoundRow,
    PageSearch,
    SortKey,
    in_order,
)
from collector.archive.record import FigureGroup, Figures, Label, SessionName, VerdictLabels
from collector.archive.schema import FIGURES, VERSION, NewerSchemaError, OlderSchemaError
from collector.archive.search import (
    LATEST,
    LOOKED_AT_MAX,
    MATCHING_MAX,
    SHORT_TEXT_LOOKED_AT_MAX,
    ArchiveSearch,
    SqlText,
    SumsSearch,
    conditions,
    judged,
    sets,
    with_part_of_id,
)
from collector.archive.store import FILE, LOST

__all__ = [
    "LABELS_MAX",
    "MATCHING_MAX",
    "ArchiveReader",
    "ArchiveSearch",
    "FoundPage",
    "MatchingSessions",
    "PastSession",
    "SortKey",
    "TooSlowError",
]

LABELS_MAX: Final = 100
"""Labels of one session that are shown, the latest."""
PATIENCE_SECONDS: Final = 10.0
"""Time for one question."""
LUMP: Final = 200
"""Sessions that are read whole in one question."""
_STEPS: Final = 20_000
"""Instructions of SQLite between two looks at the time."""

_GROUP: Final = ", ".join(f"g.{name}" for name in FigureGroup._fields)


class TooSlowError(Exception):
    """A question took too long."""


class PastSession(NamedTuple):
    """A session of the archive, with its judgements that were asked for."""

    name: SessionName
    key: SortKey
    objects: list[bytes]
    """Judgement objects or summaries, as JSON."""


class MatchingSessions(NamedTuple):
    """Sessions that are asked for."""

    names: list[SessionName]
    is_all: bool
    """False if there may be others."""


class FoundPage(NamedTuple):
    """One page, and how many match."""

    sessions: list[PastSession]
    matching: MatchingSessions
    reached: tuple[SortKey, SessionName] | None = None
    """Sessions behind this place were not looked at, for want of time; None if the page is full, or nothing is behind it."""


class ArchiveReader:
    """Reads an archive.

    Args:
        folder: of the archive.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def close(self) -> None:
        """Nothing is open between two questions."""

    def page(
        self,
        search: ArchiveSearch,
        limit: int,
        after: tuple[SortKey, SessionName] | None = None,
        *,
        steps: bool = False,
        without: Collection[SessionName] = (),
        seconds: float = LOOK_SECONDS,
    ) -> FoundPage:
        """The sessions of one page, and how many match; both in one pass, and a bounded time.

        Args:
            search: what is asked for.
            limit: so many, at most; 0 counts alone.
            after: the last session of the page before, or the place that it had reached.
            steps: True gives whole judgement objects, else summaries.
            without: sessions that are passed over.
            seconds: the time of each of the ways in which sessions are looked at.

        Raises:
            sqlite3.Error: the file cannot be read.
            NewerSchemaError: a newer version has written it.
            OlderSchemaError: an older one, and it is not yet brought to this one.
            TooSlowError: it took too long.
        """
        behind = None if after is None else FoundRow(0, after[1], after[0])
        with self._opened() as connection:
            ids, is_whole = self._smallest(connection, search, LOOKED_AT_MAX)
            looking = PageSearch(connection, search, conditions(search), seconds)
            matching, is_all = looking.among(ids, 2 * seconds if is_whole else seconds)
            rows: Iterable[FoundRow] = ()
            come = None
            if is_all and is_whole:
                rows = in_order(matching, behind)
            elif limit:
                rows, come = looking.walk(limit + len(without), behind)
            chosen = [*islice((each for each in rows if each.name not in without), limit)]
            names = [SessionName(*each[1:4]) for each in matching[:MATCHING_MAX]]
            is_all = is_all and is_whole and not self._is_cut(connection, search)
            return FoundPage(
                _past(connection, chosen, search, steps=steps),
                MatchingSessions(names, is_all),
                None if come is None or len(chosen) == limit else (come.key, come.name),
            )

    def every(self, search: ArchiveSearch) -> Iterator[PastSession]:
        """All sessions that are asked for, with whole judgement objects.

        Raises:
            sqlite3.Error, NewerSchemaError, OlderSchemaError, TooSlowError: as `page`, of each question.
        """
        with self._opened() as connection:
            ids, is_whole = self._smallest(connection, search, MATCHING_MAX)
            looking = PageSearch(connection, search, conditions(search), math.inf)
            matching, is_all = looking.among(ids, math.inf)
        rows = in_order(matching, None) if is_all and is_whole else self._walked(search)
        while lump := [*islice(rows, LUMP)]:
            with self._opened() as connection:
                # Written again meanwhile, a session has another row, and its old one may be another session's.
                there = [each for row in lump for each in _now_of(connection, row)]
                found = _past(connection, there, search, steps=True)
            yield from found

    def _walked(self, search: ArchiveSearch) -> Iterator[FoundRow]:
        """All sessions that are asked for, looked for among all that there are."""
        last = None
        while True:
            with self._opened() as connection:
                looking = PageSearch(connection, search, conditions(search), math.inf)
                rows, _ = looking.walk(LUMP, last)
            yield from rows
            if len(rows) < LUMP:
                return
            last = rows[-1]

    def _is_cut(self, connection: ArchiveConnection, search: ArchiveSearch) -> bool:
        """True if not all ids were looked at for a short text."""
        if not search.is_short:
            return False
        # Each by itself is the end of an index; both in one question would be a look at all.
        (numbers,) = connection.execute(
            "SELECT (SELECT max(id) FROM sessions) - (SELECT min(id) FROM sessions)"
        ).fetchone()
        return (numbers or 0) >= SHORT_TEXT_LOOKED_AT_MAX

    def named(
        self, session: str, namespace: str | None = None, begun: int | None = None
    ) -> list[SessionName]:
        """The sessions of this id, the latest first."""
        with self._opened() as connection:
            return [name for _, name in _named(connection, session, namespace, begun)]

    def session(
        self, session: str, namespace: str | None = None, begun: int | None = None
    ) -> list[tuple[SessionName, list[bytes]]]:
        """The judgement objects of sessions of this id, the latest first."""
        every = ArchiveSearch()
        with self._opened() as connection:
            return [
                (name, _objects(connection, row, every, steps=True))
                for row, name in _named(connection, session, namespace, begun)
            ]

    def of_id(self, id_: bytes) -> list[SessionName]:
        """The sessions of a trace or a span, the latest first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT s.namespace, s.session, s.begun FROM ids JOIN sessions s ON s.id = ids.sid"
                " WHERE ids.hash = ? ORDER BY s.begun DESC, s.namespace, s.session LIMIT 100",
                (id_,),
            )
            return [SessionName(*row) for row in rows]

    def labels(self, name: SessionName) -> list[Label]:
        """The labels of a session, the latest first; at most `LABELS_MAX`."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT namespace, session, begun, spec, label, note, who, at FROM labels"
                " WHERE session = ? AND namespace = ? AND begun = ? ORDER BY id DESC LIMIT ?",
                (name.session, name.namespace, name.begun, LABELS_MAX),
            )
            return [Label(SessionName(*row[:3]), *row[3:]) for row in rows]

    def labels_more(self, name: SessionName) -> int:
        """How many labels of a session are left out of `labels`."""
        with self._opened() as connection:
            (found,) = connection.execute(
                "SELECT count(*) FROM labels WHERE session = ? AND namespace = ? AND begun = ?",
                (name.session, name.namespace, name.begun),
            ).fetchone()
            return max(0, int(found) - LABELS_MAX)

    def judged(self, name: SessionName) -> list[bytes]:
        """What models say of a session, as JSON, the earliest first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT object FROM judged WHERE session = ? AND namespace = ? AND begun = ? ORDER BY at LIMIT 100",
                (name.session, name.namespace, name.begun),
            ).fetchall()
        unpack = zstandard.ZstdDecompressor().decompress
        return [unpack(each) for (each,) in rows]

    def labelled(self, label: str) -> list[SessionName]:
        """Sessions whose latest label is this one; at most `MATCHING_MAX`, whose label is the latest."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT l.namespace, l.session, l.begun FROM labels l"
                f" WHERE l.label = ? AND {LATEST} GROUP BY l.namespace, l.session, l.begun"
                " ORDER BY max(l.id) DESC LIMIT ?",
                (label, MATCHING_MAX),
            )
            return [SessionName(*row) for row in rows]

    def label_counts(self, search: SumsSearch, since: int) -> dict[str, VerdictLabels]:
        """By spec, the sessions with a harmful call under it, by their latest label for that spec or for all.

        Args:
            search: chooses groups; its time does not count.
            since: Unix nanoseconds; sessions whose last call ended then or later.
        """
        where, values = search.groups
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT spec, label, count(*) FROM (SELECT g.spec, l.label,"
                " row_number() OVER (PARTITION BY g.spec, s.id ORDER BY l.id DESC) AS place"
                " FROM (SELECT max(id) AS id FROM labels GROUP BY namespace, session, begun, spec) last"
                " JOIN labels l ON l.id = last.id"
                " JOIN sessions s ON s.session = l.session AND s.namespace = l.namespace AND s.begun = l.begun"
                " JOIN judgements j ON j.sid = s.id JOIN groups g ON g.id = j.grp"
                " WHERE l.label IS NOT NULL AND j.harmful > 0 AND s.last >= ?"
                f" AND (l.spec IS NULL OR l.spec = g.spec) AND {where}) labelled"
                " WHERE place = 1 GROUP BY spec, label",
                (since, *values),
            ).fetchall()
        found: dict[str, VerdictLabels] = {}
        for spec, label, sessions in rows:
            found[spec] = found.get(spec, VerdictLabels())._replace(**{label: sessions})
        return found

    def sums(self, search: SumsSearch) -> list[tuple[int, FigureGroup, Figures]]:
        """The sums of groups: the number of the step, the group, its figures."""
        where, values = search.conditions("u")
        step, places = search.place
        columns = ", ".join(f"sum(u.{name})" for name in FIGURES.split(", "))
        with self._opened() as connection:
            rows = connection.execute(
                f"SELECT {step} AS step, {_GROUP}, {columns} FROM groups g JOIN {search.table('sums')} u ON u.grp = g.id"
                f" WHERE {where} GROUP BY step, g.id",
                (*places, *values),
            )
            return [
                (
                    step,
                    FigureGroup._make(rest[: len(FigureGroup._fields)]),
                    Figures._make(rest[len(FigureGroup._fields) :]),
                )
                for step, *rest in rows
            ]

    def harm_sums(self, search: SumsSearch) -> list[tuple[FigureGroup, str, str, int]]:
        """Of groups: what is counted (reason, tool, severity), its name, and the sessions that have it."""
        where, values = search.conditions("u")
        with self._opened() as connection:
            rows = connection.execute(
                f"SELECT {_GROUP}, u.what, u.name, sum(u.sessions) FROM groups g JOIN {search.table('harm_sums')} u ON u.grp = g.id"
                f" WHERE {where} GROUP BY g.id, u.what, u.name",
                values,
            )
            return [(FigureGroup._make(rest[:-3]), *rest[-3:]) for rest in rows]

    def live(self) -> list[SessionName]:
        """Sessions that live by their rows; also of a file of an older version."""
        with self._opened(since=1) as connection:
            rows = connection.execute(
                "SELECT namespace, session, begun FROM sessions WHERE ended IS NULL"
            )
            return [SessionName(*row) for row in rows]

    def _smallest(
        self, connection: ArchiveConnection, search: ArchiveSearch, most: int
    ) -> tuple[set[int] | None, bool]:
        """The smallest set of a search; where each has more than `most` sessions, so many of the first, and False.

        Without a set None, which stands for all sessions.
        """
        part: set[int] | None = None
        smallest: set[int] | None = None
        for each in sets(search, self._with_part_of_id):
            asked = f"{each.text} LIMIT ?", (*each.values, most + 1)
            rows = connection.execute(*asked).fetchall()
            found = {row for (row,) in rows}
            if len(rows) > most:
                part = part or found
            elif smallest is None or len(found) < len(smallest):
                smallest = found
        return (part, part is None) if smallest is None else (smallest, True)

    def _with_part_of_id(self, text: str) -> SqlText:
        return with_part_of_id(text)

    @contextlib.contextmanager
    def _opened(self, since: int = VERSION) -> Iterator[ArchiveConnection]:
        """The file, for a question that is the same since a version."""
        connection = _connected(self._path)
        until = time.monotonic() + PATIENCE_SECONDS
        try:
            connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            if found > VERSION:
                raise NewerSchemaError(found)
            if found < since:
                raise OlderSchemaError(found)
            yield connection
        except sqlite3.OperationalError as problem:
            if time.monotonic() > until:
                raise TooSlowError from problem
            raise
        finally:
            connection.close()


def _connected(path: Path) -> sqlite3.Connection:
    """A connection that only reads, also of a folder that only may be read."""
    uri = path.resolve().as_uri()
    try:
        connection = sqlite3.connect(f"{uri}?mode=ro", uri=True)
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)
    return connection


def _named(
    connection: ArchiveConnection, session: str, namespace: str | None, begun: int | None
) -> list[tuple[int, SessionName]]:
    rows = connection.execute(
        "SELECT id, namespace, session, begun FROM sessions WHERE session = ?"
        " AND (? IS NULL OR namespace = ?) AND (? IS NULL OR begun = ?) ORDER BY begun DESC, namespace",
        (session, namespace, namespace, begun, begun),
    ).fetchall()
    return [(row, SessionName(*name)) for row, *name in rows]


def _now_of(connection: ArchiveConnection, found: FoundRow) -> list[FoundRow]:
    """A session that was found before, where it is now; none if it is there no more."""
    namespace, session, begun = found.name
    return [found._replace(row=row) for row, _ in _named(connection, session, namespace, begun)]


def _past(
    connection: ArchiveConnection,
    rows: Iterable[FoundRow],
    search: ArchiveSearch,
    *,
    steps: bool,
) -> list[PastSession]:
    return [
        PastSession(each.name, each.key, _objects(connection, each.row, search, steps=steps))
        for each in rows
    ]


def _objects(
    connection: ArchiveConnection, row: int, search: ArchiveSearch, *, steps: bool
) -> list[bytes]:
    where, values = judged(search)
    column = "object" if steps else "summary"
    found = connection.execute(
        f"SELECT o.{column}, s.ended FROM judgements j JOIN objects o ON o.jid = j.id"
        f" JOIN sessions s ON s.id = j.sid WHERE j.sid = ? AND {where} ORDER BY j.id",
        (row, *values),
    )
    unpack = zstandard.ZstdDecompressor().decompress if steps else bytes
    return [_with_end(unpack(each), ended) for each, ended in found]


def _with_end(written: bytes, ended: str | None) -> bytes:
    """An object as it was written; one that was live then, and whose process is gone, has an end now."""
    if ended != LOST:
        return written
    # The field stands before all that may hold another one of this name, and texts have no bare quotes.
    return written.replace(b'"ended":null', b'"ended":"%b"' % LOST.encode(), 1)
