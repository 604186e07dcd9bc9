"""A folder of one process: two that write one journal would ruin it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

__all__ = ["Lock", "LockedError"]

_FILE: Final = "lock"
_FILE_MODE: Final = 0o600


class LockedError(OSError):
    """Another process uses the folder."""


class Lock:
    """Holds a folder until it is released, or the process ends, however it ends.

    Args:
        folder: an existing folder.
        file: what in it is locked. Folders of several kinds may be one: each kind has a file of its own.

    Raises:
        LockedError: another process holds it.
        OSError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, file: str = _FILE) -> None:
        self._fd = os.open(folder / file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            os.close(self._fd)
            self._fd = -1
            if isinstance(problem, BlockingIOError):
                raise LockedError(problem.errno, "another process uses this folder") from None
            raise

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    def release(self) -> None:
        """Lets go of the folder."""
        os.close(self._fd)
        self._fd = -1
