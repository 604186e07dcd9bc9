"""What this process has kept and not judged yet: requests that arrive while an earlier process's time is gone through.

Idea: the journal is the queue. A request is in it before it is answered, so whoever has gone through the files of
earlier processes goes on with this process's own, until nothing is left between what is read and what is written.

Invariant: where `is_empty` is true, it is true until the next `await`: nothing arrives in between.

Example: a replay takes 40 s. Meanwhile 40,000 requests are kept in two new files. They are judged in 30 s, in which
30,000 more arrive, and so on, until the last one is judged before the next one comes.
"""

from __future__ import annotations

import asyncio
from typing import Final

from collector.state.journal import Journal
from collector.state.reading import read_on
from collector.state.segment import (
    HEAD_BYTES,
    HEADERS_BYTES,
    Record,
    number_of,
    numbered,
    offset_of,
    place_of,
)
from collector.telemetry.logs import log

__all__ = ["Backlog"]

NEAR_BYTES: Final = 256 << 10
"""So much is read at once, without a thread: while a thread reads, more arrives, and the end is never reached."""


class Backlog:
    """Reads the records of a journal behind whoever writes it.

    Args:
        journal: that has just begun to write.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._place = journal.begun

    @property
    def is_empty(self) -> bool:
        """True where all that was written was read."""
        return self._place >= self._journal.end

    async def read(self) -> list[Record]:
        """The next records, in order; none at the end of a file."""
        place, end = self._place, self._journal.end
        number, offset = number_of(place), offset_of(place)
        is_newest = number == number_of(end)
        path = numbered(self._journal.folder, number)
        try:
            if is_newest and offset_of(end) - offset < NEAR_BYTES:
                records = read_on(path, offset)
            else:
                records = await asyncio.to_thread(read_on, path, offset)
        except OSError as problem:
            log.error("journal_lost", file=path.name, reason=problem.strerror or str(problem))
            records = []
        if records:
            last = records[-1]
            self._place = place_of(number, last.offset + HEAD_BYTES + len(last.payload))
        elif is_newest:  # somebody has spoilt the file: what is in it cannot be judged
            self._place = end
        else:
            self._place = place_of(number + 1, HEADERS_BYTES)
        return records
