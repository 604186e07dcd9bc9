"""The folder of a journal: its files, what is in them, and what of them cannot be read. And other files, which are told and never read.

A folder may hold several kinds of files, such as those of the archive, so a file of another name is no fault. What is no file,
as a fifo, has no business there. Folders are left alone: a volume has some of its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from collector.state.records import RecordKind
from collector.state.segment import (
    HEADERS_BYTES,
    PAYLOAD_MAX,
    number_of,
    numbered,
    offset_of,
    segments,
)
from collector.state.segment_reading import (
    Damage,
    Record,
    length_in,
    read_from,
    read_header,
    record_at,
    records_in,
)

__all__ = [
    "OtherFile",
    "SegmentFile",
    "found_in",
    "other_files",
    "read_file",
    "read_on",
    "read_record",
    "with_missing",
]

_RECORD_KINDS: Final = frozenset(each.value for each in RecordKind)
_OURS: Final = (
    "lock",
    "attempts",
    "archive.*",
    "last-good-specs",
    f"snapshot-{20 * '[0-9]'}*",
    ".*",
)
"""Files of ours, and hidden ones. What has the name of a snapshot and is no file is told where snapshots are read."""

_FILE_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISREG, ""),
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link that leads nowhere"),
)


class SegmentFile(NamedTuple):
    """One file."""

    number: int
    path: Path
    bytes: int
    begun_ns: int
    """Unix nanoseconds; 0 if its header cannot be read."""
    problem: str
    """Why none of it can be read; "" if it can."""
    newer: bool = False
    """True if nothing is wrong, but a newer version of the program has written it."""


def found_in(folder: Path) -> list[SegmentFile]:
    """The files of a journal, in order.

    Raises:
        OSError: the folder cannot be read.
    """
    found = []
    for number, path in segments(folder):
        size = 0
        try:
            found_as = path.stat()
            size = found_as.st_size
            if not stat.S_ISREG(found_as.st_mode):  # a fifo would be waited for, for ever
                found.append(SegmentFile(number, path, 0, 0, "it is not a file"))
                continue
            with path.open("rb") as file:
                header = read_header(file.read(HEADERS_BYTES))
        except OSError as problem:
            found.append(SegmentFile(number, path, size, 0, problem.strerror or str(problem)))
            continue
        if isinstance(header, Damage):
            found.append(SegmentFile(number, path, size, 0, header.why, header.newer))
        else:
            found.append(SegmentFile(number, path, size, header.begun_ns, ""))
    return found


def with_missing(found: Sequence[SegmentFile]) -> Iterator[SegmentFile]:
    """The files, and between them those whose numbers are missing: files are only ever deleted from the first on."""
    for before, each in zip((None, *found), found, strict=False):
        if before is not None and each.number > before.number + 1:
            number = before.number + 1
            path = numbered(each.path.parent, number)
            yield SegmentFile(number, path, 0, 0, "it is missing, though it was not old")
        yield each


def read_file(path: Path) -> Iterator[Record | Damage]:
    """The records of a file, and its damages, a few at a time.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        for each in read_from(file, os.fstat(file.fileno()).st_size):
            if isinstance(each, Record) and each.kind not in _RECORD_KINDS:
                why = (
                    f"a record of kind {each.kind}, which a newer version of the program writes"
                )
                yield Damage(each.offset, len(each.payload), why, newer=True)
            else:
                yield each


def read_on(path: Path, offset: int, end: int, most: int) -> tuple[list[Record | Damage], int]:
    """Records and damages of a part of a file, and the place behind them.

    Args:
        path: of the file.
        offset: where a record begins.
        end: where the part ends; -1 for all that is left.
        most: bytes after which no further record is read.

    Raises:
        OSError: it cannot be read.
    """
    found: list[Record | Damage] = []
    with path.open("rb") as file:
        header = read_header(file.read(HEADERS_BYTES))
        end = os.fstat(file.fileno()).st_size if end < 0 else end
        if isinstance(header, Damage):
            return [header], end
        for each in records_in(file, offset, end, header):
            found.append(each)
            size = each.bytes if isinstance(each, Damage) else len(each.payload)
            behind = each.offset + size
            if isinstance(each, Record):
                behind += header.head_bytes
            if behind - offset >= most:
                return found, behind
    return found, end


def read_record(folder: Path, place: int) -> Record | None:
    """The record at a place of a journal; None if there is none any more.

    Raises:
        OSError: the file is there, and cannot be read.
    """
    try:
        with numbered(folder, number_of(place)).open("rb") as file:
            header = read_header(file.read(HEADERS_BYTES))
            if isinstance(header, Damage):
                return None
            file.seek(offset_of(place))
            head = file.read(header.head_bytes)
            length = length_in(head)
            if not 0 <= length <= PAYLOAD_MAX:
                return None
            return record_at(head + file.read(length), 0, header)
    except FileNotFoundError:
        return None


class OtherFile(NamedTuple):
    """Something beside the journal."""

    name: str
    odd: str
    """What it is, where it is no file; "" for a file."""

    def __str__(self) -> str:
        return f"{self.name} ({self.odd})" if self.odd else self.name


def other_files(folder: Path) -> list[OtherFile]:
    """All of them, by their names.

    Raises:
        OSError: the folder cannot be read.
    """
    return sorted(_others(folder))


def _others(folder: Path) -> Iterator[OtherFile]:
    ours = {path for _, path in segments(folder)}
    for each in folder.iterdir():
        if each in ours or each.is_dir() or any(each.match(name) for name in _OURS):
            continue
        with suppress(FileNotFoundError):  # it was there a moment ago
            is_broken = each.is_symlink() and not each.exists()
            found = each.lstat() if is_broken else each.stat()
            yield OtherFile(each.name, _odd(found.st_mode))


def _odd(mode: int) -> str:
    return next((words for is_one, words in _FILE_KINDS if is_one(mode)), "a device")
