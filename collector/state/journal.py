"""The journal of one process: an append-only log in a folder of its own.

Idea: `append` is one `writev` to the newest file, before the request is acknowledged. What is written is the kernel's:
it survives the process (`durability: process`). With `power`, answers wait until a thread has synchronised the file
(`group_commit`).

Files are bounded in size and age, and by their volume. At the beginning of each, `rotated` asks whoever knows the state to write what a
replay needs that begins there (`heads`); once that is in the file (`RecordKind.WHOLE`), the files before it may be deleted:
those older than `keep_ns`, and the oldest while all take more than `bytes_max`.

Invariants:

- A record is whole in the file, or not at all: what a failing disk has taken of it is cut off again.
- The oldest file is whole, so that a replay can begin with it.
- A failure is counted, and never more than `append`'s: the next record tries again.

Example: the disk is full. The oldest files are deleted until the record fits. Where it does not fit without any of them,
`append` raises; with `on_error: refuse`, the sender gets 503 and sends again later. Somebody frees space, and the next
request is written.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from collector.receive.request import Request
from collector.receive.status_codes import ExportStatus, Refusal
from collector.state.group_commit import GroupCommit
from collector.state.lock import Lock
from collector.state.records import (
    DeliveryRecord,
    OperatorRecord,
    QuestionRecord,
    RecordKind,
    UnwrittenRecord,
    encoded,
    request_head,
)
from collector.state.segment import HEADERS_BYTES, numbered, place_of, segments
from collector.state.segment_writer import DISK_FULL, SegmentWriter
from collector.telemetry.counters import MetricReading
from collector.telemetry.logs import log

__all__ = ["Durability", "File", "Journal", "JournalRules"]

Durability = Literal["off", "process", "power"]

_FOLDER_MODE: Final = 0o700
SECOND_NS: Final = 1_000_000_000
FILES: Final = 16
"""A file is closed at this part of the bound on all, and of the time that they are kept."""
FILE_BYTES_MIN: Final = 64 << 10
FILE_BYTES_MAX: Final = 32 << 20
"""Bounds on the size at which a file is closed. The last record may go beyond it."""
VOLUME_SHARE: Final = 0.75
"""Share of the volume that the journal takes at most; the rest is for a snapshot and other users."""
LOOK_NS: Final = 5 * SECOND_NS
"""Time between two checks that the files are still there."""
LOG_NS: Final = 60 * SECOND_NS
"""The log has a line about a disk that fails so often at most."""
RETRY_SECONDS: Final = 5
IDLE_NS: Final = 5 * SECOND_NS
"""Time between two records of an idle process."""
_STAY: Final = frozenset(
    {
        RecordKind.SPECS,
        RecordKind.COUNTERS,
        RecordKind.PAIR,
        RecordKind.KNOWN,
        RecordKind.WHOLE,
        RecordKind.CONFIRMED,
    }
)
"""Records that begin no file, however large the newest is: those of its head, which is being written, and those that
stand before counters in which they are counted."""
_LABELS: Final = {kind: kind.name.lower() for kind in RecordKind}
"""Labels of the metric by kind of record."""


class JournalRules(NamedTuple):
    """How the journal is kept."""

    durability: Durability = "process"
    bytes_max: int = 512 << 20
    """Approximate bytes of all files."""
    keep_ns: int = 3_600 * SECOND_NS
    """Files whose last record is older are deleted."""
    refuse: bool = True
    """True if requests are refused while the disk fails; False if they are judged and not written."""

    @property
    def file_bytes(self) -> int:
        """Size at which a file is closed."""
        return max(FILE_BYTES_MIN, min(FILE_BYTES_MAX, self.bytes_max // FILES))

    def within(self, volume_bytes: int) -> JournalRules:
        """The same on a volume of so many bytes; 0 if nobody knows."""
        most = int(VOLUME_SHARE * volume_bytes) or self.bytes_max
        return self._replace(bytes_max=min(self.bytes_max, most))


class File(NamedTuple):
    """A file that is not the newest one."""

    number: int
    bytes: int
    last_ns: int
    """Time of its last record, Unix nanoseconds."""
    is_whole: bool
    """Whether a replay may begin with it."""


class Journal:
    """Appends records, and deletes old files.

    Args:
        folder: made if need be; of this process alone.
        rules: bounds, and what a failure leads to.
        clock: Unix nanoseconds.
    """

    def __init__(self, folder: Path, rules: JournalRules, clock: Callable[[], int]) -> None:
        self.folder = folder
        self.rules = rules
        self.rotated: Callable[[], None] | None = None
        """Called when a file was begun: its head is to be written."""
        self.undivided: Callable[[int], None] | None = None
        """Called when a request was judged to its end that is judged in parts."""
        self.in_parts = False
        """True while such a request is judged: its record is written, and counters count a part of it."""
        self.needed: Callable[[], int] | None = None
        """Gives the number of the first file that is needed whatever its age; next hops wait for what is in it."""
        self.pruned: Callable[[int], None] | None = None
        """Called when files were deleted, with the number of the first one that is left."""
        self.complete: Callable[[], None] | None = None
        """Called before the next file is begun while the head of this one is not whole."""
        self.records: Counter[str] = Counter()
        """Records of this process by kind."""
        self._records_before: Counter[str] = Counter()
        self.errors = 0
        """Failed writes of this process."""
        self._errors_before = 0
        self.begun = 0
        """The place of the first record of this process."""
        self.replayed = 0
        """Requests that were judged again at the start."""
        self.recovery_seconds = 0.0
        self.flaws = 0
        """Places that could not be read at the start, torn ends aside."""
        self.gaps: Counter[str] = Counter(damage=0, down=0, newer=0, unwritten=0)
        """Times of which spans may be missing, as the start found them, by cause."""
        self.down_seconds = 0.0
        """How long nothing was received before this start."""
        self.failing = False
        """True from a write that failed until one succeeds."""
        self.bytes = 0
        """Bytes of all files."""
        self.written = 0
        """Bytes of the records of this process."""
        self._clock = clock
        self._lock: Lock | None = None
        self._old: list[File] = []
        self.file: SegmentWriter | None = None
        """The newest file; None before the first one."""
        self._number = 0
        """Number of the newest file."""
        self._until_bytes = rules.file_bytes
        self._until_ns = 0
        """A record goes to another file where the newest one is so large, or begun so long ago."""
        self._is_head = False
        """True while the head of a file is written, which begins no other."""
        self._last_ns = 0
        """Time of the last record."""
        self._missed = 0
        self._missed_ns = 0
        """Requests that were judged and not written, and since when."""
        self._logged_ns: int | None = None
        self._looked_ns = 0
        self.files_deleted = 0
        """Files that somebody else has deleted, of this process."""
        self.given_up = 0
        """Files that were deleted before their time, since the disk was full; of this process."""
        self._commit: GroupCommit | None = None
        """None if no answer waits for the disk."""

    # --- its life ------------------------------------------------------------------------------

    def open(self) -> None:
        """Takes the folder.

        Raises:
            OSError: it cannot be made or written to, or is another process's (`LockedError`).
        """
        self.folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        self._lock = Lock(self.folder)
        wanted = self.rules.bytes_max
        self.rules = self.rules.within(_volume_bytes(self.folder))
        self._until_bytes = self.rules.file_bytes
        if self.rules.bytes_max < wanted:
            log.warning(
                "journal_limited_by_volume",
                folder=str(self.folder),
                bytes_max=self.rules.bytes_max,
                configured=wanted,
            )

    def begin(self) -> None:
        """Begins a file behind all that are there, and from then on writes.

        Where the disk refuses it, this is counted, and tried again with each record.
        """
        self._number = max((number for number, _ in segments(self.folder)), default=0)
        self.begun = place_of(self._number + 1, HEADERS_BYTES)
        if self.rules.durability == "power":
            self._commit = GroupCommit(lambda: self.file, self._fail)
        self.renew()

    def renew(self) -> None:
        """Begins another file. Where the disk refuses it, records go on as before."""
        while True:
            try:
                self._opened()
            except OSError as problem:
                if self._makes_room(problem):
                    continue
                self._fail(problem)
            return

    def follow(self, found: Sequence[File]) -> None:
        """These files were there before: they are deleted one day."""
        self._old[:0] = found
        self.bytes += sum(each.bytes for each in found)

    @property
    def old(self) -> list[File]:
        """All files but the newest one."""
        return list(self._old)

    @property
    def salt(self) -> bytes:
        """What the newest file is known by among all that ever had its number; empty before the first one."""
        return b"" if self.file is None else self.file.header.salt

    @property
    def end(self) -> int:
        """The place of the record to come, if it goes to the newest file."""
        return place_of(self._number, 0) if self.file is None else self.file.end

    async def sync(self) -> None:
        """Brings to the disk what is written so far, beside the event loop: little is left for `close` then."""
        if self.file is not None:
            with suppress(OSError):
                fd = os.dup(self.file.fd)
                try:
                    await asyncio.to_thread(os.fdatasync, fd)
                finally:
                    os.close(fd)

    async def close(self) -> None:
        """Writes no more."""
        if self._commit is not None:
            await self._commit.settle()
        if self.file is not None:
            with suppress(OSError):
                os.fsync(self.file.fd)
            os.close(self.file.fd)
            self.file.fd = -1
        if self._commit is not None:
            self._commit.close()
        self.release()

    def release(self) -> None:
        """Lets go of the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- requests ------------------------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """True if an answer waits for `synced`."""
        return self.rules.durability == "power"

    def keep(self, now_ns: int, request: Request) -> None:
        """Writes a request that is about to be judged.

        Raises:
            Refusal: it could not be written, and is to be sent again.
        """
        try:
            if self._missed:
                self._write_gap(now_ns)
            head = request_head(request.transport, request.encoding, request.sender)
            request.place = self.append(RecordKind.REQUEST, now_ns, head, request.body)
        except OSError as problem:
            if self.rules.refuse:
                raise _refusal(problem) from problem
            self._missed_ns = self._missed_ns if self._missed else now_ns
            self._missed += 1

    def keep_question(self, now_ns: int, body: bytes, sender: str | None) -> None:
        """Writes a question that is about to be decided. A disk that refuses it keeps nobody from an answer."""
        self.try_append(RecordKind.QUESTION, now_ns, encoded(QuestionRecord(sender, body)))

    def keep_outcome(self, now_ns: int, body: bytes, sender: str | None) -> None:
        """Writes what a client says of a decided call; as `keep_question`."""
        self.try_append(RecordKind.OUTCOME, now_ns, encoded(QuestionRecord(sender, body)))

    def keep_operated(self, now_ns: int, action: str, session: str, namespace: str) -> None:
        """Writes what an operator did with sessions; as `keep_question`."""
        self.try_append(
            RecordKind.OPERATED, now_ns, encoded(OperatorRecord(action, session, namespace))
        )

    def keep_forwarded(self, now_ns: int, payload: bytes) -> int:
        """Writes that a request goes on to next hops.

        Returns:
            Its place; 0 if the disk fails and requests are judged without.

        Raises:
            Refusal: it could not be written, and is to be sent again.
        """
        try:
            return self.append(RecordKind.FORWARDED, now_ns, payload)
        except OSError as problem:
            if self.rules.refuse:
                raise _refusal(problem) from problem
            return 0

    def _write_gap(self, now_ns: int) -> None:
        self.append(
            RecordKind.GAP, now_ns, encoded(UnwrittenRecord(self._missed_ns, self._missed))
        )
        self._missed = 0

    def parts(self, *, begin: bool) -> None:
        """A request that is judged in parts begins or has ended: in between, counters count a part of it."""
        self.in_parts = begin
        if not begin and self.undivided is not None:
            self.undivided(self._clock())

    def append(self, kind: RecordKind, at_ns: int, *parts: bytes) -> int:
        """Appends one record, and gives its place.

        Raises:
            OSError: the disk refuses it. Nothing of it is in the file then.
        """
        while True:
            try:
                file = self.file
                if file is None or self._is_over(file, kind, at_ns):
                    file = self._rotated()
                place = file.end
                size = file.append(kind, at_ns, parts)
                break
            except OSError as problem:
                if self._makes_room(problem):
                    continue
                self._fail(problem)
                raise
        self.bytes += size
        self.written += size
        self._last_ns = at_ns
        self.records[_LABELS[kind]] += 1
        if self.failing:
            self.failing = False
            log.info("journal_recovered", folder=str(self.folder), errors=self.errors)
        return place

    def try_append(self, kind: RecordKind, at_ns: int, *parts: bytes) -> bool:
        """The same; False if the disk refuses it, which is counted."""
        try:
            self.append(kind, at_ns, *parts)
        except OSError:
            return False
        return True

    def _is_over(self, file: SegmentWriter, kind: RecordKind, at_ns: int) -> bool:
        """True if the record goes to another file."""
        if file.size < self._until_bytes and at_ns <= self._until_ns and not file.is_broken:
            return False
        return not self._is_head and (file.is_broken or kind not in _STAY)

    def _fail(self, problem: OSError) -> None:
        self.errors += 1
        self.failing = True
        now = self._clock()
        if self._logged_ns is None or not 0 <= now - self._logged_ns < LOG_NS:
            self._logged_ns = now
            log.error(
                "journal_failing",
                folder=str(self.folder),
                reason=problem.strerror or str(problem),
                errors=self.errors,
                requests="refused" if self.rules.refuse else "judged, not written",
            )

    # --- what else happens ---------------------------------------------------------------------

    def tick(self, now: int, *, busy: bool) -> None:
        """Time goes on: verdicts are about to become final, and sessions to end.

        Where nothing is going on, a record every few seconds says how long the process lived.
        """
        if not 0 <= now - self._looked_ns < LOOK_NS:
            self._looked_ns = now
            self._look_for_files()
        if busy or not 0 <= now - self._last_ns < IDLE_NS:
            self.try_append(RecordKind.TICK, now)

    def settled(self, sink: str, keys: list[bytes]) -> None:
        """Messages have left the queue of a sink."""
        self.try_append(
            RecordKind.DELIVERED, self._clock(), encoded(DeliveryRecord(sink, keys))
        )

    def settling(self, now: int) -> None:
        """Calls that settled are about to page."""
        self.try_append(RecordKind.SETTLED, now)

    # --- its own counters ----------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """Counters that go on with the next process, as plain data."""
        records = self.records + self._records_before
        return {
            "records": dict(records),
            "errors": self.errors + self._errors_before,
            "replayed": self.replayed,
        }

    def set_kept(self, found: Mapping[str, Any]) -> None:
        """Sets them to what they were before this process."""
        self._records_before = Counter(found.get("records", self._records_before))
        self._errors_before = found.get("errors", self._errors_before)
        self.replayed = found.get("replayed", self.replayed)

    # --- files ---------------------------------------------------------------------------------

    def whole(self, at_ns: int) -> None:
        """The newest file has all that a replay needs: older ones may go."""
        if self.try_append(RecordKind.WHOLE, at_ns):
            assert self.file is not None
            self.file.is_whole = True
            self.prune(at_ns)

    def _rotated(self) -> SegmentWriter:
        """Begins another file.

        Raises:
            OSError: the disk refuses it.
        """
        before = self.file
        self._is_head = True
        try:
            is_begun = before is not None and not (before.is_whole or before.is_broken)
            if is_begun and self.complete is not None:
                self.complete()
            return self._opened()
        finally:
            self._is_head = False

    def _opened(self) -> SegmentWriter:
        before, now = self.file, self._clock()
        file = self.file = SegmentWriter(self.folder, self._number + 1, now)
        self._number = file.number
        self._until_ns = now + self.rules.keep_ns // FILES
        self.bytes += file.size
        if before is not None:
            self._old.append(File(before.number, before.size, now, before.is_whole))
            if self._commit is None:
                os.close(before.fd)
            else:  # power may fail behind a sync
                self._commit.leave(before)
        if self._commit is not None:
            self._commit.note_entry(self.folder)
        if self.rotated is not None:
            self.rotated()
        return file

    def prune(self, now_ns: int) -> None:
        """Deletes the oldest files that are too old and not needed, or too many."""
        needed = self.needed() if self.needed is not None else self._number
        wholes = [place for place, each in enumerate(self._old) if place and each.is_whole]
        if self._old and self.file is not None and self.file.is_whole:
            wholes.append(len(self._old))
        gone, left = 0, self.bytes
        for place in wholes:
            last = self._old[place - 1]
            is_of_use = last.last_ns > now_ns - self.rules.keep_ns or last.number >= needed
            if left <= self.rules.bytes_max and is_of_use:
                break
            left -= sum(each.bytes for each in self._old[gone:place])
            gone = place
        self._delete(gone)

    def _makes_room(self, problem: OSError) -> bool:
        """True if the disk was full, and less of the journal is on it now."""
        return problem.errno in DISK_FULL and self.give_up_oldest()

    def give_up_oldest(self) -> bool:
        """The disk is full: deletes the oldest files, up to the next with which a replay may begin; False without any.

        Better the oldest requests than the newest: what they have led to is in the snapshot.
        """
        if not self._old:
            return False
        wholes = [place for place, each in enumerate(self._old) if place and each.is_whole]
        gone = wholes[0] if wholes else len(self._old)
        self.given_up += gone
        self._delete(gone)
        now = self._clock()
        if self._logged_ns is None or not 0 <= now - self._logged_ns < LOG_NS:
            self._logged_ns = now
            log.warning(
                "journal_disk_full",
                folder=str(self.folder),
                files_deleted=self.given_up,
                bytes=self.bytes,
            )
        return True

    def make_room(self) -> None:
        """A snapshot does not fit beside it: the oldest files go, and from now on it keeps to a file less."""
        self.give_up_oldest()
        most = max(FILES * FILE_BYTES_MIN, self.rules.bytes_max - self.rules.file_bytes)
        self.rules = self.rules._replace(bytes_max=min(self.rules.bytes_max, most))

    def _delete(self, gone: int) -> None:
        """Deletes so many of the oldest files."""
        for each in self._old[:gone]:
            with suppress(FileNotFoundError):
                numbered(self.folder, each.number).unlink()
            self.bytes -= each.bytes
        del self._old[:gone]
        if gone and self.pruned is not None:
            self.pruned(self._old[0].number if self._old else self._number)

    def _look_for_files(self) -> None:
        """Tells of files that somebody else has deleted. The newest is begun anew: what went to it would be nowhere."""
        file = self.file
        if file is not None and file.is_deleted:
            self.folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            file.is_broken = True
            self.renew()
        found = {number for number, _ in segments(self.folder)}
        deleted = [each for each in self._old if each.number not in found]
        if not deleted:
            return
        self._old = [each for each in self._old if each.number in found]
        self.bytes -= sum(each.bytes for each in deleted)
        self.files_deleted += len(deleted)
        self.errors += len(deleted)
        names = [numbered(self.folder, each.number).name for each in deleted]
        log.error("journal_files_deleted", folder=str(self.folder), files=names)

    # --- power ---------------------------------------------------------------------------------

    async def synced(self) -> None:
        """Waits until all that is written so far is on the disk.

        Raises:
            Refusal: it is not, and requests are refused then.
        """
        if self._commit is None:
            return
        try:
            await self._commit.wait()
        except OSError as problem:
            if isinstance(problem, TimeoutError):
                self._fail(problem)
            if self.rules.refuse:
                raise _refusal(problem) from problem

    # --- metrics -------------------------------------------------------------------------------

    def readings(self) -> Iterator[MetricReading]:
        """The journal's own metrics."""
        records = self.records + self._records_before
        kinds = {kind.name.lower(): 0 for kind in RecordKind} | records
        yield MetricReading("journal_bytes", [((), self.bytes)])
        yield MetricReading(
            "journal_records", [((kind,), count) for kind, count in sorted(kinds.items())]
        )
        yield MetricReading("journal_bytes_max", [((), self.rules.bytes_max)])
        yield MetricReading(
            "journal_files_deleted",
            [(("full",), self.given_up), (("others",), self.files_deleted)],
        )
        yield MetricReading("journal_errors", [((), self.errors + self._errors_before)])
        yield MetricReading("journal_failing", [((), int(self.failing))])
        yield MetricReading("journal_refusing", [((), int(self.failing and self.rules.refuse))])
        yield MetricReading("journal_replayed", [((), self.replayed)])
        yield MetricReading("journal_recovery_seconds", [((), self.recovery_seconds)])
        yield MetricReading("journal_flaws", [((), self.flaws)])
        yield MetricReading(
            "journal_gaps", [((cause,), n) for cause, n in sorted(self.gaps.items())]
        )
        yield MetricReading("down_seconds", [((), self.down_seconds)])


def _volume_bytes(folder: Path) -> int:
    """Size of the volume of a folder; 0 if nobody knows."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize


def _refusal(problem: OSError) -> Refusal:
    why = problem.strerror or "the disk does not answer"
    return Refusal(
        ExportStatus.UNAVAILABLE, f"the journal cannot be written: {why}", RETRY_SECONDS
    )
