"""A snapshot: the state of a process at one place of its journal, in a file beside the journal's files.

    header   magic 8 | version 2 | spare 2 | length 4 | checksum 8      (24 bytes), then `SnapshotManifest` as MessagePack
    block    kind 1 | spare 3 | length 4 | checksum 8                   (16 bytes), then its payload

All numbers are little-endian. Checksums are XXH3 of 64 bits; the seed of a block's is its kind.

Idea: a replay that begins with a snapshot judges only what the journal has behind it. A snapshot is a short cut and nothing
more: without one, or with one that does not fit, all that the journal has is judged again.

Invariants:

- A file has its name only once it is whole: it is written under another name, and synchronised.
- All checksums are compared before anything of it is used. Reading raises nothing but `UnusableSnapshotError`, whatever the bytes are.

Example: a process is killed while it writes. What is left is a file whose name ends in `.part`, which the next one deletes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest as checksum_of

from monitor.plain_records.blocks import Block, BlockKind

__all__ = [
    "OtherFormatError",
    "Snapshot",
    "SnapshotManifest",
    "UnusableSnapshotError",
    "Version",
    "clean",
    "name_of",
    "newest",
    "no_files",
    "save",
    "snapshots",
]

MAGIC: Final = b"OFFRSNAP"
VERSION: Final = 4
PATTERN: Final = "snapshot-*"
_PART: Final = ".part"
_FILE_MODE: Final = 0o600
_HEADER: Final = struct.Struct("<8sH2xIQ")
_BLOCK: Final = struct.Struct("<B3xIQ")


class UnusableSnapshotError(Exception):
    """A snapshot cannot be used; says why."""


class OtherFormatError(UnusableSnapshotError):
    """It is of another format: nothing is wrong with it."""


class Version(msgspec.Struct, array_like=True):
    """A version of a spec that sessions in a snapshot may be under."""

    name: str
    """Name of the spec in the snapshot."""
    is_in_use: bool
    """Whether new sessions were under it."""
    file: str
    document: str
    """Identity of the spec across processes."""
    text: bytes | None
    """None if nobody had it any more."""
    day: str
    """Day by which the accepted calls of the spec were in force, as YYYY-MM-DD."""


class SnapshotManifest(msgspec.Struct):
    """What a snapshot says of itself."""

    program: str
    """The version of the program that wrote it."""
    place: int
    """The place in the journal of the first record that is not in it."""
    salt: bytes
    """Random marks of the file with this place: another file may have its number one day."""
    at_ns: int
    """When it was taken, Unix nanoseconds."""
    specs: bytes
    """Digest of the specs in use."""
    versions: list[Version]
    """Versions of the specs in use, and of earlier ones."""
    settings: dict[str, str]
    """Settings that change verdicts, as texts."""
    sessions: int
    """Sessions in it, live and ended ones."""
    files: list[tuple[int, int, bool]] = []
    """Files of the journal before: number, time of the last record, whether a replay may begin with it."""


class BlockLocation(NamedTuple):
    """The place of a block in the file."""

    kind: int
    offset: int
    length: int
    checksum: int


def name_of(folder: Path, place: int) -> Path:
    """The file of the snapshot at a place of the journal."""
    return folder / f"snapshot-{place:020d}"


def snapshots(folder: Path) -> list[Path]:
    """All whole ones, the oldest first."""
    found = [each for each in _named(folder) if each.is_file()]
    return sorted(found, key=lambda each: int(each.name[len("snapshot-") :]))


def no_files(folder: Path) -> list[Path]:
    """What has the name of a snapshot, and is no file."""
    return [each for each in _named(folder) if not each.is_file()]


def _named(folder: Path) -> list[Path]:
    return [each for each in folder.glob(PATTERN) if each.name[len("snapshot-") :].isdecimal()]


def newest(folder: Path) -> Path | None:
    """The newest one; None without any."""
    found = snapshots(folder)
    return found[-1] if found else None


def clean(folder: Path, keep: Path | None) -> None:
    """Deletes all but one, and what writers have left that were killed."""
    for each in folder.glob(PATTERN):
        if each != keep:
            with suppress(OSError):
                each.unlink()


def save(folder: Path, about: SnapshotManifest, blocks: Iterable[Block]) -> Path:
    """Writes a snapshot, and deletes those before.

    Raises:
        OSError: the disk refuses it. Nothing of it is left then.
    """
    path = name_of(folder, about.place)
    part = path.with_name(path.name + _PART)
    try:
        part.unlink(missing_ok=True)
        part.touch(_FILE_MODE, exist_ok=False)
        with part.open("wb") as file:
            _write(file, about, blocks)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    clean(folder, path)
    return path


def _write(file: BinaryIO, about: SnapshotManifest, blocks: Iterable[Block]) -> None:
    head = msgspec.msgpack.encode(about)
    file.write(_HEADER.pack(MAGIC, VERSION, len(head), checksum_of(head)))
    file.write(head)
    for kind, payload in blocks:
        file.write(_BLOCK.pack(kind, len(payload), checksum_of(payload, kind)))
        file.write(payload)


class Snapshot:
    """One file, to be read.

    Args:
        path: of the file.

    Raises:
        UnusableSnapshotError: it cannot be read, is of another version, or not whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.about = _about(file)
                self._blocks = list(_blocks(file, path.stat().st_size))
        except OSError as problem:
            raise UnusableSnapshotError(problem.strerror or str(problem)) from None
        if not self._blocks or self._blocks[-1].kind != BlockKind.INDEX:
            raise UnusableSnapshotError("its end is missing")

    def check(self) -> Iterator[None]:
        """Compares all checksums, a block at a time.

        Raises:
            UnusableSnapshotError: one does not fit.
        """
        try:
            with self.path.open("rb") as file:
                for block in self._blocks:
                    yield
                    file.seek(block.offset)
                    if checksum_of(file.read(block.length), block.kind) != block.checksum:
                        raise UnusableSnapshotError(f"it is damaged at byte {block.offset}")
        except OSError as problem:
            raise UnusableSnapshotError(problem.strerror or str(problem)) from None

    def blocks(self, kind: BlockKind) -> Iterator[bytes]:
        """The payloads of one kind.

        Raises:
            OSError: the file cannot be read any more.
        """
        with self.path.open("rb") as file:
            for block in self._blocks:
                if block.kind == kind:
                    file.seek(block.offset)
                    yield file.read(block.length)


def _about(file: BinaryIO) -> SnapshotManifest:
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        raise UnusableSnapshotError("its head is missing")
    magic, version, length, checksum = _HEADER.unpack(head)
    if magic != MAGIC:
        raise UnusableSnapshotError("it is no snapshot")
    if version != VERSION:
        word = "a newer" if version > VERSION else "an earlier"
        raise OtherFormatError(
            f"it is of format {version}, of {word} version of the program; this one reads {VERSION}"
        )
    payload = file.read(length)
    if len(payload) < length or checksum_of(payload) != checksum:
        raise UnusableSnapshotError("its head is damaged")
    try:
        return msgspec.msgpack.decode(payload, type=SnapshotManifest)
    except msgspec.MsgspecError as problem:
        raise UnusableSnapshotError(str(problem)) from None


def _blocks(file: BinaryIO, size: int) -> Iterator[BlockLocation]:
    offset = file.tell()
    while offset < size:
        head = file.read(_BLOCK.size)
        if len(head) < _BLOCK.size:
            raise UnusableSnapshotError("its end is missing")
        kind, length, checksum = _BLOCK.unpack(head)
        offset += _BLOCK.size
        if offset + length > size:
            raise UnusableSnapshotError("its end is missing")
        yield BlockLocation(kind, offset, length, checksum)
        offset += length
        file.seek(offset)
