"""The SQLite file of the archive, as its one writer sees it. What is deleted from it, and when: `pruning`.

Invariants:

- A session is there once: what is written of it takes the place of what was written before, whatever its beginning has
  become since (an earlier call may arrive late), and whatever its id was (its trace's, before its own was known).
- A commit survives the end of the process, kill -9 included (WAL).

Example: a session that begins at 5 is written at a harm, with `ended` None. It goes on, and ends: its row is replaced. A
call that began at 4 arrives an hour later and wakes it; at its next end the row of 5 goes, and one of 4 comes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import zstandard

from collector.archive.connection import ArchiveConnection
from collector.archive.pending_rows import PendingRows
from collector.archive.pruning import PrunedTables
from collector.archive.record import (
    ArchivedJudgement,
    ArchivedSession,
    ArchiveRecord,
    FigureGroup,
    Label,
    ModelJudgement,
    SessionName,
)
from collector.archive.schema import migrate
from collector.archive.sum_changes import SumChanges

__all__ = [
    "FILE",
    "ArchiveStore",
    "file_bytes",
    "is_full",
    "make_folder",
]

FILE: Final = "archive.db"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
"""An archive holds texts of agents: it is its owner's alone."""

GROUPS_KEPT: Final = 10_000
"""Groups whose rows are remembered."""
WORDS_KEPT: Final = 1_000
"""The same of the names of a judgement's tools, all together."""
WORDS_LENGTH: Final = 1_000
"""Characters of such names that are remembered."""
PAGES_AT_ONCE: Final = 1_000
"""Free pages that leave the file in one transaction, which the WAL holds until they have."""
_WAL_BYTES: Final = 4 << 20
_BUSY_MS: Final = 1_000
PACKED: Final = 4
"""How many times smaller an object is when it is packed, about."""
LOST: Final = "unknown"
"""Why a session ended whose process is gone without a word, and whose state with it."""


class ArchiveStore(PrunedTables):
    """The open file.

    Args:
        folder: of the archive; made if need be.

    Raises:
        OSError: the folder cannot be made.
        sqlite3.Error: the file cannot be opened, or is none.
        NewerSchemaError: a newer version has written it.
    """

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self.path = folder / FILE
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, _FILE_MODE))
        self._file = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1_000
        )
        try:
            self._prepare()
            self._inode = self.path.stat().st_ino
        except BaseException:
            self._file.close()
            raise
        self._use(self._file)

    def _use(self, connection: ArchiveConnection, owner: str = "") -> None:
        """What is the same whatever the tables are in."""
        super().__init__(connection)
        self._owner = owner
        self._packer = zstandard.ZstdCompressor(level=3)
        self._groups: dict[FigureGroup, int] = {}
        """Rows of groups that were written lately."""
        self._words: dict[str, int] = {}
        """Rows of tools' names that were written lately."""
        self._has_said = True

    def _forget(self) -> None:
        """Rows that were found or made may be gone."""
        self._groups.clear()
        self._words.clear()

    def _prepare(self) -> None:
        run = self._file.execute
        run("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; it has no tables yet
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        run("PRAGMA foreign_keys = ON")
        migrate(self._file)

    def close(self) -> None:
        """Closes the file; what was committed is in it."""
        with suppress(sqlite3.Error):
            self._file.close()

    @property
    def is_there(self) -> bool:
        """False if somebody has deleted or replaced the file."""
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    def newest(self) -> int:
        """When the last call of all sessions was received, Unix nanoseconds; 0 without sessions."""
        (found,) = self._connection.execute("SELECT max(touched) FROM sessions").fetchone()
        return int(found or 0)

    # --- writing -------------------------------------------------------------------------------

    def write(self, records: Iterable[ArchiveRecord]) -> None:
        """Writes sessions, judgements by models, and labels in one transaction.

        Raises:
            sqlite3.Error, DatabaseError: nothing of them is written.
        """
        changes, pending = SumChanges(), PendingRows()
        with self._transaction():
            self._has_said = self._has_any_said()
            for record in records:
                if isinstance(record, Label):
                    self._write_label(record)
                elif isinstance(record, ModelJudgement):
                    self._write_judged(record)
                else:
                    self._write_session(record, changes, pending)
            pending.flush(self._connection)
            changes.write(self._connection)

    def _has_any_said(self) -> bool:
        """True if there is a label, or what a model says: else no session looks for its own."""
        (found,) = self._connection.execute(
            "SELECT EXISTS (SELECT 1 FROM labels) OR EXISTS (SELECT 1 FROM judged)"
        ).fetchone()
        return bool(found)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """What is done within it is done as a whole, or not at all, and nobody else writes meanwhile."""
        self._begin()
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def _roll_back(self) -> None:
        self._forget()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _write_session(
        self, record: ArchivedSession, changes: SumChanges, pending: PendingRows
    ) -> None:
        name = SessionName(
            _text(record.name.namespace), _text(record.name.session), record.name.begun
        )
        self._remove_earlier(record, name, changes, pending)
        row = self._insert(
            "INSERT INTO sessions (namespace, session, begun, last, touched, ended, severity, harmful, harm_rate, lost, risk,"
            " folded, owner, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(*name, record.last, record.touched, record.ended, *record.keys),
                *(name.session.casefold(), self._owner),
                sum(
                    len(each.summary) + len(each.object) // PACKED for each in record.judgements
                ),
            ),
        )
        pending.add("ids", [(each, row) for each in {*record.traces, *record.spans}])
        for judgement in record.judgements:
            self._write_judgement(row, judgement, pending)
        self._write_shares(row, record, changes, pending)

    def _insert(self, statement: str, values: Sequence[Any]) -> int:
        """Inserts a row, and returns its id."""
        row = self._file.execute(statement, values).lastrowid
        assert row is not None
        return row

    def _remove_earlier(
        self,
        record: ArchivedSession,
        name: SessionName,
        changes: SumChanges,
        pending: PendingRows,
    ) -> None:
        """What was written of the session before: under its id, or under its trace's."""
        namespace, session, begun = name
        last = record.last
        if self._has_said:
            self._move_said(name, last)
        self._take_back(
            changes,
            pending,
            "session = ? AND namespace = ? AND (begun = ?"
            " OR (owner = ? AND (ended IS NULL OR (begun BETWEEN ? AND ? AND last <= ?))))",
            (session, namespace, begun, self._owner, begun, last, last),
        )
        for trace in record.traces:
            if trace.hex() != session:
                self._take_back(
                    changes,
                    pending,
                    "session = ? AND namespace = ? AND (ended = ? OR (ended IS NULL AND owner = ?))",
                    (trace.hex(), namespace, LOST, self._owner),
                )

    def _move_said(self, name: SessionName, last: int) -> None:
        """Labels and judgements by models follow a session whose beginning has become earlier."""
        namespace, session, begun = name
        self._connection.execute(
            "DELETE FROM judged WHERE session = ? AND namespace = ? AND begun >= ? AND begun <= ?"
            " AND EXISTS (SELECT 1 FROM judged o WHERE o.session = judged.session AND o.namespace = judged.namespace"
            " AND o.judge = judged.judge AND o.model = judged.model AND o.begun > judged.begun AND o.begun <= ?)",
            (session, namespace, begun, last, last),
        )
        for table in ("labels", "judged"):
            self._connection.execute(
                f"UPDATE {table} SET begun = ? WHERE session = ? AND namespace = ?"  # noqa: S608 - a name of ours
                " AND begun > ? AND begun <= ?",
                (begun, session, namespace, begun, last),
            )

    def _take_back(
        self, changes: SumChanges, pending: PendingRows, where: str, values: Sequence[Any]
    ) -> None:
        """Deletes sessions that are written anew, with what they have added to the sums."""
        found = self._connection.execute(
            f"SELECT id FROM sessions WHERE {where}",  # noqa: S608 - of texts of ours
            values,
        ).fetchall()
        if found:
            pending.flush(self._connection)
        for (row,) in found:
            changes.take_back(self._connection, row)
            self._connection.execute("DELETE FROM sessions WHERE id = ?", (row,))

    def _write_judgement(
        self, row: int, judgement: ArchivedJudgement, pending: PendingRows
    ) -> None:
        tools = _text("\n".join(sorted(judgement.tools)).casefold())
        number = self._insert(
            "INSERT INTO judgements (sid, grp, words, harmful) VALUES (?, ?, ?, ?)",
            (row, self._group(judgement.group), self._word(tools), judgement.harmful),
        )
        packed = self._packer.compress(judgement.object)
        pending.add("objects", [(number, judgement.summary, packed)])
        pending.add(
            "harms",
            [
                (number, row, _text(tool.casefold()), reason, severity)
                for tool, reason, severity in judgement.harms
            ],
        )
        pending.add(
            "things",
            [(number, row, _text(name), _text(value)) for name, value in judgement.things],
        )

    def _write_shares(
        self, row: int, record: ArchivedSession, changes: SumChanges, pending: PendingRows
    ) -> None:
        shares = [(each.hour, self._group(each.group), each.figures) for each in record.shares]
        harms = [
            (each.hour, self._group(each.group), each.what, _text(each.name))
            for each in record.harms
        ]
        pending.add("shares", [(row, hour, group, *figures) for hour, group, figures in shares])
        pending.add("harm_shares", [(row, *each) for each in harms])
        changes.add(shares, set(harms))

    def _group(self, group: FigureGroup) -> int:
        found = self._groups.get(group)
        if found is None:
            if len(self._groups) >= GROUPS_KEPT:
                self._groups.clear()
            found = self._groups[group] = self._group_row(FigureGroup(*map(_text, group)))
        return found

    def _group_row(self, group: FigureGroup) -> int:
        self._connection.execute(
            "INSERT INTO groups (kind, namespace, agent, spec, spec_version, service_version, mode, folded)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (*group, f"{group.agent}\n{group.spec}".casefold()),
        )
        (found,) = self._connection.execute(
            "SELECT id FROM groups WHERE kind = ? AND namespace = ? AND agent = ? AND spec = ?"
            " AND spec_version = ? AND service_version = ? AND mode = ?",
            group,
        ).fetchone()
        return int(found)

    def _word(self, text: str) -> int:
        found = self._words.get(text)
        if found is None:
            found = self._word_row(text)
            if len(text) <= WORDS_LENGTH:
                if len(self._words) >= WORDS_KEPT:
                    self._words.clear()
                self._words[text] = found
        return found

    def _word_row(self, text: str) -> int:
        self._connection.execute(
            "INSERT INTO words (text) VALUES (?) ON CONFLICT DO NOTHING", (text,)
        )
        (found,) = self._connection.execute(
            "SELECT id FROM words WHERE text = ?", (text,)
        ).fetchone()
        return int(found)

    def _write_label(self, label: Label) -> None:
        self._has_said = True
        name, spec, *rest = label
        self._connection.execute(
            "INSERT INTO labels (namespace, session, begun, spec, label, note, who, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(_text(each) if isinstance(each, str) else each for each in name),
                None if spec is None else _text(spec),
                *(_text(each) if isinstance(each, str) else each for each in rest),
            ),
        )

    def _write_judged(self, found: ModelJudgement) -> None:
        """A judgement takes the place of an earlier one by the same judge and model."""
        self._has_said = True
        self._connection.execute(
            "INSERT INTO judged (namespace, session, begun, judge, model, at, object)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, namespace, begun, judge, model)"
            " DO UPDATE SET at = excluded.at, object = excluded.object",
            (
                *(_text(each) if isinstance(each, str) else each for each in found.name),
                _text(found.judge),
                _text(found.model),
                found.at,
                self._packer.compress(found.object),
            ),
        )

    def settle(self, alive: Iterable[tuple[str, str]]) -> None:
        """Sessions that live by their rows and are not among these have ended with an earlier process.

        Args:
            alive: namespace and id of all live sessions, as they are shown.
        """
        known = {(_text(namespace), _text(session)) for namespace, session in alive}
        rows = self._connection.execute(
            "SELECT id, namespace, session FROM sessions WHERE ended IS NULL AND owner = ?",
            (self._owner,),
        ).fetchall()
        gone = [(LOST, row) for row, *name in rows if tuple(name) not in known]
        with self._transaction():
            self._connection.executemany("UPDATE sessions SET ended = ? WHERE id = ?", gone)

    # --- room ----------------------------------------------------------------------------------

    def _used_bytes(self) -> int:
        """Bytes of pages in use. What is free is given back, or filled again."""
        pages, free, size = (
            self._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def file_bytes(self) -> int:
        """Bytes of all its files."""
        return file_bytes(self.path.parent)

    def _give_back(self) -> None:
        """Free pages leave the file, and the WAL becomes short, unless somebody reads."""
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        for _ in range(0, free, PAGES_AT_ONCE):
            # Each page is a row without columns: `execute` takes the first one alone.
            self._file.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def make_folder(folder: Path) -> None:
    """Makes the folder of an archive, if it is not there."""
    folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)


def is_full(problem: sqlite3.Error) -> bool:
    """True if the disk has no room."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def file_bytes(folder: Path) -> int:
    """Bytes of all files of an archive."""
    total = 0
    for file in folder.glob(f"{FILE}*"):
        with suppress(OSError):
            total += file.stat().st_size
    return total


def _text(text: str) -> str:
    """A text that can be stored: half a surrogate pair becomes a question mark."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
