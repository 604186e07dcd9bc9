"""What is in a journal: its files and records, their damages, snapshots, the requests as OTLP/JSON lines."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from collector.sinks.printable_text import stamp
from collector.sinks.recorder import line
from collector.state.journal_files import SegmentFile, found_in, read_file, with_missing
from collector.state.records import RecordKind, request_of
from collector.state.segment_reading import Damage, Record
from collector.state.snapshot import (
    OtherFormatError,
    Snapshot,
    SnapshotManifest,
    UnusableSnapshotError,
    snapshots,
)

__all__ = [
    "Content",
    "SnapshotSummary",
    "contents",
    "exported",
    "short_cuts",
    "shown",
    "shown_short",
]

_DAMAGES_SHOWN: Final = 10


class Content(NamedTuple):
    """One file, read to its end."""

    file: SegmentFile
    kinds: Counter[str]
    """Records by kind."""
    first_ns: int
    last_ns: int
    """Times of its first and its last record, Unix nanoseconds; 0 without one."""
    requests_bytes: int
    damages: list[Damage]

    @property
    def is_damaged(self) -> bool:
        """True if something is lost; a torn end, as a killed process leaves it, is not, nor what a newer version wrote."""
        if self.file.problem:
            return not self.file.newer
        return any(not (each.torn or each.newer) for each in self.damages)

    @property
    def is_newer(self) -> bool:
        """True if a newer version of the program has written something of it."""
        return self.file.newer or any(each.newer for each in self.damages)

    def as_json(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "file": self.file.path.name,
            "bytes": self.file.bytes,
            "begun": _time(self.file.begun_ns),
            "first": _time(self.first_ns),
            "last": _time(self.last_ns),
            "records": dict(sorted(self.kinds.items())),
            "request_bytes": self.requests_bytes,
            "problem": self.file.problem or None,
            "damages": [
                {"offset": each.offset, "bytes": each.bytes, "why": each.why, "torn": each.torn}
                for each in self.damages
            ],
        }


def contents(folder: Path) -> Iterator[Content]:
    """All files of a journal, in order, and those that are missing between them.

    Raises:
        OSError: the folder or a file cannot be read.
    """
    for found in with_missing(found_in(folder)):
        kinds: Counter[str] = Counter()
        damages: list[Damage] = []
        times: list[int] = []
        size = 0
        for each in read_file(found.path) if not found.problem else ():
            if isinstance(each, Damage):
                damages.append(each)
                continue
            kind = RecordKind(each.kind)
            kinds[kind.name.lower()] += 1
            times = [*times[:1], each.at_ns]
            size += len(each.payload) if kind is RecordKind.REQUEST else 0
        first, last = (times[0], times[-1]) if times else (0, 0)
        yield Content(found, kinds, first, last, size, damages)


def shown(content: Content) -> Iterator[str]:
    """One file, as lines for people."""
    found = content.file
    span = f"{_time(content.first_ns)} to {_time(content.last_ns)}" if content.first_ns else ""
    yield f"{found.path.name}  {found.bytes:,} bytes  {span}".rstrip()
    if content.kinds:
        yield "  " + ", ".join(f"{n:,} {kind}" for kind, n in sorted(content.kinds.items()))
    if found.problem:
        yield f"  not read: {found.problem}"
    for each in content.damages[:_DAMAGES_SHOWN]:
        word = "torn" if each.torn else "newer" if each.newer else "damaged"
        yield f"  {word}: {each.bytes:,} bytes at {each.offset:,}: {each.why}"
    if len(content.damages) > _DAMAGES_SHOWN:
        yield f"  and {len(content.damages) - _DAMAGES_SHOWN:,} more damages"


class SnapshotSummary(NamedTuple):
    """A snapshot, with all its checksums compared."""

    path: Path
    bytes: int
    about: SnapshotManifest | None
    """None if its head cannot be read."""
    problem: str
    """Why it cannot be used; "" if it can."""
    is_other: bool = False
    """True if that is its format alone."""

    def as_json(self) -> dict[str, Any]:
        """As one JSON object."""
        about = self.about
        return {
            "file": self.path.name,
            "bytes": self.bytes,
            "taken": _time(about.at_ns) if about is not None else None,
            "program": about.program if about is not None else None,
            "sessions": about.sessions if about is not None else None,
            "problem": self.problem or None,
        }


def short_cuts(folder: Path) -> Iterator[SnapshotSummary]:
    """The snapshots beside the files of a journal.

    Raises:
        OSError: the folder or a file cannot be read.
    """
    for path in snapshots(folder):
        about, problem, is_other = None, "", False
        try:
            found = Snapshot(path)
            about = found.about
            deque(found.check(), maxlen=0)
        except UnusableSnapshotError as error:
            problem, is_other = str(error), isinstance(error, OtherFormatError)
        yield SnapshotSummary(path, path.stat().st_size, about, problem, is_other)


def shown_short(short: SnapshotSummary) -> Iterator[str]:
    """One snapshot, as lines for people."""
    about = short.about
    when = f"  {_time(about.at_ns)}, {about.sessions:,} sessions" if about is not None else ""
    yield f"{short.path.name}  {short.bytes:,} bytes{when}"
    if short.problem:
        yield f"  not used: {short.problem}"


def exported(folder: Path) -> Iterator[bytes]:
    """The logged requests as lines of OTLP/JSON, in order.

    Raises:
        OSError: the folder or a file cannot be read.
    """
    for found in found_in(folder):
        for each in read_file(found.path) if not found.problem else ():
            if isinstance(each, Record) and each.kind == RecordKind.REQUEST:
                request = request_of(each.payload)
                yield line(request.body, request.encoding)


def _time(at_ns: int) -> str | None:
    return stamp(at_ns) if at_ns else None
