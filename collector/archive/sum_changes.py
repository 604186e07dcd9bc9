"""What one transaction changes in the sums of the archive.

Invariant: the sums of an hour are those of all shares that were written of it and not taken back. A session that is
deleted for its age takes nothing back.
"""

# ruff: noqa: S608 - names of columns are ours; values are bound
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from collector.archive.connection import ArchiveConnection
from collector.archive.record import Figures
from collector.archive.schema import FIGURES

__all__ = ["SumChanges"]

_NAMES: Final = FIGURES.split(", ")
_PLUS: Final = ", ".join(f"{name} = TABLE.{name} + excluded.{name}" for name in _NAMES)
_ADD: Final = (
    f"INSERT INTO TABLE (grp, UNIT, {FIGURES}) VALUES (?, ?{', ?' * len(_NAMES)})"
    f" ON CONFLICT (grp, UNIT) DO UPDATE SET {_PLUS}"
)
_ADD_HARM: Final = (
    "INSERT INTO TABLE (grp, UNIT, what, name, sessions) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (grp, UNIT, what, name) DO UPDATE SET sessions = TABLE.sessions + excluded.sessions"
)
_UNITS: Final = (("", "hour", 1), ("day_", "day", 24))
"""Beginning of the tables' names, name of the column, hours."""


class SumChanges:
    """Collects changes, and writes each row once."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, int], list[float]] = {}
        """Figures by group and hour."""
        self._harms: dict[tuple[int, int, str, str], int] = {}

    def add(
        self,
        shares: Iterable[tuple[int, int, Figures]],
        harms: Iterable[tuple[int, int, str, str]],
        sign: int = 1,
    ) -> None:
        """Adds what a session adds; with `sign` -1 takes it back.

        Args:
            shares: hour, group and figures.
            harms: hour, group, what and name, each once.
            sign: 1 or -1.
        """
        for hour, group, figures in shares:
            _add(self._sums, (group, hour), figures, sign)
        for hour, group, what, name in harms:
            place = group, hour, what, name
            self._harms[place] = self._harms.get(place, 0) + sign

    def take_back(self, connection: ArchiveConnection, row: int) -> None:
        """Takes back what a session of the archive has added."""
        shares = connection.execute(
            f"SELECT hour, grp, {FIGURES} FROM shares WHERE sid = ?",
            (row,),
        ).fetchall()
        harms = connection.execute(
            "SELECT hour, grp, what, name FROM harm_shares WHERE sid = ?", (row,)
        ).fetchall()
        self.add([_share(each) for each in shares], [(*each,) for each in harms], -1)

    def write(self, connection: ArchiveConnection) -> None:
        """Writes what has changed, by hour and by day."""
        for prefix, unit, hours in _UNITS:
            sums: dict[tuple[int, int], list[float]] = {}
            for (group, hour), figures in self._sums.items():
                _add(sums, (group, hour // hours), figures, 1)
            harms: dict[tuple[int, int, str, str], int] = {}
            for (group, hour, what, name), count in self._harms.items():
                place = group, hour // hours, what, name
                harms[place] = harms.get(place, 0) + count
            connection.executemany(
                _ADD.replace("TABLE", f"{prefix}sums").replace("UNIT", unit),
                [(*key, *figures) for key, figures in sums.items() if any(figures)],
            )
            connection.executemany(
                _ADD_HARM.replace("TABLE", f"{prefix}harm_sums").replace("UNIT", unit),
                [(*key, count) for key, count in harms.items() if count],
            )


def _add(
    sums: dict[tuple[int, int], list[float]],
    key: tuple[int, int],
    figures: Sequence[float],
    sign: int,
) -> None:
    found = sums.get(key)
    if found is None:
        sums[key] = [sign * each for each in figures]
    else:
        for place, each in enumerate(figures):
            found[place] += sign * each


def _share(row: Sequence[float]) -> tuple[int, int, Figures]:
    hour, group, *figures = row
    return int(hour), int(group), Figures(*figures)  # type: ignore[arg-type]
