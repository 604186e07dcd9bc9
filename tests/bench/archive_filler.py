"""Fills an archive with millions of sessions, in minutes: copies of rows that the writer has written.

    python -m tests.bench.archive_filler FOLDER SESSIONS

Idea: the writer writes some hundred sessions that a monitor has judged. Their rows are copied under other ids and times, without
a journal, and indexes, parts of ids and sums are made at the end, each from all rows at once.

So a table has what the writer would put in it, but for two things: a judgement object is that of the session that was copied,
and pages of indexes are full, as after VACUUM.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from collector.archive.record import HOUR_NS, ArchivedSession
from collector.archive.schema import FIGURES
from collector.archive.store import ArchiveStore
from monitor.records import Reason
from tests.bench.archive import DAYS, samples

__all__ = ["LABELLED", "LONG", "NAMESPACES", "RARE", "THINGS", "fill_fast"]

NAMESPACES: Final = ("", "farm", "farm/north", "lab")
LONG: Final = 50
"""One of so many sessions lasts for hours."""
THINGS: Final = 20
"""One of so many has a thing."""
LABELLED: Final = 1_000
"""One of so many has a label."""
RARE: Final = 100_000
"""One of so many is of an agent that calls a tool which no other calls."""
_LUMP: Final = 10_000
_TRACES: Final = 3
"""Which seventh of the ids are of traces."""
_TABLES: Final = ("sessions", "judgements", "objects", "harms", "shares", "harm_shares")


class _Copied(NamedTuple):
    """The rows of one session, without what each copy has for itself."""

    namespace: str
    begun: int
    last: int
    hour: int
    rest: tuple[Any, ...]
    """Of its row, from severity to risk."""
    size: int
    judgements: list[tuple[tuple[Any, ...], list[bytes], bytes]]
    """Group, words and harm; the summary, in the parts between id, begin and end; the object."""
    harms: list[tuple[int, tuple[Any, ...]]]
    """Place of the judgement, and the row."""
    shares: list[tuple[int, tuple[Any, ...]]]
    harm_shares: list[tuple[int, tuple[Any, ...]]]
    """Hours, and the rows."""


def fill_fast(folder: Path, count: int, now_ns: int, seed: int = 1) -> None:
    """Fills a new archive with so many sessions of the last days, the earliest first; says how long each part took."""
    store = ArchiveStore(folder)
    found = samples(NAMESPACES)
    store.write([*found[:-1], _rare(found[-1])])
    path = store.path
    store.close()
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -2000000"):
        connection.execute(f"PRAGMA {pragma}")
    copied = [*_templates(connection)]
    later = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    ).fetchall()
    for kind, name, _ in later:
        connection.execute(f"DROP {kind} {name}")
    connection.execute("INSERT INTO found (found) VALUES ('delete-all')")
    for table in (*_TABLES, "ids", "sums", "day_sums", "harm_sums", "day_harm_sums"):
        connection.execute(f"DELETE FROM {table}")
    with _timed("rows"):
        _copy(connection, copied, count, now_ns, random.Random(seed))
    with _timed("ids"):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO ids VALUES (?, ?)", _ids(count))
        connection.execute("COMMIT")
    with _timed("sums"):
        _add_up(connection)
    with _timed("found"):
        connection.execute("INSERT INTO found (found) VALUES ('rebuild')")
    for _, name, sql in later:
        with _timed(name):
            connection.execute(sql)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


@contextlib.contextmanager
def _timed(what: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    print(f"{what:24} {time.perf_counter() - begun:8.1f} s", flush=True)


def _rare(session: ArchivedSession) -> ArchivedSession:
    """A session of the agent that calls a tool which no other calls."""
    judgements = [
        each._replace(
            group=each.group._replace(agent="rover-rare"),
            tools=(*each.tools, "sprinkle"),
            harms=(("sprinkle", Reason.FORBIDDEN.value, "info"),),
            harmful=1,
        )
        for each in session.judgements
    ]
    shares = [
        each._replace(group=each.group._replace(agent="rover-rare")) for each in session.shares
    ]
    return session._replace(
        keys=session.keys._replace(severity=1, harmful=1),
        judgements=tuple(judgements),
        shares=tuple(shares),
    )


def _templates(connection: sqlite3.Connection) -> Iterator[_Copied]:
    rows = connection.execute(
        "SELECT id, namespace, session, begun, last, severity, harmful, harm_rate, lost, risk, size FROM sessions ORDER BY id"
    ).fetchall()
    for sid, namespace, session, begun, last, *rest, size in rows:
        ask, values, places = connection.execute, (sid,), dict[int, int]()
        judgements: list[tuple[tuple[Any, ...], list[bytes], bytes]] = []
        for jid, *narrow, summary, whole in ask(
            "SELECT j.id, j.grp, j.words, j.harmful, o.summary, o.object FROM judgements j JOIN objects o ON o.jid = j.id"
            " WHERE j.sid = ? ORDER BY j.id",
            values,
        ):
            places[jid] = len(judgements)
            judgements.append((tuple(narrow), _cut(summary, session, begun, last), whole))
        harms = ask("SELECT jid, folded, reason, severity FROM harms WHERE sid = ?", values)
        hour = last // HOUR_NS
        shares = [
            [
                (row[0] - hour, row[1:])
                for row in ask(f"SELECT hour, grp, {names} FROM {table} WHERE sid = ?", values)
            ]
            for table, names in (("shares", FIGURES), ("harm_shares", "what, name"))
        ]
        yield _Copied(
            namespace,
            begun,
            last,
            hour,
            tuple(rest),
            size,
            judgements,
            [(places[jid], tuple(row)) for jid, *row in harms],
            *shares,
        )


def _cut(summary: bytes, session: str, begun: int, last: int) -> list[bytes]:
    found, parts = summary, []
    for each in (session, begun, last):
        before, found = found.split(f"{each}".encode(), 1)
        parts.append(before)
    return [*parts, found]


def _copy(
    connection: sqlite3.Connection,
    copied: list[_Copied],
    count: int,
    now: int,
    chance: random.Random,
) -> None:
    step, jid = DAYS * 24 * HOUR_NS // count, 0
    for first in range(0, count, _LUMP):
        lump: dict[str, list[tuple[Any, ...]]] = {
            name: [] for name in (*_TABLES, "things", "labels")
        }
        numbers = range(first + 1, min(first + _LUMP, count) + 1)
        for sid, each in zip(numbers, chance.choices(copied[:-1], k=len(numbers)), strict=True):
            from_ = copied[-1] if sid % RARE == 0 else each
            last = now - (count - sid) * step
            begun = last - (from_.last - from_.begun)
            if sid % LONG == 0:
                begun -= chance.randrange(HOUR_NS, 12 * HOUR_NS)
            jid = _add(lump, from_, (sid, jid, f"{chance.getrandbits(128):032x}", begun, last))
        connection.execute("BEGIN")
        for name, rows in lump.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        connection.execute("COMMIT")


def _add(
    lump: dict[str, list[tuple[Any, ...]]],
    copied: _Copied,
    own: tuple[int, int, str, int, int],
) -> int:
    """Adds the rows of one session; the number of its last judgement."""
    sid, jid, name, begun, last = own
    lump["sessions"].append(
        (
            sid,
            copied.namespace,
            name,
            begun,
            last,
            last,
            "idle",
            *copied.rest,
            name,
            "",
            copied.size,
        )
    )
    texts = name.encode(), b"%d" % begun, b"%d" % last
    for place, (narrow, (one, two, three, four), whole) in enumerate(
        copied.judgements, jid + 1
    ):
        lump["judgements"].append((place, sid, *narrow))
        summary = b"".join((one, texts[0], two, texts[1], three, texts[2], four))
        lump["objects"].append((place, summary, whole))
    for place, harm in copied.harms:
        lump["harms"].append((jid + 1 + place, sid, *harm))
    hour = last // HOUR_NS
    for table, rows in (("shares", copied.shares), ("harm_shares", copied.harm_shares)):
        lump[table] += [(sid, hour + hours, *row) for hours, row in rows]
    if sid % THINGS == 0:
        lump["things"].append((jid + 1, sid, "order", f"order-{sid // THINGS}"))
    if sid % LABELLED == 0:
        label = "wrong" if sid % (2 * LABELLED) == 0 else "right"
        lump["labels"].append(
            (None, copied.namespace, name, begun, None, label, "", "bench", last)
        )
    return jid + len(copied.judgements)


def _ids(count: int) -> Iterator[tuple[bytes, int]]:
    """Six spans and a trace a session, in the order of the table; sessions are far apart in it."""
    each = 7 * count
    apart = next(
        n for n in range(int(count * 0.618) | 1, 2 * count + 3, 2) if _coprime(n, count)
    )
    stride = (1 << 64) // each
    for number in range(each):
        id_ = (number * stride).to_bytes(8, "big")
        yield (id_ + id_ if number // count == _TRACES else id_), number * apart % count + 1


def _coprime(one: int, two: int) -> bool:
    while two:
        one, two = two, one % two
    return one == 1


def _add_up(connection: sqlite3.Connection) -> None:
    figures = ", ".join(f"sum({each})" for each in FIGURES.split(", "))
    for statement in (
        f"INSERT INTO sums SELECT grp, hour, {figures} FROM shares GROUP BY 1, 2",
        f"INSERT INTO day_sums SELECT grp, hour / 24, {figures} FROM sums GROUP BY 1, 2",
        "INSERT INTO harm_sums SELECT grp, hour, what, name, count(*) FROM harm_shares GROUP BY 1, 2, 3, 4",
        "INSERT INTO day_harm_sums SELECT grp, hour / 24, what, name, sum(sessions) FROM harm_sums GROUP BY 1, 2, 3, 4",
    ):
        connection.execute(statement)


if __name__ == "__main__":
    fill_fast(Path(sys.argv[1]), int(sys.argv[2]), time.time_ns())
