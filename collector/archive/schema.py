"""The tables of the archive, and how a file of an earlier version becomes one of this.

    sessions    one row a session
    judgements  one row a session and spec: narrow, for filters; objects has what is shown of it
    harms       the harmful calls of a judgement, each combination of tool, reason and severity once
    groups      agents under specs, by version; words: what was called, each set of tools once
    shares      what a session adds to the sums of its groups by hour; harm_shares: the same of reasons, tools, severities
    sums        of all shares, also of sessions that have gone for their age; harm_sums; of days: day_sums, day_harm_sums
    found       substrings of session ids
    things      the things of a judgement under a spec with `each`

`PRAGMA user_version` is the version of a file. `MIGRATIONS[n]` leads from version n to n + 1; a released entry is never
changed. A file of a newer version is left as it is. `casefold` in a migration is Python's: SQLite's own `lower` knows ASCII alone.
"""

# ruff: noqa: S608 - names are ours
from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = [
    "FIGURES",
    "HARM_KINDS",
    "IS_LONG",
    "LONG_NS",
    "LONG_SESSIONS",
    "MIGRATIONS",
    "TABLES_OF_BOTH",
    "VERSION",
    "NewerSchemaError",
    "OlderSchemaError",
    "is_older",
    "migrate",
]

FIGURES: Final = "sessions, harmed, scored, harm_rate, prefix_crit, calls, harmful, possible, prevented, not_judged"
"""The columns of `Figures`."""
_FIGURES: Final = ", ".join(
    f"{name} {'REAL' if name in ('harm_rate', 'prefix_crit') else 'INTEGER'} NOT NULL"
    for name in FIGURES.split(", ")
)

_TABLES: Final = (
    """CREATE TABLE sessions (
        id INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL, session TEXT NOT NULL, begun INTEGER NOT NULL,
        last INTEGER NOT NULL, touched INTEGER NOT NULL, ended TEXT,
        severity INTEGER NOT NULL, harmful INTEGER NOT NULL, harm_rate REAL NOT NULL, lost REAL NOT NULL, risk REAL NOT NULL,
        folded TEXT NOT NULL,
        UNIQUE (session, namespace, begun))""",
    "CREATE INDEX sessions_touched ON sessions (touched)",
    "CREATE INDEX sessions_last ON sessions (last)",
    "CREATE INDEX sessions_begun ON sessions (begun)",
    "CREATE INDEX sessions_harm ON sessions (harmful, harm_rate, touched)",
    "CREATE INDEX sessions_harm_rate ON sessions (harm_rate, harmful, touched)",
    "CREATE INDEX sessions_lost ON sessions (lost, harmful, touched)",
    "CREATE INDEX sessions_severity ON sessions (severity, harmful, touched)",
    "CREATE INDEX sessions_risk ON sessions (risk, lost, touched)",
    "CREATE INDEX sessions_live ON sessions (id) WHERE ended IS NULL",
    """CREATE TABLE groups (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL, namespace TEXT NOT NULL, agent TEXT NOT NULL, spec TEXT NOT NULL,
        spec_version TEXT NOT NULL, service_version TEXT NOT NULL, mode TEXT NOT NULL,
        folded TEXT NOT NULL,
        UNIQUE (kind, namespace, agent, spec, spec_version, service_version, mode))""",
    "CREATE TABLE words (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)",
    """CREATE TABLE judgements (
        id INTEGER PRIMARY KEY, sid INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        grp INTEGER NOT NULL REFERENCES groups, words INTEGER NOT NULL REFERENCES words,
        harmful INTEGER NOT NULL)""",
    "CREATE INDEX judgements_sid ON judgements (sid)",
    "CREATE INDEX judgements_grp ON judgements (grp, harmful, sid)",
    "CREATE INDEX judgements_words ON judgements (words, sid)",
    """CREATE TABLE objects (
        jid INTEGER PRIMARY KEY REFERENCES judgements ON DELETE CASCADE,
        summary BLOB NOT NULL, object BLOB NOT NULL)""",
    """CREATE TABLE harms (
        jid INTEGER NOT NULL REFERENCES judgements ON DELETE CASCADE, sid INTEGER NOT NULL,
        folded TEXT NOT NULL, reason TEXT NOT NULL, severity TEXT NOT NULL)""",
    "CREATE INDEX harms_jid ON harms (jid)",
    "CREATE INDEX harms_reason ON harms (reason, sid)",
    "CREATE INDEX harms_severity ON harms (severity, sid)",
    f"""CREATE TABLE shares (
        sid INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        hour INTEGER NOT NULL, grp INTEGER NOT NULL, {_FIGURES},
        PRIMARY KEY (sid, hour, grp)) WITHOUT ROWID""",
    """CREATE TABLE harm_shares (
        sid INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        hour INTEGER NOT NULL, grp INTEGER NOT NULL, what TEXT NOT NULL, name TEXT NOT NULL,
        PRIMARY KEY (sid, hour, grp, what, name)) WITHOUT ROWID""",
    *(
        f"""CREATE TABLE {name} (
        grp INTEGER NOT NULL, {unit} INTEGER NOT NULL, {_FIGURES},
        PRIMARY KEY (grp, {unit})) WITHOUT ROWID"""
        for name, unit in (("sums", "hour"), ("day_sums", "day"))
    ),
    *(
        f"""CREATE TABLE {name} (
        grp INTEGER NOT NULL, {unit} INTEGER NOT NULL, what TEXT NOT NULL, name TEXT NOT NULL, sessions INTEGER NOT NULL,
        PRIMARY KEY (grp, {unit}, what, name)) WITHOUT ROWID"""
        for name, unit in (("harm_sums", "hour"), ("day_harm_sums", "day"))
    ),
    """CREATE TABLE ids (
        hash BLOB NOT NULL, sid INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        PRIMARY KEY (hash, sid)) WITHOUT ROWID""",
    "CREATE INDEX ids_sid ON ids (sid)",
)

_LABELS: Final = (
    """CREATE TABLE labels (
            id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, session TEXT NOT NULL, begun INTEGER NOT NULL,
            spec TEXT, label TEXT, note TEXT NOT NULL, who TEXT NOT NULL, at INTEGER NOT NULL)""",
    "CREATE INDEX labels_session ON labels (session, namespace, begun)",
    "CREATE INDEX labels_at ON labels (at)",
)

_JUDGED: Final = (
    """CREATE TABLE judged (
            namespace TEXT NOT NULL, session TEXT NOT NULL, begun INTEGER NOT NULL,
            judge TEXT NOT NULL, model TEXT NOT NULL, at INTEGER NOT NULL, object BLOB NOT NULL,
            PRIMARY KEY (session, namespace, begun, judge, model))""",
    "CREATE INDEX judged_at ON judged (at)",
)

_THINGS: Final = (
    """CREATE TABLE things (
        jid INTEGER NOT NULL REFERENCES judgements ON DELETE CASCADE, sid INTEGER NOT NULL,
        name TEXT NOT NULL, value TEXT NOT NULL)""",
    "CREATE INDEX things_jid ON things (jid)",
    "CREATE INDEX things_value ON things (value, sid)",
)

_OWNERS: Final = (
    "ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE sessions ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
)
"""Which of several monitors has written a row, and bytes of its objects, for an archive that they share."""

TABLES_OF_BOTH: Final = (*_TABLES, *_LABELS, *_JUDGED, *_THINGS, *_OWNERS)
"""All tables of version 4 that are the same in a file and in PostgreSQL."""

LONG_NS: Final = 3_600_000_000_000
"""A session whose last call ended, or was received, later than this after the begin of its first is long."""
IS_LONG: Final = f"(touched - begun > {LONG_NS} OR last - begun > {LONG_NS})"
LONG_SESSIONS: Final = (
    f"CREATE INDEX sessions_long ON sessions (touched, begun, last) WHERE {IS_LONG}",
)
"""Leads to version 5."""

HARM_KINDS: Final = ("CREATE INDEX harms_kind ON harms (reason, severity, folded, sid)",)
"""Leads to version 6: each combination of reason, severity and tool is found without those between."""

_SQLITE_ALONE: Final = (
    "CREATE VIRTUAL TABLE found USING fts5 (folded, content='sessions', content_rowid='id', tokenize='trigram', detail='none')",
    """CREATE TRIGGER sessions_found AFTER INSERT ON sessions BEGIN
        INSERT INTO found (rowid, folded) VALUES (new.id, new.folded); END""",
    """CREATE TRIGGER sessions_lost AFTER DELETE ON sessions BEGIN
        INSERT INTO found (found, rowid, folded) VALUES ('delete', old.id, old.folded); END""",
)


_OLD: Final = ("sessions", "judgements", "hours", "ids")
_OLD_INDEXES: Final = (
    *("sessions_touched", "sessions_harm", "sessions_live", "judgements_sid"),
    *("hours_jid", "hours_hour", "ids_sid"),
)
_HOUR: Final = 3_600_000_000_000
_OF: Final = "SELECT id FROM groups g WHERE g.namespace = s.namespace AND g.agent = j.agent AND g.service_version = j.service_version"
_GRP: Final = f"({_OF} AND g.kind = j.kind AND g.spec = j.spec AND g.spec_version = j.spec_version AND g.mode = j.mode)"
_AGENT_GRP: Final = f"({_OF} AND g.kind = 'agent')"
_BOTH: Final = "old_judgements j JOIN old_sessions s ON s.id = j.sid"
_TOOLS: Final = "coalesce((SELECT group_concat(tool, char(10)) FROM (SELECT casefold(value) AS tool FROM json_each(j.tools) ORDER BY 1)), '')"

_MOVED: Final = (
    """INSERT INTO sessions SELECT id, namespace, session, begun, last, touched, ended, severity, harmful, harm_rate, lost, risk, casefold(session)
        FROM old_sessions""",
    f"""INSERT INTO groups (kind, namespace, agent, spec, spec_version, service_version, mode, folded)
        SELECT DISTINCT j.kind, s.namespace, j.agent, j.spec, j.spec_version, j.service_version, j.mode,
        casefold(j.agent || char(10) || j.spec) FROM {_BOTH}""",
    f"""INSERT INTO groups (kind, namespace, agent, spec, spec_version, service_version, mode, folded)
        SELECT DISTINCT 'agent', s.namespace, j.agent, '', '', j.service_version, '', casefold(j.agent || char(10)) FROM {_BOTH}""",
    f"INSERT OR IGNORE INTO words (text) SELECT DISTINCT {_TOOLS} FROM old_judgements j",
    f"""INSERT INTO judgements SELECT j.id, j.sid, {_GRP}, (SELECT id FROM words w WHERE w.text = {_TOOLS}), j.harmful
        FROM {_BOTH}""",
    "INSERT INTO objects SELECT id, summary, object FROM old_judgements",
    """INSERT INTO harms SELECT j.id, j.sid, casefold(json_extract(h.value, '$[0]')), json_extract(h.value, '$[1]'),
        json_extract(h.value, '$[2]') FROM old_judgements j, json_each(j.harms) h""",
    f"""INSERT INTO shares SELECT j.sid, h.hour, {_GRP}, 0, 0, 0, 0, 0, sum(h.calls), sum(h.harmful), sum(h.possible), 0, 0
        FROM {_BOTH} JOIN old_hours h ON h.jid = j.id GROUP BY 1, 2, 3""",
    f"""INSERT INTO shares SELECT j.sid, s.last / {_HOUR}, {_GRP}, 1, max(j.harmful > 0), max(j.harm_rate IS NOT NULL),
        coalesce(max(j.harm_rate), 0), coalesce(min(j.prefix_crit), 0), 0, 0, 0, 0, max(j.not_judged)
        FROM {_BOTH} WHERE 1 GROUP BY 1, 2, 3
        ON CONFLICT (sid, hour, grp) DO UPDATE SET sessions = 1, harmed = excluded.harmed, scored = excluded.scored,
        harm_rate = excluded.harm_rate, prefix_crit = excluded.prefix_crit, not_judged = excluded.not_judged""",
    """INSERT INTO shares SELECT h.sid, h.hour, a.id, max(h.sessions), max(h.harmed), max(h.scored), max(h.harm_rate),
        coalesce(min(CASE WHEN h.scored THEN h.prefix_crit END), 0), max(h.calls), max(h.harmful), max(h.possible), 0,
        max(h.not_judged) FROM shares h JOIN groups g ON g.id = h.grp JOIN groups a ON a.kind = 'agent'
        AND a.namespace = g.namespace AND a.agent = g.agent AND a.service_version = g.service_version
        WHERE g.kind <> 'agent' GROUP BY 1, 2, 3""",
    *(
        f"""INSERT OR IGNORE INTO harm_shares SELECT j.sid, s.last / {_HOUR}, {group}, '{what}', json_extract(h.value, '$[{at}]')
        FROM {_BOTH}, json_each(j.harms) h"""
        for group in (_GRP, _AGENT_GRP)
        for at, what in enumerate(("tool", "reason", "severity"))
    ),
    *(
        f"""INSERT INTO {name} SELECT grp, {unit}, {", ".join(f"sum({each})" for each in FIGURES.split(", "))}
        FROM shares GROUP BY 1, 2"""
        for name, unit in (("sums", "hour"), ("day_sums", "hour / 24"))
    ),
    *(
        f"INSERT INTO {name} SELECT grp, {unit}, what, name, count(*) FROM harm_shares GROUP BY 1, 2, 3, 4"
        for name, unit in (("harm_sums", "hour"), ("day_harm_sums", "hour / 24"))
    ),
    "INSERT INTO ids SELECT hash, sid FROM old_ids",
)
"""What brings the sessions of version 2 into the tables of version 3."""

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
        *_LABELS,
    ),
    _JUDGED,
    (
        *(f"ALTER TABLE {name} RENAME TO old_{name}" for name in _OLD),
        *(f"DROP INDEX {name}" for name in _OLD_INDEXES),
        *_TABLES,
        *_SQLITE_ALONE,
        *_MOVED,
        *(f"DROP TABLE old_{name}" for name in ("ids", "hours", "judgements", "sessions")),
    ),
    (*_THINGS, *_OWNERS),
    LONG_SESSIONS,
    HARM_KINDS,
)
"""What makes the next version, by version."""

VERSION: Final = len(MIGRATIONS)


class NewerSchemaError(Exception):
    """A newer version of offrails has written the file."""

    def __init__(self, found: int) -> None:
        super().__init__(f"version {found}, this program knows {VERSION}")


class OlderSchemaError(Exception):
    """An older version of offrails has written the file, and no service has brought it to this one yet."""

    def __init__(self, found: int, setting: str = "archive.dir") -> None:
        super().__init__(
            f"version {found}; a service with this {setting} brings it to version {VERSION}"
        )


def is_older(path: Path) -> bool:
    """True if an older version has written the file: `migrate` reads and writes all of it."""
    if not path.exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=1)) as connection:
            (found,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        return False  # who opens it says why
    return 0 < int(found) < VERSION


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
    connection.create_function("casefold", 1, str.casefold, deterministic=True)
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
