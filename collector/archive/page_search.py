"""One page of past sessions, and how many match, in one pass that has a bounded time.

Idea: where a filter alone has few sessions, these are looked at once, and give the page and the count. Else a walk in the order
of the list finds the page, a stretch at a time, each twice as long; when the time is up it says how far it has come, and the
next page goes on from there. So a page may be short, or empty, and others follow.

Invariant: pages that follow each other have each session that matches once, if it was there and did not move.

Example: of ten million sessions a hundred thousand are an agent's, another hundred thousand have a harm, and three have both.
The first page has none or some of them, and the place that it has come to.
"""

# ruff: noqa: S608 - conditions are texts of ours; what is asked for is bound
from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from collector.archive.connection import ArchiveConnection
from collector.archive.record import SessionName
from collector.archive.search import MATCHING_MAX, ArchiveSearch, SqlText, walks

__all__ = ["COLUMNS", "LOOK_SECONDS", "FoundRow", "PageSearch", "SortKey", "in_order"]

SortKey = tuple[float, float, int]
"""What a list is sorted by, the greatest first; the last is the receipt of the last call."""

LOOK_SECONDS: Final = 0.1
"""Time to look at the sessions of one filter, and time of a walk."""
SLICE: Final = 2_000
"""Sessions that are looked at between two looks at the time."""
STRETCH: Final = 500
"""Sessions of the first stretch of a walk."""
_TIME_MAX: Final = (1 << 63) - 1

COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "recent": ("0", "0"),
    "harm": ("s.harmful", "s.harm_rate"),
    "harm_rate": ("s.harm_rate", "s.harmful"),
    "prefix_crit": ("s.lost", "s.harmful"),
    "severity": ("s.severity", "s.harmful"),
    "risk": ("s.risk", "s.lost"),
}
"""The first two parts of the sort key, by what is sorted by."""


RawRow = tuple[Any, ...]
"""Number, namespace, id and beginning of a session, and its sort key."""


class FoundRow(NamedTuple):
    """A session as a search finds it."""

    row: int
    name: SessionName
    key: SortKey

    @classmethod
    def of(cls, raw: RawRow) -> FoundRow:
        """The same with names."""
        return cls(raw[0], SessionName(*raw[1:4]), raw[4:])

    @property
    def place(self) -> tuple[SortKey, int, SessionName]:
        """Where it stands in its list; the greatest comes first."""
        return self.key, self.name.begun, self.name


class PageSearch:
    """One search of an open archive.

    Args:
        connection: to the archive.
        search: what is asked for.
        where: what is looked at for one session.
        seconds: the time of a walk.
    """

    def __init__(
        self,
        connection: ArchiveConnection,
        search: ArchiveSearch,
        where: SqlText,
        seconds: float,
    ) -> None:
        first, second = COLUMNS[search.sort]
        self._connection = connection
        self._search = search
        self._where = where
        self._seconds = seconds
        self._columns = f"s.id, s.namespace, s.session, s.begun, {first}, {second}, s.touched"
        order = ("s.touched", "s.begun", "s.namespace", "s.session")
        self._order = order if search.sort == "recent" else (first, second, *order)

    def among(self, ids: Collection[int] | None, seconds: float) -> tuple[list[RawRow], bool]:
        """Sessions that match among these, and whether these are all; None: among all there are.

        At most one more than `MATCHING_MAX`, in no order, as the database gives them: most are only counted.
        """
        text, values = self._where
        if ids is None:
            some = self._raw(f"{text} LIMIT ?", (*values, MATCHING_MAX + 1))
            return some, len(some) <= MATCHING_MAX
        found: list[RawRow] = []
        until, left = time.monotonic() + seconds, iter(ids)
        while part := [*islice(left, SLICE)]:
            asked = f"s.id IN (SELECT value FROM json_each(?)) AND {text}"
            found += self._raw(asked, (json.dumps(part), *values))
            if len(found) > MATCHING_MAX or time.monotonic() > until:
                is_last = next(left, None) is None
                return found[: MATCHING_MAX + 1], is_last and len(found) <= MATCHING_MAX
        return found, True

    def walk(
        self, limit: int, after: FoundRow | None
    ) -> tuple[list[FoundRow], FoundRow | None]:
        """The first that match, in the order of the list, and the place that was come to; None if nothing is behind it.

        Args:
            limit: so many, at most.
            after: the last of the page before.
        """
        latest = _TIME_MAX if after is None else after.key[2]
        parts = walks(self._search, latest)
        walked = [self._walk(part, limit, after, self._seconds / len(parts)) for part in parts]
        ends = [end for _, end in walked if end is not None]
        come = max(ends, key=_place, default=None)
        rows = [
            row for rows, _ in walked for row in rows if come is None or row.place >= come.place
        ]
        rows.sort(key=_place, reverse=True)
        return rows[:limit], come

    def _walk(
        self, part: SqlText, limit: int, after: FoundRow | None, seconds: float
    ) -> tuple[list[FoundRow], FoundRow | None]:
        found: list[FoundRow] = []
        until, stretch = time.monotonic() + seconds, STRETCH
        while True:
            behind = SqlText.all_of((part, *self._beyond("<", after)))
            down = ", ".join(f"{each} DESC" for each in self._order)
            ends = self._rows(
                f"{behind.text} ORDER BY {down} LIMIT 1 OFFSET ?", (*behind.values, stretch - 1)
            )
            end = ends[0] if ends else None
            within = SqlText.all_of((behind, *self._beyond(">=", end), self._where))
            found += self._rows(
                f"{within.text} ORDER BY {down} LIMIT ?", (*within.values, limit - len(found))
            )
            if len(found) >= limit:
                return found, found[-1]
            if end is None or time.monotonic() > until:
                return found, end
            after, stretch = end, 2 * stretch

    def _beyond(self, sign: str, row: FoundRow | None) -> Sequence[SqlText]:
        """The condition that a session stands behind another one, or not behind it."""
        if row is None:
            # Without a bound SQLite reads and sorts all sessions, in place of the first of an index.
            return (SqlText(f"{self._order[0]} <= ?", (_TIME_MAX,)),) if sign == "<" else ()
        key = row.key[2:] if self._search.sort == "recent" else row.key
        values = (*key, row.name.begun, row.name.namespace, row.name.session)
        marks = ", ".join("?" * len(values))
        return (SqlText(f"({', '.join(self._order)}) {sign} ({marks})", values),)

    def _rows(self, where: str, values: Sequence[Any]) -> list[FoundRow]:
        return [*map(FoundRow.of, self._raw(where, values))]

    def _raw(self, where: str, values: Sequence[Any]) -> list[RawRow]:
        rows: list[RawRow] = self._connection.execute(
            f"SELECT {self._columns} FROM sessions s WHERE {where}", values
        ).fetchall()
        return rows


def in_order(rows: list[RawRow], behind: FoundRow | None) -> Iterator[FoundRow]:
    """The rows of a search in the order of its list, behind one of them."""
    rows = sorted(rows, key=_raw_place, reverse=True)
    place = None if behind is None else (behind.key, behind.name.begun, *behind.name[:2])
    return (FoundRow.of(each) for each in rows if place is None or _raw_place(each) < place)


def _raw_place(row: RawRow) -> tuple[Any, ...]:
    return row[4:], row[3], row[1], row[2]


def _place(row: FoundRow) -> tuple[SortKey, int, SessionName]:
    return row.place
