"""The queues of next hops in the journal: what a process has not sent when it ends, the next one sends.

Idea: an accepted request is in the journal already, by its body. Before it is acknowledged, one more record says that it
goes on, and to whom (`RecordKind.FORWARDED`); metrics and logs, which nobody judges, have their bodies there. Once a next hop
has it, or will never get it, a record says that too (`RecordKind.CONFIRMED`). What has the first record and not the second is
put into the queues when the next process starts.

Invariants:

- What is acknowledged reaches each next hop at least once. What was confirmed before the process ended is not sent again.
- Confirmations of one turn of the event loop share one record, which is written in that turn.
- Files of the journal with requests that wait are kept for longer than others, but not beyond the journal's bytes. What
  goes with its file is still sent by this process, and counted (`unkept`): the next one would not know it.

Example: a next hop is down, and 5,000 requests wait when the process is killed. The next process puts them into its
queue, at their ages, and sends them when the next hop is back. Those that were on their way may arrive twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from collector.forward.annotation import Marks, SpanAnnotation
from collector.forward.message import ForwardMessage
from collector.forward.unsent_request import UnsentRequest
from collector.receive.request import Request
from collector.state.journal import Journal
from collector.state.records import ConfirmationRecord, ForwardRecord, RecordKind, encoded
from collector.state.segment import number_of

__all__ = ["Outbox", "marks_of"]

NOTHING_NEEDED: Final = 1 << 62
"""Number higher than that of any file."""


_Result = tuple[str, str, str]
"""Signal, result, and the reason of one that was dropped."""


class Outbox:
    """Notes in the journal what goes on and what has arrived.

    Args:
        journal: takes the records.
        unkept: next hop -> requests that waited for it when their files were deleted; has all next hops, and counts.
        clock: Unix nanoseconds.
    """

    def __init__(
        self, journal: Journal, unkept: Counter[str], clock: Callable[[], int]
    ) -> None:
        self._unkept = unkept
        self._journal = journal
        self._clock = clock
        self._waiting: dict[str, dict[int, int]] = {name: {} for name in unkept}
        """Next hop -> place of a request that waits for it -> number of the first file that it needs."""
        self._confirmed: dict[str, list[tuple[int, _Result]]] = {}
        """Next hop -> places to be written, and their results."""
        self._is_due = False
        journal.needed = self.needed
        journal.pruned = self.pruned

    @property
    def folder(self) -> Path:
        """Of the journal."""
        return self._journal.folder

    def keep(self, request: Request, names: Sequence[str], marks: Marks | None) -> int:
        """Writes that a request goes on.

        Returns:
            Its place; 0 if the journal fails and requests go on without.

        Raises:
            Refusal: UNAVAILABLE; it could not be written.
        """
        is_here = not request.place
        record = ForwardRecord(
            request.place,
            list(names),
            request.signal,
            request.encoding,
            list(request.metadata),
            [(key, *mark) for key, mark in (marks or {}).items()],
            request.body if is_here else b"",
        )
        place = self._journal.keep_forwarded(self._clock(), encoded(record))
        if place:
            self._wait(place, request.place or place, names)
        return place

    def found(self, unsent: UnsentRequest, names: Sequence[str]) -> None:
        """A request of an earlier process waits again, for these next hops."""
        self._wait(unsent.place, unsent.request or unsent.place, names)

    def _wait(self, place: int, first: int, names: Sequence[str]) -> None:
        number = number_of(first)
        for name in names:
            self._waiting[name][place] = number

    def confirm(self, name: str, message: ForwardMessage, result: str, reason: str) -> None:
        """A next hop need not be sent a request any more."""
        self._waiting[name].pop(message.place, None)
        found = message.place, (message.signal, result, reason)
        self._confirmed.setdefault(name, []).append(found)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Writes the confirmations of this turn. What the disk refuses is written with the next ones."""
        self._is_due = False
        now = self._clock()
        confirmed, self._confirmed = self._confirmed, {}
        for name, some in confirmed.items():
            results = Counter(result for _, result in some)
            counts = [(*result, count) for result, count in results.items()]
            record = encoded(ConfirmationRecord(name, [place for place, _ in some], counts))
            if not self._journal.try_append(RecordKind.CONFIRMED, now, record):
                self._confirmed.setdefault(name, []).extend(some)

    # --- files of the journal -------------------------------------------------------------------

    def needed(self) -> int:
        """The number of the first file in which a request waits."""
        numbers = (number for each in self._waiting.values() for number in each.values())
        return min(numbers, default=NOTHING_NEEDED)

    def pruned(self, first: int) -> None:
        """Files before this number were deleted."""
        for name, waiting in self._waiting.items():
            gone = [place for place, number in waiting.items() if number < first]
            self._unkept[name] += len(gone)
            for place in gone:
                del waiting[place]


def marks_of(unsent: UnsentRequest) -> Marks | None:
    """The marks that a request had in an earlier process."""
    found = {
        key: SpanAnnotation(verdict, reason, spec, harm_rate, possible)
        for key, verdict, reason, spec, harm_rate, possible in unsent.marks
    }
    return found or None
