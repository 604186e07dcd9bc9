"""Files that may be replaced while the process runs: certificates and tokens."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["UnusableFileError", "WatchedFiles", "as_set", "read_file"]

LOOK_SECONDS: Final = 1.0
"""How often files are looked at, at most; and how late a change is noticed."""


class UnusableFileError(OSError):
    """A file or folder that a setting names cannot be used.

    Args:
        setting: its key, with dots.
        path: the file or folder; a text for several.
        reason: the fault.
        number: the errno.
    """

    def __init__(
        self, setting: str, path: Path | str, reason: str | None, number: int | None = None
    ) -> None:
        super().__init__(number or errno.EINVAL, f"{setting}: {path}: {reason}")
        self.setting = setting


@contextmanager
def as_set(setting: str, path: Path | None) -> Iterator[None]:
    """What begins to use the file or folder of a setting: its errors name both.

    Raises:
        UnusableFileError: the block raised an `OSError`.
    """
    try:
        yield
    except OSError as problem:
        raise UnusableFileError(
            setting, str(path), problem.strerror, problem.errno
        ) from problem


class WatchedFiles:
    """Detects changes of a group of files.

    Args:
        files: the group.
        clock: seconds, monotonic.
    """

    def __init__(self, *files: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._clock = clock
        self._next = clock() + LOOK_SECONDS
        self._seen = self._look()

    def changed(self) -> bool:
        """True once for each change. The files are checked once a second at most; other calls only read the clock."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + LOOK_SECONDS
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        return True

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_signature(file) for file in self._files]


def _signature(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_file(file: Path, setting: str) -> bytes:
    """Return the content of a file that a setting names.

    Raises:
        UnusableFileError: the file cannot be read; the message names setting and file.
    """
    with as_set(setting, file):
        return file.read_bytes()
