"""What this process has kept and not judged yet: requests that arrive while an earlier process's time is gone through.

Idea: the journal is the queue. A request is in it before it is answered, so whoever has gone through the files of
earlier processes goes on with this process's own, until nothing is left between what is read and what is written.

Invariant: where `is_empty` is true, it is true until the next `await`: nothing arrives in between.

Example: a replay takes 40 s. Meanwhile 40,000 requests are kept in two new files. They are judged in 30 s, in which
30,000 more arrive, and so on, until the last one is judged before the next one comes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from collector.state.journal import Journal
from collector.state.journal_files import read_on
from collector.state.segment import HEADERS_BYTES, number_of, numbered, offset_of, place_of
from collector.state.segment_reading import Damage, Record

__all__ = ["Backlog"]

NEAR_BYTES: Final = 256 << 10
"""Bytes read at once without a thread: while a thread reads, more arrives, and the end is never
reached."""
AT_ONCE_BYTES: Final = 4 << 20
"""Bytes in memory before they are judged, unless a record is larger."""


class Backlog:
    """Reads the records of a journal behind whoever writes it.

    Args:
        journal: that has just begun to write.
    """

    def __init__(self, journal: Journal) -> None:
        self.damages: list[Damage] = []
        """Places that could not be read."""
        self._journal = journal
        self._place = journal.begun

    @property
    def is_empty(self) -> bool:
        """True if all that was written was read."""
        return self._place >= self._journal.end

    async def read(self) -> list[Record | Damage]:
        """The next records and damages, in order, of those that were written when this was called."""
        written = self._journal.end
        number, offset = number_of(self._place), offset_of(self._place)
        is_newest = number == number_of(written)
        end = offset_of(written) if is_newest else -1
        path = numbered(self._journal.folder, number)
        try:
            if 0 <= end - offset < NEAR_BYTES:
                found, behind = read_on(path, offset, end, AT_ONCE_BYTES)
            else:
                found, behind = await asyncio.to_thread(
                    read_on, path, offset, end, AT_ONCE_BYTES
                )
        except OSError as problem:
            found = [Damage(offset, max(0, end - offset), problem.strerror or str(problem))]
            behind = end
        is_over = not is_newest and (not found or not 0 <= behind < _size_of(path))
        self._place = (
            place_of(number + 1, HEADERS_BYTES) if is_over else place_of(number, behind)
        )
        damages = [each for each in found if isinstance(each, Damage)]
        self.damages += [each._replace(file=path.name) for each in damages]
        return found


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
