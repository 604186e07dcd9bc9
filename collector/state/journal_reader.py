"""What an earlier process has left in the journal: which files a replay reads, and what it begins with.

Idea: a replay begins with the first file that is whole. Its head says since when the monitor sees spans, and which
sessions were known before. Files before it, which only a crash leaves there, are of no use.

A process that ends in the middle of each replay (for lack of memory, say) must not do so forever: attempts are
counted in the folder, and the journal is set aside after `ATTEMPTS_MAX`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from collector.state.journal import File
from collector.state.journal_files import SegmentFile, found_in, read_file, with_missing
from collector.state.records import KnownSessionsRecord, RecordKind, SpecsRecord, decoded
from collector.state.segment import FIRST, PATTERN, number_of
from collector.state.segment_reading import Damage, Record

__all__ = ["ATTEMPTS_MAX", "Head", "JournalReader", "damage_of"]

ATTEMPTS_MAX: Final = 5
ALIVE: Final = frozenset(
    {
        RecordKind.REQUEST,
        RecordKind.QUESTION,
        RecordKind.OUTCOME,
        RecordKind.FORWARDED,
        RecordKind.TICK,
        RecordKind.SETTLED,
        RecordKind.CLOSED,
        RecordKind.OPERATED,
    }
)
"""Records that only a process writes whose receivers are open, or were until then: not one that could not start."""
_ATTEMPTS: Final = "attempts"
_ASIDE: Final = "set-aside"


class Head(NamedTuple):
    """What a replay begins with."""

    started_ns: int
    """Start of the monitor's view of spans, Unix nanoseconds."""
    missed_ns: int
    """When spans were last missed before; -1 if never."""
    counters: dict[str, Any] | None
    specs: SpecsRecord | None
    marks: array[int]
    """Marks of the sessions that were known before."""


class JournalReader:
    """The files of a journal, read from the first whole one on.

    Args:
        folder: of the journal.
    """

    def __init__(self, folder: Path) -> None:
        self.damages: list[Damage] = []
        self.files: list[File] = []
        """Files that were read to their end."""
        self.head: Head | None = None
        """None if there is nothing to replay."""
        self.newer = ""
        """Why none of it may be used: a newer version of the program has written it; "" if none has."""
        self._folder = folder
        self._found: list[SegmentFile] = []

    def look(self, *, check: bool = False) -> None:
        """Finds the file that a replay begins with, and reads its head.

        Args:
            check: reads all files to their ends, and notes what of them cannot be read.

        Raises:
            OSError: the folder or a file cannot be read.
        """
        found = list(with_missing(found_in(self._folder)))
        for each in found:
            if each.problem:
                self.damages.append(damage_of(each)._replace(file=each.path.name))
            if each.newer:
                self.newer = self.newer or f"{each.path.name}: {each.problem}"
        readable = [each for each in found if not each.problem]
        first = None
        for place, each in enumerate(readable):
            head = self._head_of(each)
            if head is None and each.number == FIRST:
                head = _no_head(each)  # nothing was known before
            if head is not None:
                first, self.head = place, head
                break
        if first is None and readable:
            # Nothing says what was known before: as if the monitor had started with this file.
            first, self.head = 0, _no_head(readable[0])
        self._found = []
        if first is not None:
            begin = readable[first].number
            self._found = [each for each in found if each.number >= begin]
        if check:
            for each in self._found:
                self.damages += [] if each.problem else _damages_of(each)
        before = readable[: first or 0]
        self.files = [File(each.number, each.bytes, each.begun_ns, False) for each in before]

    def _head_of(self, found: SegmentFile) -> Head | None:
        try:
            return _head_of(found)
        except OSError as problem:
            self.unreadable(found, problem)
            return None

    def unreadable(self, found: SegmentFile, problem: OSError) -> None:
        """Notes a file that the disk does not give."""
        why = problem.strerror or str(problem)
        self.damages.append(Damage(0, found.bytes, why, file=found.path.name))

    def last_ns(self) -> int:
        """When an earlier process received last, as far as its records say; Unix nanoseconds."""
        for found in reversed(self._found):
            last = 0
            if found.problem:
                continue
            with suppress(OSError):
                for each in read_file(found.path):
                    if isinstance(each, Damage):
                        continue
                    if each.kind == RecordKind.CLOCK:
                        last = each.at_ns
                    elif each.kind in ALIVE:
                        last = max(last, each.at_ns)
            if last:
                return last
        return self.head.started_ns if self.head is not None else 0

    def skip_to(self, place: int, files: Sequence[tuple[int, int, bool]]) -> None:
        """A snapshot has all before a place: files before it are not read.

        Args:
            place: of the first record that is read.
            files: what the snapshot says of them: number, time of the last record, whether a replay may begin with it.
        """
        known = {number: (last_ns, is_whole) for number, last_ns, is_whole in files}
        for each in self._found:
            if each.number < number_of(place) and not each.problem:
                last_ns, is_whole = known.get(each.number, (each.begun_ns, False))
                self.files.append(File(each.number, each.bytes, last_ns, is_whole))
        self._found = [each for each in self._found if each.number >= number_of(place)]

    @property
    def paths(self) -> list[SegmentFile]:
        """The files that a replay reads."""
        return self._found

    def records(self, found: SegmentFile) -> Iterator[Record | Damage]:
        """The records of one file and its damages, in order, and then it is one of `files`.

        Raises:
            OSError: the file cannot be read.
        """
        if found.problem:
            yield damage_of(found)
            return
        last_ns, is_whole = found.begun_ns, False
        for each in read_file(found.path):
            if isinstance(each, Damage):
                damage = each._replace(file=found.path.name)
                if damage not in self.damages:
                    self.damages.append(damage)
                yield each
                continue
            last_ns = max(last_ns, each.at_ns)
            is_whole = is_whole or each.kind == RecordKind.WHOLE
            yield each
        self.files.append(File(found.number, found.bytes, last_ns, is_whole))

    # --- attempts --------------------------------------------------------------------------------

    def attempt(self) -> bool:
        """Counts an attempt to replay; False if too many have failed: then the journal was set aside.

        Raises:
            OSError: the folder cannot be written to.
        """
        file = self._folder / _ATTEMPTS
        try:
            before = int(file.read_text()) if file.is_file() else 0
        except (OSError, ValueError):
            before = 0
        if before >= ATTEMPTS_MAX:
            self._set_aside()
            self.done()
            return False
        with suppress(OSError):  # a full disk keeps nobody from starting
            if not file.is_file():  # a fifo would be waited for, for ever
                file.unlink(missing_ok=True)
            file.write_text(str(before + 1))
        return True

    def done(self) -> None:
        """The replay has come to its end."""
        with suppress(OSError):
            (self._folder / _ATTEMPTS).unlink(missing_ok=True)

    def _set_aside(self) -> None:
        """Moves all files into a folder of their own; those that were there before are deleted."""
        aside = self._folder / _ASIDE
        aside.mkdir(0o700, exist_ok=True)
        for old in aside.glob(PATTERN):
            old.unlink()
        for file in self._folder.glob(PATTERN):
            file.rename(aside / file.name)


def damage_of(found: SegmentFile) -> Damage:
    """A file of which nothing can be read, as the damage that it is."""
    return Damage(0, found.bytes, found.problem, newer=found.newer)


def _damages_of(found: SegmentFile) -> list[Damage]:
    """What cannot be used of a file."""
    return [
        each._replace(file=found.path.name)
        for each in read_file(found.path)
        if isinstance(each, Damage)
    ]


def _no_head(found: SegmentFile) -> Head:
    return Head(found.begun_ns, -1, None, None, array("Q"))


def _head_of(found: SegmentFile) -> Head | None:
    """The head of a file; None if it has none, or not all of it."""
    counters: dict[str, Any] | None = None
    specs: SpecsRecord | None = None
    marks = array("Q")
    for record in read_file(found.path):
        if isinstance(record, Damage):
            continue
        try:
            if record.kind == RecordKind.COUNTERS and counters is None:
                counters = decoded(record.payload, dict)
            elif record.kind == RecordKind.SPECS and specs is None:
                specs = decoded(record.payload, SpecsRecord)
            elif record.kind == RecordKind.KNOWN:
                marks.frombytes(decoded(record.payload, KnownSessionsRecord).marks)
        except ValueError:
            continue  # of a version that writes it otherwise
        if record.kind == RecordKind.WHOLE:
            known = (counters or {}).get("monitor", {})
            return Head(
                known.get("started_ns", found.begun_ns),
                known.get("missed_ns", -1),
                counters,
                specs,
                marks,
            )
    return None
