"""Rows of one transaction that wait for each other: a statement runs once for many rows.

Invariant: what reads or deletes rows of the transaction flushes first.

Example: 200 sessions of 20 calls have 4,200 ids. They are inserted by one statement, in the order of their index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from collector.archive.connection import ArchiveConnection
from collector.archive.record import NO_FIGURES

__all__ = ["PendingRows"]

_STATEMENTS: Final = {
    "objects": "INSERT INTO objects VALUES (?, ?, ?)",
    "harms": "INSERT INTO harms VALUES (?, ?, ?, ?, ?)",
    "things": "INSERT INTO things VALUES (?, ?, ?, ?)",
    "ids": "INSERT INTO ids VALUES (?, ?) ON CONFLICT DO NOTHING",
    "shares": f"INSERT INTO shares VALUES (?, ?, ?{', ?' * len(NO_FIGURES)})",  # noqa: S608 - of texts of ours
    "harm_shares": "INSERT INTO harm_shares VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
}


class PendingRows:
    """Rows by table; nothing refers to them."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _STATEMENTS}

    def add(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Keeps rows for the next `flush`."""
        self._rows[table] += rows

    def flush(self, connection: ArchiveConnection) -> None:
        """Inserts all that wait."""
        self._rows["ids"].sort()
        for name, rows in self._rows.items():
            if rows:
                connection.executemany(_STATEMENTS[name], rows)
                rows.clear()
