"""The newest file of a journal, to which records are appended.

Idea: a record is one `writev`, so a process that is killed leaves it whole or not at all. What a record needs of its
file is worked out once, since each request waits for its record.

Invariant: what a failing disk has taken of a record is cut off again.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from collector.state.segment import (
    HEAD_BYTES,
    HEADERS_BYTES,
    head_of,
    new_header,
    numbered,
    place_of,
)

__all__ = ["DISK_FULL", "SegmentWriter"]

_FILE_MODE: Final = 0o600
DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Another file would not fit either."""


class SegmentWriter:
    """One file, from its beginning on.

    Args:
        folder: of the journal.
        number: of the file; there must be none of this number.
        begun_ns: Unix nanoseconds.

    Raises:
        OSError: the disk refuses it. There is no file then.
    """

    def __init__(self, folder: Path, number: int, begun_ns: int) -> None:
        self.header = new_header(number, begun_ns)
        self.number = number
        self.size = HEADERS_BYTES
        self.is_whole = False
        """Whether it has all that a replay needs which begins with it."""
        self.is_broken = False
        """True if the file refused a record, or may have lost one: the next goes to another file."""
        self.is_unsynced = False
        """True after a sync that failed: the kernel may have dropped records, and a later sync would not say so."""
        self._mark = self.header.mark
        self._seed = self.header.seed
        path = numbered(folder, number)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.fd = os.open(path, flags, _FILE_MODE)
        try:
            self._write((self.header.pack(),), HEADERS_BYTES)
        except OSError:
            os.close(self.fd)
            path.unlink()
            raise

    def append(self, kind: int, at_ns: int, parts: tuple[bytes, ...]) -> int:
        """Appends one record, and gives the bytes that it takes.

        Raises:
            OSError: the disk refuses it. Nothing of it is in the file then.
        """
        size = HEAD_BYTES
        for part in parts:
            size += len(part)
        head = head_of(self._mark, self._seed, kind, at_ns, size - HEAD_BYTES, parts)
        try:
            self._write((head, *parts), size)
        except OSError as problem:
            self.is_broken = problem.errno not in DISK_FULL
            with suppress(OSError):
                os.ftruncate(self.fd, self.size)
            raise
        self.size += size
        return size

    @property
    def is_deleted(self) -> bool:
        """True if somebody has deleted the file: what is written goes nowhere."""
        return os.fstat(self.fd).st_nlink == 0

    @property
    def end(self) -> int:
        """The place of the record to come."""
        return place_of(self.number, self.size)

    def _write(self, parts: tuple[bytes, ...], size: int) -> None:
        """Writes all of it with one call.

        Raises:
            OSError: the disk refuses it, or has taken a part only.
        """
        if os.writev(self.fd, parts) != size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
