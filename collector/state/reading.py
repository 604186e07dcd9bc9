"""A journal as it is on the disk: its files, what is in them, and what of them cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from collector.state.records import Kind
from collector.state.segment import (
    HEAD_BYTES,
    HEADERS_BYTES,
    PAYLOAD_MAX,
    Damage,
    Record,
    length_in,
    number_of,
    numbered,
    offset_of,
    read,
    read_header,
    record_at,
    records_in,
    segments,
)

__all__ = ["Found", "found_in", "read_file", "read_on", "read_record"]


class Found(NamedTuple):
    """One file."""

    number: int
    path: Path
    bytes: int
    begun_ns: int
    """Unix nanoseconds; 0 where its header cannot be read."""
    problem: str
    """Why none of it can be read; "" where it can."""


def found_in(folder: Path) -> list[Found]:
    """The files of a journal, in order.

    Raises:
        OSError: the folder cannot be read.
    """
    found = []
    for number, path in segments(folder):
        size = 0
        try:
            size = path.stat().st_size
            with path.open("rb") as file:
                header = read_header(file.read(HEADERS_BYTES))
        except OSError as problem:
            found.append(Found(number, path, size, 0, problem.strerror or str(problem)))
            continue
        if isinstance(header, Damage):
            found.append(Found(number, path, size, 0, header.why))
        else:
            found.append(Found(number, path, size, header.begun_ns, ""))
    return found


def read_file(path: Path) -> Iterator[Record | Damage]:
    """The records of a file, and its damages.

    Raises:
        OSError: it cannot be read.
    """
    known = {each.value for each in Kind}
    for each in read(path.read_bytes()):
        if isinstance(each, Record) and each.kind not in known:
            why = f"a record of kind {each.kind}, which this program does not know"
            yield Damage(each.offset, len(each.payload), why)
        else:
            yield each


def read_on(path: Path, offset: int, size: int) -> list[Record | Damage]:
    """The records and damages of a part of a file.

    Args:
        path: of the file.
        offset: where a record begins.
        size: bytes of the part; -1 for all that is left.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        header = read_header(file.read(HEADERS_BYTES))
        file.seek(offset)
        data = file.read(size)
    if isinstance(header, Damage):
        return [header]
    return [each._replace(offset=offset + each.offset) for each in records_in(data, 0, header)]


def read_record(folder: Path, place: int) -> Record | None:
    """The record at a place of a journal; None where there is none any more.

    Raises:
        OSError: the file is there, and cannot be read.
    """
    try:
        with numbered(folder, number_of(place)).open("rb") as file:
            header = read_header(file.read(HEADERS_BYTES))
            file.seek(offset_of(place))
            head = file.read(HEAD_BYTES)
            length = length_in(head)
            if isinstance(header, Damage) or not 0 <= length <= PAYLOAD_MAX:
                return None
            return record_at(head + file.read(length), 0, header)
    except FileNotFoundError:
        return None
