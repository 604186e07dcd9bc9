"""What the archive asks of a database: SQLite's own connection has it, and one to PostgreSQL.

Statements are SQLite's: a question mark stands for a value. `postgresql.py` says how they read there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol

__all__ = ["FAULTS", "ArchiveConnection", "DatabaseError", "FoundRows"]


class DatabaseError(Exception):
    """A server of PostgreSQL does not do what it is asked for; the message says why, without a secret."""

    def __init__(
        self, reason: Literal["unreachable", "locked", "disk_full", "error"], text: str
    ) -> None:
        super().__init__(text)
        self.reason = reason


FAULTS: Final = (sqlite3.Error, DatabaseError)
"""What keeps an archive from being read or written."""


class FoundRows(Protocol):
    """What a statement gives."""

    @property
    def rowcount(self) -> int:
        """How many rows it has changed."""
        ...

    def fetchone(self) -> Any:
        """The next row; None behind the last."""
        ...

    def fetchall(self) -> list[Any]:
        """All rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class ArchiveConnection(Protocol):
    """An open archive. Each statement that is not between BEGIN and COMMIT is a transaction of its own."""

    @property
    def in_transaction(self) -> bool:
        """True between BEGIN and COMMIT."""
        ...

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> FoundRows:
        """Runs a statement."""
        ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> Any:
        """Runs a statement for each row of values."""
        ...

    def close(self) -> None:
        """Closes it."""
        ...
