"""One file of the journal: a header, then records that were appended one by one.

    header   magic 8 | version 2 | spare 2 | number 4 | begun_ns 8 | salt 20 | crc32 4      (48 bytes), twice
    record   mark 8 | length 4 | kind 1 | spare 3 | at_ns 8 | checksum 8                     (32 bytes), then the payload

All numbers are little-endian, but checksums of records are big-endian. The salt is random. Its first 8 bytes are the
mark of each record of the file, and its next 8 are the seed of each record's checksum (XXH3, 64 bits), which covers the
record's head and its payload. The header stands twice, since without its salt no record can be read. Its own checksum
is the same in all versions, so that each version can name the others.

Format 1 differs in the checksum: 4 bytes, CRC-32, little-endian, whose seed are 4 bytes. Format 2 has no records of kind 18. Files of
all formats in `FORMATS` are read, and new ones are of the last.

Idea: a record counts only if its checksum does. Behind one that does not, the reader searches the file's mark, byte
by byte, until a record counts again. A sender does not know the mark, so no payload can pass for a record.

Invariants:

- Reading raises nothing, whatever the bytes are: what cannot be read is `Damage`, with its place.
- A file of a newer format is not read at all, nor changed. A new kind of record makes a new format, so that no program passes one over.

Example: a process is killed in the middle of a write. The last record of its file is torn: the reader gives all
records before it, then `Damage` with `torn` True.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from zlib import crc32

from xxhash import xxh3_64

__all__ = [
    "FIRST",
    "FORMATS",
    "HEADERS_BYTES",
    "HEAD_BYTES",
    "PATTERN",
    "PAYLOAD_MAX",
    "VERSION",
    "Damage",
    "Header",
    "Record",
    "head_of",
    "length_in",
    "new_header",
    "number_of",
    "numbered",
    "offset_of",
    "place_of",
    "read",
    "read_from",
    "read_header",
    "record_at",
    "records_in",
    "segments",
]

MAGIC: Final = b"OFFRJRNL"
PATTERN: Final = "journal-*.log"
FIRST: Final = 1
"""Number of the first file of a journal."""
PAYLOAD_MAX: Final = 1 << 30
"""Bytes of one record. Bodies have a bound of their own, which is lower."""

PIECE_BYTES: Final = 1 << 20
"""Bytes of a file read at once, unless a record is larger."""

_HEADER: Final = struct.Struct("<8sHHIQ20sI")
_BARE: Final = struct.Struct("<8sIB3xQ")
"""A record's head without its checksum."""
HEADER_BYTES: Final = _HEADER.size
HEADERS_BYTES: Final = 2 * HEADER_BYTES
_CHECKSUM_BYTES: Final = 8
_OLD_CHECKSUM_BYTES: Final = 4
HEAD_BYTES: Final = _BARE.size + _CHECKSUM_BYTES
_CRC_BYTES: Final = 4
_MARK_BYTES: Final = 8
_SALT_BYTES: Final = 20
_OFFSET_BITS: Final = 36


class Header(NamedTuple):
    """What a file says of itself."""

    version: int
    number: int
    """Files of one folder are numbered in the order in which they were begun."""
    begun_ns: int
    """Unix nanoseconds."""
    salt: bytes

    @property
    def head_bytes(self) -> int:
        """Bytes of a record's head."""
        return FORMATS[self.version].head_bytes

    @property
    def mark(self) -> bytes:
        """What each record of the file begins with."""
        return self.salt[:_MARK_BYTES]

    @property
    def seed(self) -> int:
        """What the checksums of the file's records begin with."""
        return int.from_bytes(self.salt[_MARK_BYTES : _MARK_BYTES + _CHECKSUM_BYTES], "little")

    def pack(self) -> bytes:
        """The header's bytes, twice."""
        bare = _HEADER.pack(MAGIC, self.version, 0, self.number, self.begun_ns, self.salt, 0)
        once = bare[:-_CRC_BYTES] + crc32(bare[:-_CRC_BYTES]).to_bytes(_CRC_BYTES, "little")
        return once + once


def _head_of_1(header: Header, bare: bytes, payload: bytes) -> bytes:
    found = crc32(payload, crc32(bare, header.seed & 0xFFFF_FFFF))
    return bare + found.to_bytes(_OLD_CHECKSUM_BYTES, "little")


def _head_of_2(header: Header, bare: bytes, payload: bytes) -> bytes:
    return _sealed(bare, header.seed, (payload,))


def _sealed(bare: bytes, seed: int, parts: tuple[bytes, ...]) -> bytes:
    """The part of a head without its checksum, and that of it and the payload."""
    found = xxh3_64(bare, seed)
    for part in parts:
        found.update(part)
    return bare + found.digest()


class Format(NamedTuple):
    """What differs from format to format."""

    head_bytes: int
    """Bytes of a record's head."""
    head_of: Callable[[Header, bytes, bytes], bytes]
    """Gives the head of a record from its part without the checksum and its payload."""
    last_kind: int
    """The last kind of its records."""


FORMATS: Final = {
    1: Format(_BARE.size + _OLD_CHECKSUM_BYTES, _head_of_1, 17),
    2: Format(HEAD_BYTES, _head_of_2, 17),
    3: Format(HEAD_BYTES, _head_of_2, 18),
}
"""The formats that are read."""
VERSION: Final = max(FORMATS)
"""The one that is written."""


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


def new_header(number: int, begun_ns: int) -> Header:
    """The header of a new file, with a salt of its own."""
    return Header(VERSION, number, begun_ns, os.urandom(_SALT_BYTES))


def head_of(
    mark: bytes, seed: int, kind: int, at_ns: int, length: int, parts: tuple[bytes, ...]
) -> bytes:
    """The head of a record.

    Args:
        mark: of the file's records.
        seed: of their checksums.
        kind: of the record.
        at_ns: Unix nanoseconds.
        length: of the payload.
        parts: which make the payload.
    """
    return _sealed(_BARE.pack(mark, length, kind, at_ns), seed, parts)


def read_header(data: bytes) -> Header | Damage:
    """The header of a file, from the first of its two copies that is whole."""
    for offset in (0, HEADER_BYTES):
        copy = data[offset : offset + HEADER_BYTES]
        if len(copy) < HEADER_BYTES or not copy.startswith(MAGIC):
            continue
        _, version, _, number, begun_ns, salt, crc = _HEADER.unpack(copy)
        if crc32(copy[:-_CRC_BYTES]) != crc:
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
            record = _record(data, here, header)
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
    return int(_BARE.unpack_from(head)[1]) if len(head) >= _BARE.size else -1


def record_at(data: bytes, at: int, header: Header) -> Record | None:
    """The record at a place of a file, or of a part of it; None if none counts."""
    return _record(data, at, header)


def _record(data: bytes, at: int, header: Header) -> Record | None:
    """The record at a place; None if none counts."""
    form = FORMATS[header.version]
    begin = at + form.head_bytes
    if begin > len(data) or not data.startswith(header.mark, at):
        return None
    _, length, kind, at_ns = _BARE.unpack_from(data, at)
    if length > len(data) - begin:
        return None
    payload = data[begin : begin + length]
    if form.head_of(header, data[at : at + _BARE.size], payload) != data[at:begin]:
        return None
    return Record(kind, at_ns, payload, at)


def place_of(number: int, offset: int) -> int:
    """A record's place in a journal, in one number; later records have higher ones."""
    return number << _OFFSET_BITS | offset


def number_of(place: int) -> int:
    """The number of the file in which a record is."""
    return place >> _OFFSET_BITS


def offset_of(place: int) -> int:
    """Where in its file a record is."""
    return place & (1 << _OFFSET_BITS) - 1


def numbered(folder: Path, number: int) -> Path:
    """The file with a number."""
    return folder / f"journal-{number:010d}.log"


def segments(folder: Path) -> list[tuple[int, Path]]:
    """The files of a journal with their numbers, in order; other files are left out."""
    found = []
    for file in folder.glob(PATTERN):
        digits = file.stem.removeprefix("journal-")
        if digits.isascii() and digits.isdigit():
            found.append((int(digits), file))
    return sorted(found)
