"""Questions to the archive. Each opens the file for itself, so any thread may ask while the writer writes.

Idea: what a list shows stands in the rows as JSON. So SQL chooses and sorts sessions, and nothing is judged again.

Invariant: a page goes on behind the last session of the page before, by its sort key and its name: a session that was
there and did not move is on one page.
"""

# ruff: noqa: S608 - conditions are texts of ours; what is asked for is bound
from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import zstandard

from collector.archive.record import Label, SessionName
from collector.archive.schema import VERSION, NewerSchemaError
from collector.archive.store import FILE

__all__ = [
    "MATCHING_MAX",
    "ArchiveReader",
    "ArchiveSearch",
    "PastSession",
    "SortKey",
    "TooSlowError",
]

SortKey = tuple[float, float, int]
"""What a list is sorted by, the greatest first; the last is the receipt of the last call."""

MATCHING_MAX: Final = 10_000
"""Sessions that are counted, at most."""
PATIENCE_SECONDS: Final = 10.0
"""Time for one question."""
_STEPS: Final = 20_000
"""Instructions of SQLite between two looks at the time."""

COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "recent": ("0", "0"),
    "harm": ("s.harmful", "s.harm_rate"),
    "harm_rate": ("s.harm_rate", "s.harmful"),
    "prefix_crit": ("s.lost", "s.harmful"),
    "severity": ("s.severity", "s.harmful"),
    "risk": ("s.risk", "s.lost"),
}
"""The first two parts of the sort key, by what is sorted by."""


class TooSlowError(Exception):
    """A question took too long."""


class ArchiveSearch(NamedTuple):
    """Which sessions, and in what order. "" and None let anything pass."""

    sort: str = "recent"
    agent: str = ""
    spec: str = ""
    namespace: str | None = None
    text: str = ""
    """Part of a session's id, its agent, its spec, a tool or a reason, in lower case; or the whole id of a trace."""
    harmful: bool = False
    reason: str = ""
    severity: str = ""
    tool: str = ""
    """Part of a tool's name, in lower case."""
    mode: str = ""
    since: int = 0
    """Sessions whose last call ended then or later, Unix nanoseconds."""
    until: int = 0
    """Sessions whose first call began then or earlier; 0: all."""
    ids: tuple[bytes, ...] = ()
    """Ids of traces and spans that the session all has."""
    label: str = ""
    namespaces: tuple[str, ...] | None = None
    """Visible namespaces, each with all below it; None: all."""
    ended: bool = True
    """True leaves out sessions that live by their rows."""


class PastSession(NamedTuple):
    """A session of the archive, with its judgements that were asked for."""

    name: SessionName
    key: SortKey
    objects: list[bytes]
    """Judgement objects or summaries, as JSON."""


class ArchiveReader:
    """Reads an archive.

    Args:
        folder: of the archive.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def search(
        self,
        search: ArchiveSearch,
        limit: int,
        after: tuple[SortKey, SessionName] | None = None,
        *,
        steps: bool = False,
        without: Collection[SessionName] = (),
    ) -> list[PastSession]:
        """The sessions of one page.

        Args:
            search: what is asked for.
            limit: so many, at most.
            after: the last session of the page before.
            steps: True gives whole judgement objects, else summaries.
            without: sessions that are passed over.

        Raises:
            sqlite3.Error: the file cannot be read.
            NewerSchemaError: a newer version has written it.
            TooSlowError: it took too long.
        """
        where, values = _where(search)
        first, second = COLUMNS[search.sort]
        order = f"{first}, {second}, s.touched, s.begun, s.namespace, s.session"
        if search.sort == "recent":
            order = order.removeprefix("0, 0, ")
        if after is not None:
            key, name = after
            last = key[2:] if search.sort == "recent" else key
            places = ", ".join("?" * (len(last) + len(name)))
            where += f" AND ({order}) < ({places})"
            values = (*values, *last, name.begun, name.namespace, name.session)
        down = ", ".join(f"{each} DESC" for each in order.split(", "))
        with self._opened() as connection:
            rows = connection.execute(
                f"SELECT s.id, s.namespace, s.session, s.begun, {first}, {second}, s.touched"
                f" FROM sessions s WHERE {where} ORDER BY {down} LIMIT ?",
                (*values, limit + len(without)),
            )
            named = ((row[0], SessionName(*row[1:4]), row[4:]) for row in rows)
            chosen = [*islice((each for each in named if each[1] not in without), limit)]
            return [
                PastSession(
                    name,
                    (key[0], key[1], key[2]),
                    _objects(connection, row, search, steps=steps),
                )
                for row, name, key in chosen
            ]

    def matching(self, search: ArchiveSearch) -> list[SessionName]:
        """The names of all sessions that are asked for; at most `MATCHING_MAX` + 1."""
        where, values = _where(search)
        with self._opened() as connection:
            rows = connection.execute(
                f"SELECT s.namespace, s.session, s.begun FROM sessions s WHERE {where} LIMIT ?",
                (*values, MATCHING_MAX + 1),
            )
            return [SessionName(*row) for row in rows]

    def session(
        self, session: str, namespace: str | None = None, begun: int | None = None
    ) -> list[tuple[SessionName, list[bytes]]]:
        """The judgement objects of sessions of this id, the latest first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT id, namespace, session, begun FROM sessions WHERE session = ?"
                " AND (? IS NULL OR namespace = ?) AND (? IS NULL OR begun = ?) ORDER BY begun DESC",
                (session, namespace, namespace, begun, begun),
            ).fetchall()
            every = ArchiveSearch()
            return [
                (SessionName(*name), _objects(connection, row, every, steps=True))
                for row, *name in rows
            ]

    def of_id(self, id_: bytes) -> list[SessionName]:
        """The sessions of a trace or a span, the latest first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT s.namespace, s.session, s.begun FROM ids JOIN sessions s ON s.id = ids.sid"
                " WHERE ids.hash = ? ORDER BY s.begun DESC LIMIT 100",
                (id_,),
            )
            return [SessionName(*row) for row in rows]

    def labels(self, name: SessionName) -> list[Label]:
        """All labels of a session, the latest first."""
        with self._opened() as connection:
            rows = connection.execute(
                "SELECT namespace, session, begun, spec, label, note, who, at FROM labels"
                " WHERE session = ? AND namespace = ? AND begun = ? ORDER BY id DESC LIMIT 100",
                (name.session, name.namespace, name.begun),
            )
            return [Label(SessionName(*row[:3]), *row[3:]) for row in rows]

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
                "SELECT DISTINCT l.namespace, l.session, l.begun FROM labels l WHERE l.label = ? AND NOT EXISTS"
                " (SELECT 1 FROM labels m WHERE m.session = l.session AND m.namespace = l.namespace"
                " AND m.begun = l.begun AND m.spec IS l.spec AND m.id > l.id) ORDER BY l.id DESC LIMIT ?",
                (label, MATCHING_MAX),
            )
            return [SessionName(*row) for row in rows]

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        connection = _connected(self._path)
        until = time.monotonic() + PATIENCE_SECONDS
        try:
            connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            connection.create_function("casefold", 1, str.casefold, deterministic=True)
            (found,) = connection.execute("PRAGMA user_version").fetchone()
            if found > VERSION:
                raise NewerSchemaError(found)
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


def _objects(
    connection: sqlite3.Connection, row: int, search: ArchiveSearch, *, steps: bool
) -> list[bytes]:
    where, values = _judgement(search)
    column = "object" if steps else "summary"
    found = connection.execute(
        f"SELECT j.{column} FROM judgements j WHERE j.sid = ?{where} ORDER BY j.id",
        (row, *values),
    )
    if not steps:
        return [each for (each,) in found]
    unpack = zstandard.ZstdDecompressor().decompress
    return [unpack(each) for (each,) in found]


def _where(search: ArchiveSearch) -> tuple[str, tuple[Any, ...]]:
    """The conditions on a session."""
    parts: list[tuple[str, Sequence[Any]]] = [("1", ())]
    if search.ended:
        parts.append(("s.ended IS NOT NULL", ()))
    if search.namespace is not None:
        parts.append(("s.namespace = ?", (search.namespace,)))
    if search.namespaces is not None:
        each = " OR ".join(
            "s.namespace = ? OR (s.namespace >= ? AND s.namespace < ?)"
            for _ in search.namespaces
        )
        # 0 is the character behind /.
        seen = [text for name in search.namespaces for text in (name, f"{name}/", f"{name}0")]
        parts.append((f"({each or '0'})", seen))
    if search.since:
        parts.append(("s.last >= ?", (search.since,)))
    if search.until:
        parts.append(("s.begun <= ?", (search.until,)))
    if search.text:
        parts.append(_text(search.text))
    parts += [("s.id IN (SELECT sid FROM ids WHERE hash = ?)", (each,)) for each in search.ids]
    if search.label:
        parts.append((_LABELLED, (search.label,)))
    condition, values = _judgement(search)
    if condition:
        parts.append(
            (f"EXISTS (SELECT 1 FROM judgements j WHERE j.sid = s.id{condition})", values)
        )
    return " AND ".join(text for text, _ in parts), tuple(
        value for _, values in parts for value in values
    )


_LABELLED: Final = (
    "EXISTS (SELECT 1 FROM labels l WHERE l.session = s.session AND l.namespace = s.namespace"
    " AND l.begun = s.begun AND l.label = ? AND NOT EXISTS (SELECT 1 FROM labels m WHERE m.session = l.session"
    " AND m.namespace = l.namespace AND m.begun = l.begun AND m.spec IS l.spec AND m.id > l.id))"
)
"""The latest label under a spec, or under all, is this one."""


def _text(text: str) -> tuple[str, Sequence[Any]]:
    words = text.replace(" ", "_")
    found = "(instr(s.text, ?) > 0 OR instr(s.text, ?) > 0"
    with contextlib.suppress(ValueError):
        if len(text) in (16, 32):
            id_ = bytes.fromhex(text)
            return f"{found} OR s.id IN (SELECT sid FROM ids WHERE hash = ?))", (
                text,
                words,
                id_,
            )
    return f"{found})", (text, words)


def _judgement(search: ArchiveSearch) -> tuple[str, tuple[Any, ...]]:
    """The conditions on one judgement of a session."""
    parts: list[tuple[str, Any]] = []
    if search.agent:
        parts.append((" AND j.agent = ?", search.agent))
    if search.spec:
        parts.append((" AND j.spec = ?", search.spec))
    if search.mode:
        parts.append((" AND j.mode = ?", search.mode))
    if search.reason or search.severity:
        text, values = _harm(search)
        return "".join(each for each, _ in parts) + text, (
            *(value for _, value in parts),
            *values,
        )
    if search.tool:
        parts.append(
            (
                " AND EXISTS (SELECT 1 FROM json_each(j.tools) t WHERE instr(casefold(t.value), ?) > 0)",
                search.tool,
            )
        )
    harmful = " AND j.harmful > 0 AND j.kind <> 'reference'" if search.harmful else ""
    return harmful + "".join(text for text, _ in parts), tuple(value for _, value in parts)


def _harm(search: ArchiveSearch) -> tuple[str, tuple[Any, ...]]:
    """One harmful call has all that is asked for."""
    asked = {
        "json_extract(h.value, '$[1]') = ?": search.reason,
        "json_extract(h.value, '$[2]') = ?": search.severity,
        "instr(casefold(json_extract(h.value, '$[0]')), ?) > 0": search.tool,
    }
    given = {text: value for text, value in asked.items() if value}
    each = " AND ".join(given)
    return (
        f" AND j.harmful > 0 AND EXISTS (SELECT 1 FROM json_each(j.harms) h WHERE {each})",
        tuple(given.values()),
    )
