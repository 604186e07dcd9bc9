"""Reads a file of the journal: its header, its records, and what lies between them that is none.

Idea: a record counts only if its checksum does. Behind one that does not, the reader searches the file's mark, byte
by byte, until a record counts again.

Invariants:

- Reading raises nothing, whatever the bytes are: what cannot be read is `Damage`, with its place.
- A file of a newer format is not read at all, nor changed.

Example: a process is killed in the middle of a write. The last record of its file is torn: the reader gives all
records before it, then `Damage` with `torn` True.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple
from zlib import crc32

from collector.state.segment import (
    BARE_HEAD,
    CRC_BYTES,
    FORMATS,
    HEADER,
    HEADER_BYTES,
    HEADERS_BYTES,
    MAGIC,
    VERSION,
    Header,
)

__all__ = [
    "Damage",
    "Record",
    "length_in",
    "read",
    "read_from",
    "read_header",
    "record_at",
    "records_in",
]

PIECE_BYTES: Final = 1 << 20
"""Bytes of a file read at once, unless a record is larger."""


class Record(NamedTuple):
    """A record whose checksum counts."""

    kind: int
    at_ns: int
    """Unix nanoseconds."""
    payload: bytes
    offset: int
    """Offset of its first byte in the file."""


class Damage(NamedTuple):
    """Bytes of a file that cannot be read."""

    offset: int
    bytes: int
    why: str
    torn: bool = False
    """True for the end of a file, as a process leaves it that is killed while it writes."""
    newer: bool = False
    """True if nothing is wrong, but a newer version of the program has written it."""
    file: str = ""
    """Name of the file; "" where its reader knows it."""


def read_header(data: bytes) -> Header | Damage:
    """The header of a file, from the first of its two copies that is whole."""
    for offset in (0, HEADER_BYTES):
        copy = data[offset : offset + HEADER_BYTES]
        if len(copy) < HEADER_BYTES or not copy.startswith(MAGIC):
            continue
        _, version, _, number, begun_ns, salt, crc = HEADER.unpack(copy)
        if crc32(copy[:-CRC_BYTES]) != crc:
            continue
        if version not in FORMATS:
            known = " and ".join(map(str, FORMATS))
            why = f"it is of format {version}, and this program reads {known}"
            return Damage(0, len(data), why, newer=version > VERSION)
        return Header(version, number, begun_ns, salt)
    return Damage(0, len(data), "no header of a journal", torn=len(data) < HEADERS_BYTES)


def read(data: bytes, piece: int = PIECE_BYTES) -> Iterator[Record | Damage]:
    """The records of a file, and what lies between them that is none, in order."""
    return read_from(BytesIO(data), len(data), piece)


def read_from(file: BinaryIO, size: int, piece: int = PIECE_BYTES) -> Iterator[Record | Damage]:
    """The same, of an open file of so many bytes, of which `piece` are read at a time.

    Raises:
        OSError: the disk does not give it.
    """
    header = read_header(file.read(HEADERS_BYTES))
    if isinstance(header, Damage):
        if size:
            yield header._replace(bytes=size)
        return
    yield from records_in(file, HEADERS_BYTES, size, header, piece)


def records_in(
    file: BinaryIO, at: int, end: int, header: Header, at_once: int = PIECE_BYTES
) -> Iterator[Record | Damage]:
    """The same, of the part between two places, whose header is known. So much is in memory as the largest record takes.

    Raises:
        OSError: the disk does not give it.
    """
    file.seek(at)
    data, here, wanted = b"", 0, at_once
    spoilt = -1
    """Offset of the current damage; -1 outside of one."""
    while True:
        piece = file.read(min(wanted, end - at - len(data)))
        at, data, here, wanted = at + here, data[here:] + piece, 0, at_once
        is_last = not piece or at + len(data) >= end
        while here < len(data):
            if spoilt >= 0:
                here = _mark_in(data, here, header, is_last=is_last)
            record = record_at(data, here, header)
            if record is not None:
                if spoilt >= 0:
                    yield Damage(spoilt, at + here - spoilt, "a checksum does not match")
                    spoilt = -1
                yield record._replace(offset=at + here)
                here += header.head_bytes + len(record.payload)
                continue
            missing = 0 if is_last else _missing(data, here, header, end - at)
            if missing:
                wanted = max(at_once, missing)
                break
            spoilt = at + here if spoilt < 0 else spoilt
            here += 1
        if is_last:
            break
    if spoilt >= 0:
        yield Damage(spoilt, at + len(data) - spoilt, "the last record is torn", torn=True)


def _mark_in(data: bytes, here: int, header: Header, *, is_last: bool) -> int:
    """Where the next record may begin, perhaps behind the end of what was read."""
    found = data.find(header.mark, here)
    if found >= 0:
        return found
    return len(data) if is_last else max(here, len(data) - len(header.mark) + 1)


def _missing(data: bytes, here: int, header: Header, end: int) -> int:
    """How many bytes must be read to know whether a record begins here; 0 if none does."""
    head = data[here : here + header.head_bytes]
    if not head.startswith(header.mark[: len(head)]):
        return 0
    if len(head) < header.head_bytes:
        return header.head_bytes - len(head)
    begin = here + header.head_bytes
    length = length_in(head)
    return begin + length - len(data) if length <= end - begin else 0


def length_in(head: bytes) -> int:
    """Bytes of the payload that a record's head announces; -1 where it is no head."""
    return int(BARE_HEAD.unpack_from(head)[1]) if len(head) >= BARE_HEAD.size else -1


def record_at(data: bytes, at: int, header: Header) -> Record | None:
    """The record at a place of a file, or of a part of it; None if none counts."""
    form = FORMATS[header.version]
    begin = at + form.head_bytes
    if begin > len(data) or not data.startswith(header.mark, at):
        return None
    _, length, kind, at_ns = BARE_HEAD.unpack_from(data, at)
    if length > len(data) - begin:
        return None
    payload = data[begin : begin + length]
    if form.head_of(header, data[at : at + BARE_HEAD.size], payload) != data[at:begin]:
        return None
    return Record(kind, at_ns, payload, at)
