"""Journal file headers: specs, counters and known sessions, which requests alone do not contain.

Idea: requests bring back sessions, since they are judged again. Counters count since long before the oldest request
that is kept; the specs in use are the files' of the time; and sessions that were known before the oldest request must
not pass as new. So each file begins with the specs, all counters, and marks of all known sessions, and changed
counters follow every second. A replay sets each counter to what it was at that place, and counts on.

Invariants:

- Nothing here takes long. A tick writes a few records; the last one marks the file as whole.
- Counters are written between two requests: never while one is judged in parts, whose record stands before.

Example: 2,000 pairs of agent and spec, 100,000 sessions. The head of a file is written in 125 ticks of 16 pairs and
25 ticks of 4,096 marks: half a minute.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Any, Final

from collector.state.journal import Journal
from collector.state.records import KnownSessionsRecord, RecordKind, SpecsRecord, encoded
from collector.state.spec_texts import specs_record
from collector.telemetry.counters import Stats
from monitor.aggregate.kept_counters import pair_counters
from monitor.aggregate.totals import Key
from monitor.engine import Monitor
from monitor.records import SessionKey
from monitor.spec.spec import Spec

__all__ = ["Counters", "Heads"]

PAIRS_AT_ONCE: Final = 16
"""Pairs whose counters are looked at in one tick."""
KEYS_AT_ONCE: Final = 4_096
"""Sessions whose marks are written in one tick."""
COUNTERS_NS: Final = 1_000_000_000
"""Time between two records of the counters that belong to no pair."""

Counters = Callable[[], dict[str, Any]]
"""Counters of other parts of the process, as plain data."""


class Heads:
    """Writes heads and counters.

    Args:
        journal: takes the records.
        monitor: its counters, pairs and sessions.
        stats: the process's counters.
        more: counters of other parts.
        clock: Unix nanoseconds.
    """

    def __init__(
        self,
        journal: Journal,
        monitor: Monitor,
        stats: Stats,
        more: Counters,
        clock: Callable[[], int],
    ) -> None:
        self.since_ns = clock()
        """Start of the counters, Unix nanoseconds."""
        self._journal = journal
        self._monitor = monitor
        self._stats = stats
        self._more = more
        self._clock = clock
        self.texts: Mapping[str, bytes] = {}
        """Texts of specs by file, for files that hold other ones by now."""
        self.in_use = SpecsRecord(b"", [])
        """The specs in use, and their texts as they were when `use` read them."""
        self._specs = b""
        self._todo: Iterator[None] | None = None
        """The rest of this file's head."""
        self._is_due = False
        """True while the file's head has not begun."""
        self._is_late = False
        """Something waits for a request that is judged in parts."""
        self._counters_ns = 0
        self._last = b""
        self._pairs: deque[Key] = deque()
        """Pairs that are still to be looked at, in turn."""
        self._written: dict[Key, bytes] = {}
        """Digest of each pair's counters when they were last written."""

    def use(self, specs: Sequence[Spec]) -> None:
        """These specs are in use from the next record on that says so."""
        self.in_use = specs_record(specs, self.texts)
        self._specs = encoded(self.in_use)

    def write_specs(self) -> None:
        """Writes which specs are in use."""
        self._journal.try_append(RecordKind.SPECS, self._clock(), self._specs)

    def begin(self) -> None:
        """A file was begun: what a replay needs first is written at once, the rest with the next ticks."""
        if self._specs:
            self.write_specs()
        self._todo = None
        self._is_due = True
        self._go_on()

    def complete(self) -> None:
        """Writes the rest of the head at once: the next file is about to begin."""
        for _ in self._todo or ():
            pass
        self._todo = None

    def tick(self, now: int) -> None:
        """Goes on with the head; behind it, writes counters that have changed."""
        if self._journal.in_parts:
            self._is_late = True
        elif self._is_due or self._todo is not None:
            self._go_on()
        else:
            if not 0 <= now - self._counters_ns < COUNTERS_NS:
                self._write_counters(now)
            self._write_changed(now)

    def undivided(self, now: int) -> None:
        """A request that was judged in parts is whole: what had to wait for that is written."""
        if self._is_late:
            self._is_late = False
            self.tick(now)

    def _go_on(self) -> None:
        """The next step of the head. Nothing of it is written while a request is judged in part."""
        if self._journal.in_parts:
            self._is_late = True
        elif self._is_due:
            self._is_due = False
            self._write_counters(self._clock(), anyway=True)
            monitor = self._monitor
            self._todo = self._rest(list(monitor.totals.pairs), monitor.kept.known_keys())
        elif self._todo is not None and next(self._todo, self) is self:
            self._todo = None

    def flush(self, now: int) -> None:
        """Writes all that has changed: the process is about to end."""
        self.complete()
        self._write_counters(now)
        for key in self._monitor.totals.pairs:
            self._write_pair(key, now)

    def _rest(self, pairs: list[Key], keys: list[SessionKey]) -> Iterator[None]:
        self._written.clear()
        errors = self._journal.errors
        for at in range(0, len(pairs), PAIRS_AT_ONCE):
            for key in pairs[at : at + PAIRS_AT_ONCE]:
                self._write_pair(key, self._clock())
            yield
        for marks in self._marks(keys):
            if marks:
                self._journal.try_append(
                    RecordKind.KNOWN, self._clock(), encoded(KnownSessionsRecord(marks))
                )
            yield
        if self._journal.errors == errors:
            self._journal.whole(self._clock())

    def _marks(self, keys: list[SessionKey]) -> Iterator[bytes]:
        """Marks of the sessions that were known when the file began, a few thousand at a time."""
        marks = self._monitor.kept.known_marks(keys)
        while found := array("Q", islice(marks, KEYS_AT_ONCE)):
            yield found.tobytes()

    def counters(self) -> dict[str, Any]:
        """All counters that belong to no pair."""
        return self._counters() | {"journal": self._journal.kept()}

    def _counters(self) -> dict[str, Any]:
        return {
            "since_ns": self.since_ns,
            "monitor": self._monitor.kept.counters(),
            "stats": self._stats.kept(),
            "more": self._more(),
        }

    def _write_counters(self, now: int, *, anyway: bool = False) -> None:
        self._counters_ns = now
        found = self._counters()
        compared = encoded(found)
        if anyway or compared != self._last:
            # The journal's own counters change with each record: they alone are no reason for one.
            found["journal"] = self._journal.kept()
            self._journal.try_append(RecordKind.COUNTERS, now, encoded(found))
            self._last = compared

    def _write_changed(self, now: int) -> None:
        if not self._pairs:
            self._pairs.extend(self._monitor.totals.pairs)
        for _ in range(min(PAIRS_AT_ONCE, len(self._pairs))):
            self._write_pair(self._pairs.popleft(), now)

    def _write_pair(self, key: Key, now: int) -> None:
        pair = self._monitor.totals.pairs.get(key)
        if pair is None:
            self._written.pop(key, None)
            return
        found = encoded(pair_counters(pair))
        digest = blake2b(found, digest_size=16).digest()
        if self._written.get(key) != digest and self._journal.try_append(
            RecordKind.PAIR, now, found
        ):
            self._written[key] = digest
