"""An archive that is filled fast is one that the writer could have written."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from collector.archive.pruning import ArchiveBounds
from collector.archive.reader import ArchiveReader
from collector.archive.record import HOUR_NS
from collector.archive.schema import FIGURES
from collector.archive.search import ArchiveSearch
from collector.archive.store import FILE, ArchiveStore
from tests.bench.archive_filler import LONG, THINGS, fill_fast

SESSIONS = 400
NOW = 10_000 * HOUR_NS


def test_tables_and_indexes_fit_each_other(tmp_path: Path) -> None:
    """All sessions are found by agent, id and thing; sums are those of all shares; and what is deleted leaves nothing behind."""
    fill_fast(tmp_path, SESSIONS, NOW)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        file.execute("INSERT INTO found (found, rank) VALUES ('integrity-check', 1)")
        figures = ", ".join(f"round(sum({each}), 6)" for each in FIGURES.split(", "))
        for table in ("sums", "day_sums"):
            one, two = (
                file.execute(f"SELECT grp, {figures} FROM {each} GROUP BY grp").fetchall()
                for each in (table, "shares")
            )
            assert one == two
        ids = file.execute("SELECT sid, count(*), max(length(hash)) FROM ids GROUP BY sid")
        assert {row[1:] for row in ids} == {(7, 16)}
        long = "SELECT count(*) FROM sessions WHERE last - begun > 3600000000000"
        assert file.execute(long).fetchone() == (SESSIONS // LONG,)
    reader = ArchiveReader(tmp_path)
    [first] = reader.page(ArchiveSearch(), 1).sessions
    assert len([*reader.every(ArchiveSearch(text=first.name.session[3:11]))]) == 1
    assert first.name.session.encode() in first.objects[0]
    assert len(reader.page(ArchiveSearch(agent="rover-7"), 0).matching.names) > 0
    assert len([*reader.every(ArchiveSearch(thing=f"order order-{SESSIONS // THINGS}"))]) == 1
    store = ArchiveStore(tmp_path)
    assert store.prune(ArchiveBounds(1, 1, 1, 1 << 40), NOW + HOUR_NS)["age"] == SESSIONS
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as file:
        for table in ("judgements", "objects", "harms", "things", "shares", "ids"):
            assert file.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
