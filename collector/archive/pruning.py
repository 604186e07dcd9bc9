"""What is deleted from the archive: sessions that are too old or too many, and what has lost its session.

Beyond a bound sessions without harm go first, then those with harm, each the oldest first. The writer's thread looks every
`PRUNE_SECONDS`. The time by which a session is too old is `doubted_clock`'s.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from collector.archive.connection import ArchiveConnection
from collector.archive.record import HOUR_NS

__all__ = ["ORPHAN_NS", "PRUNE_SECONDS", "ArchiveBounds", "PrunedTables"]

PRUNE_SECONDS: Final = 10.0
"""Between two looks at the bounds."""
BYTES_A_SUM: Final = 1 << 10
"""Share of `bytes_max` for one sum of an hour: sums take about a tenth of it at most."""
SWEPT_EVERY: Final = 60
"""Looks at the bounds between two searches for names that no row has any longer."""
PRUNED_AT_ONCE: Final = 2_000
"""Sessions that are deleted in one transaction."""
ORPHAN_NS: Final = 600 * 1_000_000_000
"""Time in which a session follows what models say of it."""


class ArchiveBounds(NamedTuple):
    """How much is kept, and for how long."""

    keep_ns: int
    keep_harmful_ns: int
    sessions_max: int
    bytes_max: int


class PrunedTables(ABC):
    """The tables of an archive, of which the bounds take away.

    Args:
        connection: to the file or the database.
    """

    def __init__(self, connection: ArchiveConnection) -> None:
        self._connection = connection
        self._sweeps = 0

    @property
    def sessions(self) -> int:
        """How many sessions it holds."""
        (found,) = self._connection.execute("SELECT count(*) FROM sessions").fetchone()
        return int(found)

    def prune(self, bounds: ArchiveBounds, now: int) -> dict[str, int]:
        """Deletes what is too old or too much; how many sessions went, by why: age, sessions, bytes.

        Raises:
            sqlite3.Error: the file refuses.
        """
        gone = {"age": 0, "sessions": 0, "bytes": 0}
        oldest = now - bounds.keep_ns, now - bounds.keep_harmful_ns
        while removed := self._remove(
            # The first condition keeps the walk to what is old: without it all sessions are looked at each time.
            "touched < ? AND ((harmful = 0 AND touched < ?) OR (harmful > 0 AND touched < ?))",
            (now - min(bounds.keep_ns, bounds.keep_harmful_ns), *oldest),
            PRUNED_AT_ONCE,
        ):
            gone["age"] += removed
        self._connection.execute("DELETE FROM labels WHERE at < ?", (min(oldest),))
        self._connection.execute("DELETE FROM judged WHERE at < ?", (min(oldest),))
        self._prune_sums(bounds, now)
        self._sweep()
        while (excess := self.sessions - bounds.sessions_max) > 0:
            gone["sessions"] += self._remove_first(min(excess, PRUNED_AT_ONCE))
        while (excess := self._used_bytes() - bounds.bytes_max) > 0 and (held := self.sessions):
            share = max(1, min(PRUNED_AT_ONCE, held * excess // max(1, self._used_bytes())))
            gone["bytes"] += self._remove_first(share)
            self._remove_orphans(now)
        if any(gone.values()):
            self._remove_orphans(now)
        self._give_back()
        return gone

    def _prune_sums(self, bounds: ArchiveBounds, now: int) -> None:
        """Sums outlive harmless sessions, so that rates of earlier days stay true; they go when harmful ones do."""
        oldest = (now - max(bounds.keep_ns, bounds.keep_harmful_ns)) // HOUR_NS
        rows = bounds.bytes_max // BYTES_A_SUM
        for table in ("sums", "harm_sums"):
            found = self._connection.execute(
                # Counting takes a hundredth of the sorting, and there are seldom too many.
                f"SELECT hour FROM {table} WHERE (SELECT count(*) FROM {table}) > ?"  # noqa: S608 - a name of ours
                " ORDER BY hour DESC LIMIT 1 OFFSET ?",
                (rows, rows),
            ).fetchone()
            oldest = max(oldest, found[0] + 1) if found else oldest
        for prefix, unit, hours in (("", "hour", 1), ("day_", "day", 24)):
            self._connection.execute(
                f"DELETE FROM {prefix}sums WHERE {unit} < ? OR (sessions <= 0 AND calls <= 0)",  # noqa: S608
                (oldest // hours,),
            )
            self._connection.execute(
                f"DELETE FROM {prefix}harm_sums WHERE {unit} < ? OR sessions <= 0",  # noqa: S608
                (oldest // hours,),
            )

    def _sweep(self) -> None:
        """Deletes names that no row has any longer. A writer that has just found one gives it a row first."""
        self._sweeps += 1
        if self._sweeps % SWEPT_EVERY:
            return
        self._forget()
        with self._transaction():
            self._connection.execute(
                "DELETE FROM words WHERE NOT EXISTS (SELECT 1 FROM judgements j WHERE j.words = words.id)"
            )
            self._connection.execute(
                "DELETE FROM groups WHERE NOT EXISTS (SELECT 1 FROM judgements j WHERE j.grp = groups.id)"
                " AND NOT EXISTS (SELECT 1 FROM day_sums s WHERE s.grp = groups.id)"
            )

    def _remove(self, where: str, values: Sequence[int], limit: int) -> int:
        found = self._connection.execute(
            f"DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE {where} ORDER BY touched LIMIT ?)",  # noqa: S608 - of texts of ours
            (*values, limit),
        )
        return found.rowcount

    def _remove_first(self, count: int) -> int:
        """Deletes so many: without harm first, the oldest of them first."""
        # The sign has the oldest found in order, not sorted from all that are alike.
        removed = self._remove("+harmful = 0", (), count)
        return removed + (
            self._remove("+harmful > 0", (), count - removed) if removed < count else 0
        )

    def _remove_orphans(self, now: int) -> None:
        """Judgements by models go with their sessions. A session may be written after its judgements."""
        self._connection.execute(
            "DELETE FROM judged WHERE at < ? AND NOT EXISTS (SELECT 1 FROM sessions s"
            " WHERE s.session = judged.session AND s.namespace = judged.namespace AND s.begun = judged.begun)",
            (now - ORPHAN_NS,),
        )

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """What is done within it is done as a whole, or not at all, and nobody else writes meanwhile."""

    @abstractmethod
    def _forget(self) -> None:
        """Rows that were found or made may be gone."""

    @abstractmethod
    def _used_bytes(self) -> int:
        """Bytes that sessions take."""

    @abstractmethod
    def _give_back(self) -> None:
        """What is free is given back."""
