"""One file of the journal: a header, then records that were appended one by one.

    header   magic 8 | version 2 | spare 2 | number 4 | begun_ns 8 | salt 20 | crc32 4      (48 bytes), twice
    record   mark 8 | length 4 | kind 1 | spare 3 | at_ns 8 | checksum 8                     (32 bytes), then the payload

All numbers are little-endian, but checksums of records are big-endian. The salt is random. Its first 8 bytes are the
mark of each record of the file, and its next 8 are the seed of each record's checksum (XXH3, 64 bits), which covers the
record's head and its payload. The header stands twice, since without its salt no record can be read. Its own checksum
is the same in all versions, so that each version can name the others.

Format 1 differs in the checksum: 4 bytes, CRC-32, little-endian, whose seed are 4 bytes. Format 2 has no records of kind 18. Files of
all formats in `FORMATS` are read, and new ones are of the last.

A record counts only if its checksum does. A sender does not know the mark of a file, so no payload can pass for a record.

Invariant: a new kind of record makes a new format, so that no program passes one over.

`segment_reading` reads a file, `segment_writer` writes one, and `journal_files` finds the files of a journal.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
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
    "Header",
    "head_of",
    "new_header",
    "number_of",
    "numbered",
    "offset_of",
    "place_of",
    "segments",
]

MAGIC: Final = b"OFFRJRNL"
PATTERN: Final = "journal-*.log"
FIRST: Final = 1
"""Number of the first file of a journal."""
PAYLOAD_MAX: Final = 1 << 30
"""Bytes of one record. Bodies have a bound of their own, which is lower."""

HEADER: Final = struct.Struct("<8sHHIQ20sI")
BARE_HEAD: Final = struct.Struct("<8sIB3xQ")
"""A record's head without its checksum."""
HEADER_BYTES: Final = HEADER.size
HEADERS_BYTES: Final = 2 * HEADER_BYTES
_CHECKSUM_BYTES: Final = 8
_OLD_CHECKSUM_BYTES: Final = 4
HEAD_BYTES: Final = BARE_HEAD.size + _CHECKSUM_BYTES
CRC_BYTES: Final = 4
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
        bare = HEADER.pack(MAGIC, self.version, 0, self.number, self.begun_ns, self.salt, 0)
        once = bare[:-CRC_BYTES] + crc32(bare[:-CRC_BYTES]).to_bytes(CRC_BYTES, "little")
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
    1: Format(BARE_HEAD.size + _OLD_CHECKSUM_BYTES, _head_of_1, 17),
    2: Format(HEAD_BYTES, _head_of_2, 17),
    3: Format(HEAD_BYTES, _head_of_2, 18),
}
"""The formats that are read."""
VERSION: Final = max(FORMATS)
"""The one that is written."""


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
    return _sealed(BARE_HEAD.pack(mark, length, kind, at_ns), seed, parts)


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
