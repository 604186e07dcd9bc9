"""What lies in the folder of a journal and is not of it: it is told, and never read.

A folder may hold several kinds of files, such as those of the archive, so a file of another name is no fault. What is no file,
as a fifo, has no business there. Folders are left alone: a volume has some of its own.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from collector.state.segment import segments

__all__ = ["OtherFile", "other_files"]

_OURS: Final = (
    "lock",
    "attempts",
    "archive.*",
    "last-good-specs",
    f"snapshot-{20 * '[0-9]'}*",
    ".*",
)
"""Files of ours, and hidden ones. What has the name of a snapshot and is no file is told where snapshots are read."""

_KINDS: Final[tuple[tuple[Callable[[int], bool], str], ...]] = (
    (stat.S_ISREG, ""),
    (stat.S_ISFIFO, "a fifo"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link that leads nowhere"),
)


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
    return next((words for is_one, words in _KINDS if is_one(mode)), "a device")
