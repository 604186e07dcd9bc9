"""The tables of the archive, and how a file of an earlier version becomes one of this.

`PRAGMA user_version` is the version of a file. `MIGRATIONS[n]` leads from version n to n + 1; a released entry is never
changed. A file of a newer version is left as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

__all__ = ["MIGRATIONS", "VERSION", "NewerSchemaError", "migrate"]

MIGRATIONS: Final[Sequence[Sequence[str]]] = (
    (
        """CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            namespace TEXT NOT NULL, session TEXT NOT NULL, begun INTEGER NOT NULL,
            last INTEGER NOT NULL, touched INTEGER NOT NULL, ended TEXT,
            severity INTEGER NOT NULL, harmful INTEGER NOT NULL, harm_rate REAL NOT NULL, lost REAL NOT NULL, risk REAL NOT NULL,
            text TEXT NOT NULL,
            UNIQUE (session, namespace, begun))""",
        "CREATE INDEX sessions_touched ON sessions (touched)",
        "CREATE INDEX sessions_harm ON sessions (harmful, harm_rate, touched)",
        "CREATE INDEX sessions_live ON sessions (id) WHERE ended IS NULL",
        """CREATE TABLE judgements (
            id INTEGER PRIMARY KEY, sid INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            agent TEXT NOT NULL, spec TEXT NOT NULL, spec_version TEXT NOT NULL, service_version TEXT NOT NULL,
            mode TEXT NOT NULL, kind TEXT NOT NULL,
            calls INTEGER NOT NULL, harmful INTEGER NOT NULL, possible INTEGER NOT NULL,
            harm_rate REAL, prefix_crit REAL, not_judged INTEGER NOT NULL,
            harms TEXT NOT NULL, tools TEXT NOT NULL, summary BLOB NOT NULL, object BLOB NOT NULL)""",
        "CREATE INDEX judgements_sid ON judgements (sid)",
        """CREATE TABLE hours (
            jid INTEGER NOT NULL REFERENCES judgements ON DELETE CASCADE, hour INTEGER NOT NULL,
            calls INTEGER NOT NULL, harmful INTEGER NOT NULL, possible INTEGER NOT NULL)""",
        "CREATE INDEX hours_jid ON hours (jid)",
        "CREATE INDEX hours_hour ON hours (hour)",
        """CREATE TABLE ids (
            hash BLOB NOT NULL, sid INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            PRIMARY KEY (hash, sid)) WITHOUT ROWID""",
        "CREATE INDEX ids_sid ON ids (sid)",
        """CREATE TABLE labels (
            id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, session TEXT NOT NULL, begun INTEGER NOT NULL,
            spec TEXT, label TEXT, note TEXT NOT NULL, who TEXT NOT NULL, at INTEGER NOT NULL)""",
        "CREATE INDEX labels_session ON labels (session, namespace, begun)",
        "CREATE INDEX labels_at ON labels (at)",
    ),
    (
        """CREATE TABLE judged (
            namespace TEXT NOT NULL, session TEXT NOT NULL, begun INTEGER NOT NULL,
            judge TEXT NOT NULL, model TEXT NOT NULL, at INTEGER NOT NULL, object BLOB NOT NULL,
            PRIMARY KEY (session, namespace, begun, judge, model))""",
        "CREATE INDEX judged_at ON judged (at)",
    ),
)
"""What makes the next version, by version."""

VERSION: Final = len(MIGRATIONS)


class NewerSchemaError(Exception):
    """A newer version of offrails has written the file."""

    def __init__(self, found: int) -> None:
        super().__init__(f"version {found}, this program knows {VERSION}")


def migrate(connection: sqlite3.Connection) -> None:
    """Brings a file to this version, in one transaction.

    Raises:
        NewerSchemaError: it is of a newer one.
        sqlite3.Error: it cannot be read or written.
    """
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > VERSION:
        raise NewerSchemaError(found)
    if found == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for steps in MIGRATIONS[found:]:
            for step in steps:
                connection.execute(step)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
