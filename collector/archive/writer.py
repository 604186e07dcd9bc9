"""The archive's writer: a bounded queue, and a thread of its own behind it.

Invariants:

- The folder is of this process alone: what lives by the rows of another one would be read as ended.
- `put` never waits. A full queue drops what comes, and counts it.
- What cannot be written is lost alone: a batch that is refused is written session by session.
- A file that is locked, full, deleted, damaged or of a newer version keeps nobody from judging: the log says so once, what is
  lost is counted, and the next batch tries anew.
- A file of an older version keeps nobody waiting: the thread brings it to this one, and what comes meanwhile waits in the queue.

Example: somebody deletes the file. The next batch sees it, counts the sessions that were in it as `deleted`, and begins another.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from collector.archive.connection import FAULTS, DatabaseError
from collector.archive.doubted_clock import DoubtedClock
from collector.archive.pruning import PRUNE_SECONDS, ArchiveBounds
from collector.archive.record import ArchivedSession, ArchiveRecord
from collector.archive.schema import NewerSchemaError, is_older
from collector.archive.store import (
    FILE,
    ArchiveStore,
    file_bytes,
    is_full,
    make_folder,
)
from collector.state.lock import Lock
from collector.telemetry.counters import MetricReading
from collector.telemetry.logs import log

__all__ = ["DROPPED", "ArchiveWriter"]

DROPPED: Final = (
    "queue_full",
    "locked",
    "disk_full",
    "deleted",
    "damaged",
    "newer_schema",
    "unreachable",
    "error",
)
"""Why sessions are lost, as the label `reason`."""

QUEUE_MAX: Final = 10_000
"""Sessions that may wait."""
QUEUE_BYTES_MAX: Final = 32 << 20
_LUMP: Final = 400
"""Sessions of one transaction."""
_WAIT_SECONDS: Final = 0.5
_OTHERS_SECONDS: Final = 0.2
"""Time in which sessions wait for others of their transaction; a label waits for none."""
_LOCK_FILE: Final = "archive.lock"
_LOCK_TRIES: Final = 10
"""Times that a batch waits for a lock, a second each."""
LOG_SECONDS: Final = 60.0
FAILED_SECONDS: Final = 60.0
"""Until a file that could not be opened is tried again; twice as long each time."""
FAILED_SECONDS_MAX: Final = 3_600.0
RETRY_SECONDS: Final = 1.0
"""Between two tries to reach a database."""


class _Settle(NamedTuple):
    alive: Sequence[tuple[str, str]]


_Waiting = ArchiveRecord | _Settle


class ArchiveWriter:
    """Writes sessions, what models say of them, and labels.

    Args:
        folder: of the archive.
        bounds: how much is kept.
        clock: Unix nanoseconds.
    """

    def __init__(
        self, folder: Path | str, bounds: ArchiveBounds, clock: Callable[[], int]
    ) -> None:
        self.written = 0
        self.dropped: Counter[str] = Counter(dict.fromkeys(DROPPED, 0))
        self.pruned: Counter[str] = Counter(age=0, sessions=0, bytes=0)
        self.sessions = 0
        """Sessions in the file, when it was last looked at."""
        self._folder = Path(folder)
        self._place = str(folder)
        """What the log calls it."""
        self._bounds = bounds
        self._clock = clock
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._waiting = 0
        self._taken = 0
        self.done = 0
        """Sessions and labels that were taken and are written, or lost."""
        self._bytes = 0
        self._bytes_held = 0
        """Bytes of the archive, when it was last looked at."""
        self._lock = threading.Lock()
        self._store: ArchiveStore | None = None
        self._held: Lock | None = None
        self._thread: threading.Thread | None = None
        self._pruned_at = 0.0
        self._patience = FAILED_SECONDS
        self._ages: DoubtedClock | None = None
        self._try_at = 0.0
        """When it may be opened again, by the steady clock."""
        self._unsettled: _Settle | None = None
        """What a start ends once there is a file, or a server answers."""
        self._logged: dict[str, float] = {}
        self._failing = ""
        """The reason why the last batch was not written."""
        self._stopping = False

    # --- any thread ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to write.

        Raises:
            OSError: the folder cannot be made, or not be written to, or another process uses it.
        """
        if self._prepare():
            self._store = self._open()
        if self._store is not None:
            self.sessions = self._store.sessions
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
        self._thread.start()
        log.info("archive", folder=self._place, sessions=self.sessions)

    def _prepare(self) -> bool:
        """Takes the folder for this process. False if the file is opened beside other work."""
        make_folder(self._folder)
        self._held = Lock(self._folder, _LOCK_FILE)
        if is_older(self._folder / FILE):
            log.info("archive_migrating", folder=self._place)
            return False
        return True

    def _new_store(self) -> ArchiveStore:
        return ArchiveStore(self._folder)

    def _bytes_now(self) -> int:
        return file_bytes(self._folder)

    def put(self, record: ArchiveRecord) -> int:
        """Takes a session, a judgement by a model, or a label; never waits. Its number, from 1; 0 if there is no room: it is lost, and counted."""
        size = record.size
        with self._lock:
            if self._waiting >= QUEUE_MAX or self._bytes + size > QUEUE_BYTES_MAX:
                self.dropped["queue_full"] += 1
                return 0
            self._waiting += 1
            self._bytes += size
            self._taken += 1
            number = self._taken
            self._queue.put(record)
        return number

    def settle(self, alive: Sequence[tuple[str, str]]) -> None:
        """The start is over, and these sessions live: others that live by their rows have ended."""
        with self._lock:
            self._waiting += 1
        self._queue.put(_Settle(alive))

    def __len__(self) -> int:
        return self._waiting

    @property
    def is_crowded(self) -> bool:
        """True if who is in no hurry had better wait."""
        return self._waiting > QUEUE_MAX // 2 or self._bytes > QUEUE_BYTES_MAX // 2

    def stop(self, seconds: float) -> None:
        """Writes what waits, as far as the time allows, and closes the file."""
        if self._thread is None:
            return
        self._stopping = True
        self._queue.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            log.warning("archive_unwritten", sessions=self._waiting)
        elif self._held is not None:
            self._held.release()
        self._thread = None

    def readings(self) -> Iterable[MetricReading]:
        """The metrics of the archive."""
        yield MetricReading("archive_sessions_written", [((), self.written)])
        yield MetricReading("archive_dropped", [((why,), self.dropped[why]) for why in DROPPED])
        yield MetricReading(
            "archive_deleted", [((why,), count) for why, count in sorted(self.pruned.items())]
        )
        yield MetricReading("archive_sessions", [((), self.sessions)])
        yield MetricReading("archive_bytes", [((), self._bytes_now())])
        yield MetricReading("archive_queue_length", [((), self._waiting)])

    # --- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            batch, is_last = self._take()
            if batch:
                self._settle_or_write(batch)
                self._release(batch)
            if is_last:
                break
            self._look_after()
        if self._store is not None:
            self._store.close()

    def _take(self) -> tuple[list[_Waiting], bool]:
        """The oldest that wait, at most a lump; and whether nothing comes behind them.

        Sessions wait for others: many in one transaction take half the work.
        """
        batch: list[_Waiting] = []
        try:
            found = self._queue.get(timeout=_WAIT_SECONDS)
            until = time.monotonic() + _OTHERS_SECONDS
            while found is not None:
                batch.append(found)
                if len(batch) >= _LUMP:
                    return batch, False
                patience = until - time.monotonic()
                if patience > 0 and isinstance(found, ArchivedSession):
                    found = self._queue.get(timeout=patience)
                else:
                    found = self._queue.get_nowait()
        except queue.Empty:
            return batch, False
        return batch, True

    def _release(self, batch: Sequence[_Waiting]) -> None:
        size = sum(each.size for each in batch if not isinstance(each, _Settle))
        with self._lock:
            self._waiting -= len(batch)
            self._bytes -= size

    def _settle_or_write(self, batch: Sequence[_Waiting]) -> None:
        """What a start ends comes first: what is written behind it may live."""
        for each in batch:
            if isinstance(each, _Settle):
                self._unsettled = each
                self._opened()
        records = [each for each in batch if not isinstance(each, _Settle)]
        if records:
            self._write(records)
            self.done += len(records)

    def _settle(self, store: ArchiveStore, start: _Settle) -> None:
        self._unsettled = None
        try:
            store.settle(start.alive)
        except FAULTS as problem:
            self._fail(_reason(problem), str(problem))

    def _write(self, records: Sequence[ArchiveRecord]) -> None:
        """Writes a batch; where it is refused, one after the other, so that what cannot be written is lost alone."""
        for _ in range(_LOCK_TRIES):
            reason = self._try(records)
            if reason not in ("locked", "damaged", "unreachable") or self._stopping:
                break
            if reason == "unreachable":
                time.sleep(RETRY_SECONDS)
        if reason in ("error", "disk_full") and len(records) > 1 and self._store is not None:
            for each in records:
                why = self._try([each])
                if why:
                    self._lose(why, 1)
        elif reason:
            self._lose(reason, len(records))

    def _try(self, records: Sequence[ArchiveRecord]) -> str:
        """Why they were not written; "" if they were."""
        store = self._opened()
        if store is None:
            return self._failing
        try:
            store.write(records)
        except Exception as problem:  # noqa: BLE001
            reason = _reason(problem)
            self._fail(reason, str(problem))
            if reason == "damaged":
                self._set_aside()
            return reason
        self.written += sum(isinstance(each, ArchivedSession) for each in records)
        if self._failing:
            log.info("archive_recovered", folder=self._place)
            self._failing = ""
            self._logged.clear()
        return ""

    def _opened(self) -> ArchiveStore | None:
        """The file, opened anew where it has to be; None if it cannot be."""
        store = self._store
        if store is not None and not store.is_there:
            self._lose_file(store)
            store = self._store = None
        if store is None and time.monotonic() >= self._try_at:
            try:
                store = self._store = self._open()
            except OSError as problem:
                self._fail("error", str(problem))
        if store is not None and self._unsettled is not None:
            self._settle(store, self._unsettled)
        return store

    def _open(self) -> ArchiveStore | None:
        """The file. A damaged one makes room for another; None where it cannot be opened now.

        Raises:
            OSError: the folder cannot be made, or not be written to.
        """
        for _ in range(2):
            try:
                store = self._new_store()
            except (*FAULTS, NewerSchemaError) as problem:
                reason = _reason(problem)
                self._fail(reason, str(problem))
                if reason != "damaged":
                    self._wait_longer(reason)
                    return None
                self._set_aside()
            else:
                self._patience = FAILED_SECONDS
                return store
        return None

    def _wait_longer(self, reason: str) -> None:
        """A file that cannot be brought to this version is not read and written again for each batch."""
        if reason in ("error", "disk_full"):
            self._try_at = time.monotonic() + self._patience
            self._patience = min(2 * self._patience, FAILED_SECONDS_MAX)

    def _lose_file(self, store: ArchiveStore) -> None:
        """Somebody has deleted the file: what was in it is lost."""
        try:
            lost = store.sessions
        except sqlite3.Error:
            lost = self.sessions
        store.close()
        for rest in self._folder.glob(f"{FILE}-*"):
            rest.unlink(missing_ok=True)
        self._fail("deleted", "somebody has deleted or replaced the file")
        self._lose("deleted", lost)

    def _set_aside(self) -> None:
        """A damaged file makes room for another one. The last one is kept, for whoever can read it."""
        if self._store is not None:
            self._store.close()
            self._store = None
        for rest in self._folder.glob(f"{FILE}-*"):
            rest.unlink(missing_ok=True)
        path = self._folder / FILE
        if path.exists():
            path.replace(path.with_suffix(".damaged"))

    def _look_after(self) -> None:
        """Bounds, and how many sessions there are."""
        now = time.monotonic()
        if now - self._pruned_at < PRUNE_SECONDS:
            return
        self._pruned_at = now
        store = self._opened()
        if store is None:
            return
        try:
            self.pruned.update(store.prune(self._bounds, self._age_now(store)))
            self.sessions = store.sessions
            self._bytes_held = store.file_bytes()
        except FAULTS as problem:
            reason = _reason(problem)
            self._fail(reason, str(problem))
            if reason == "damaged":
                self._set_aside()

    def _age_now(self, store: ArchiveStore) -> int:
        """The time by which sessions are too old."""
        steady = time.monotonic_ns()
        if self._ages is None:
            self._ages = DoubtedClock(store.newest(), steady)
        return self._ages.now(self._clock(), steady)

    def _lose(self, reason: str, count: int) -> None:
        self.dropped[reason] += count

    def _fail(self, reason: str, detail: str) -> None:
        """It fails: a line in the log, unless the last one about the same is young."""
        self._failing = reason
        now = time.monotonic()
        if now - self._logged.get(reason, -LOG_SECONDS) >= LOG_SECONDS:
            self._logged[reason] = now
            log.error("archive_failing", folder=self._place, reason=reason, detail=detail)


def _reason(problem: Exception) -> str:
    """Why sessions cannot be written, as the label has it."""
    if isinstance(problem, NewerSchemaError):
        return "newer_schema"
    if isinstance(problem, DatabaseError):
        return problem.reason
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "locked"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return "damaged"
    if isinstance(problem, sqlite3.Error) and is_full(problem):
        return "disk_full"
    return "error"
