"""The archive's writer: what it cannot write is counted, told and lost alone."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from collector.archive import writer as writer_module
from collector.archive.pruning import ArchiveBounds
from collector.archive.reader import ArchiveReader
from collector.archive.record import ArchiveRecord, Label, SessionName
from collector.archive.schema import VERSION, migrate
from collector.archive.search import ArchiveSearch
from collector.archive.store import FILE, ArchiveStore
from collector.archive.writer import ArchiveWriter
from collector.state.lock import Lock, LockedError
from collector.telemetry.logs import captured
from tests.collector.archive.sessions import made
from tests.collector.archive.test_store import names

ROOM = ArchiveBounds(1 << 62, 1 << 62, 1_000_000, 1 << 40)


def new(folder: Path) -> ArchiveWriter:
    return ArchiveWriter(folder, ROOM, lambda: 100)


def wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not until():
        assert time.monotonic() < end
        time.sleep(0.005)


def there(folder: Path, session: str = "s") -> bool:
    return bool(ArchiveReader(folder).session(session))


def test_what_is_put_is_written(tmp_path: Path) -> None:
    """All that was put before the stop is in the file, and counted once."""
    writer = new(tmp_path)
    writer.start()
    for number in range(500):
        assert writer.put(made(f"s{number}"))
    writer.stop(30)
    assert writer.written == 500
    assert there(tmp_path, "s499")
    assert len(writer) == 0


def test_sessions_wait_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that end one after the other are written together."""
    batches: list[int] = []
    write = ArchiveStore.write

    def counted(self: ArchiveStore, records: Iterable[ArchiveRecord]) -> None:
        batch = [*records]
        batches.append(len(batch))
        write(self, batch)

    monkeypatch.setattr(ArchiveStore, "write", counted)
    monkeypatch.setattr(writer_module, "_OTHERS_SECONDS", 30.0)
    writer = new(tmp_path)
    writer.start()
    for number in range(4):
        writer.put(made(f"s{number}"))
        time.sleep(0.02)
    writer.put(Label(SessionName("", "s0", 5), None, "right", "", "ana", 7))  # waits for none
    wait(lambda: writer.done == 5)
    writer.stop(30)
    assert batches == [5]


def test_a_folder_is_of_one_process(tmp_path: Path) -> None:
    """A second writer would read what lives as ended: it is refused, until the first one has stopped."""
    writer, other = new(tmp_path), new(tmp_path)
    writer.start()
    writer.put(made(ended=None))
    wait(lambda: writer.written == 1)
    with pytest.raises(LockedError, match="another process uses this folder"):
        other.start()
    assert there(tmp_path)  # who only reads is not refused
    assert not names(tmp_path, ArchiveSearch())
    writer.stop(30)
    other.start()
    other.stop(30)


def test_a_folder_may_be_the_journals_too(tmp_path: Path) -> None:
    """Journal and archive hold one folder, each by a file of its own."""
    lock = Lock(tmp_path)
    writer = new(tmp_path)
    writer.start()
    writer.stop(30)
    lock.release()


def test_a_full_queue_drops_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`put` never waits: beyond the bound a session is lost, and counted."""
    monkeypatch.setattr(writer_module, "QUEUE_MAX", 3)
    writer = new(tmp_path)  # nobody empties its queue
    taken = [writer.put(made(f"s{number}")) for number in range(5)]
    assert taken == [1, 2, 3, 0, 0]
    assert writer.dropped["queue_full"] == 2


def test_a_session_that_cannot_be_written_is_lost_alone(tmp_path: Path) -> None:
    """A number that is too large for SQLite keeps the others of its batch from nothing."""
    writer = new(tmp_path)
    writer.put(made("before"))
    writer.put(made("bad", begun=1 << 70))
    writer.put(made("after"))
    writer.start()
    writer.stop(30)
    assert there(tmp_path, "before")
    assert there(tmp_path, "after")
    assert writer.dropped["error"] == 1
    assert writer.written == 2


def test_a_deleted_file_is_counted_and_begun_anew(tmp_path: Path) -> None:
    """Somebody deletes the file: what was in it is counted as lost, and what comes is written to another one."""
    writer = new(tmp_path)
    writer.start()
    writer.put(made("lost"))
    wait(lambda: writer.written == 1)
    (tmp_path / FILE).unlink()
    with captured() as lines:
        writer.put(made("new"))
        wait(lambda: writer.written == 2)
    writer.stop(30)
    assert writer.dropped["deleted"] == 1
    assert there(tmp_path, "new")
    assert any(line.get("reason") == "deleted" for line in lines)


def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    """Another program holds the file for a while: nothing is lost where it lets go in time."""
    ArchiveStore(tmp_path).close()
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    writer = new(tmp_path)
    writer.start()
    other.execute("BEGIN EXCLUSIVE")
    writer.put(made())
    time.sleep(0.05)
    other.execute("ROLLBACK")
    wait(lambda: writer.written == 1)
    writer.stop(30)
    assert sum(writer.dropped.values()) == 0


def test_a_file_that_stays_locked_loses_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted as locked, and told; later sessions are written."""
    monkeypatch.setattr(writer_module, "_LOCK_TRIES", 1)
    ArchiveStore(tmp_path).close()
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    writer = new(tmp_path)
    writer.start()
    other.execute("BEGIN EXCLUSIVE")
    writer.put(made("lost"))
    wait(lambda: writer.dropped["locked"] == 1)
    other.execute("ROLLBACK")
    writer.put(made("kept"))
    wait(lambda: writer.written == 1)
    writer.stop(30)
    assert there(tmp_path, "kept")


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    """What is no SQLite file makes room for one; it is kept beside it."""
    (tmp_path / FILE).write_bytes(b"no database" * 1_000)
    writer = new(tmp_path)
    writer.start()
    writer.put(made("first"))
    writer.put(made("second"))
    wait(lambda: writer.written >= 1)
    writer.stop(30)
    assert there(tmp_path, "second")
    assert (tmp_path / FILE).with_suffix(".damaged").read_bytes().startswith(b"no database")


def test_a_file_of_a_newer_version_is_told_of(tmp_path: Path) -> None:
    """It is left as it is; what would have been written is counted."""
    ArchiveStore(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    writer = new(tmp_path)
    with captured() as lines:
        writer.start()
        writer.put(made())
        writer.stop(30)
    assert writer.dropped["newer_schema"] == 1
    assert any(line.get("reason") == "newer_schema" for line in lines)


def test_a_full_disk_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that finds no room is counted as such; a smaller one of its batch is written."""

    def nearly_full(connection: sqlite3.Connection) -> None:
        migrate(connection)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 4}")

    monkeypatch.setattr("collector.archive.store.migrate", nearly_full)
    writer = new(tmp_path)
    writer.start()
    writer.put(made("large", summary=bytes(1 << 20)))
    writer.put(made("small"))
    wait(lambda: writer.written + sum(writer.dropped.values()) == 2)
    writer.stop(30)
    assert writer.dropped["disk_full"] == 1
    assert there(tmp_path, "small")
