"""Group commit: a thread brings the journal to the disk, and whoever answers waits for it (`durability: power`).

Idea: all that was written while one `fdatasync` ran shares the next one.

Invariant: `wait` returns once everything is on the disk that was in the newest file when it was called, or raises. A file
whose sync failed is never trusted again: the kernel drops what it could not write, and the next sync of the file succeeds.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from collector.state.segment_writer import SegmentWriter

__all__ = ["GroupCommit"]

SYNC_SECONDS: Final = 5.0
"""An answer waits for the disk so long at most."""


class GroupCommit:
    """Synchronises the newest file while somebody waits.

    Args:
        newest: gives the newest file; None before the first one.
        failed: called with the disk's error; what the kernel held of the file may be lost then.
    """

    def __init__(
        self, newest: Callable[[], SegmentWriter | None], failed: Callable[[OSError], None]
    ) -> None:
        self._newest = newest
        self._failed = failed
        self._pool = ThreadPoolExecutor(1, "journal")
        self._next: asyncio.Future[None] | None = None
        """Future of a sync that has not begun."""
        self._files: set[SegmentWriter] = set()
        """The files with the records of those that wait for it."""
        self._syncing: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Waits until all that is written so far is on the disk.

        Raises:
            OSError: it is not; a TimeoutError after `SYNC_SECONDS`.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        mine, file = self._next, self._newest()
        if file is not None:
            self._files.add(file)
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync())
        async with asyncio.timeout(SYNC_SECONDS):
            await asyncio.shield(mine)

    async def _sync(self) -> None:
        """Synchronises again and again while somebody waits."""
        loop = asyncio.get_running_loop()
        while self._next is not None:
            waiting, self._next = self._next, None
            files, self._files = self._files, set()
            file = self._newest()
            try:
                if file is not None:
                    await loop.run_in_executor(self._pool, _sync, file)
                if any(each.is_unsynced for each in files):
                    raise OSError(errno.EIO, os.strerror(errno.EIO))  # noqa: TRY301
            except OSError as problem:
                self._failed(problem)
                waiting.set_exception(problem)
                waiting.exception()  # nobody may wait any more
            else:
                waiting.set_result(None)
        self._syncing = None

    def leave(self, file: SegmentWriter) -> None:
        """Closes a file once it is on the disk."""
        self._pool.submit(_sync_and_close, file)

    def note_entry(self, folder: Path) -> None:
        """Brings to the disk that a folder has a new file."""
        self._pool.submit(_sync_folder, folder)

    async def settle(self) -> None:
        """Waits for the sync that is under way."""
        if self._syncing is not None:
            with suppress(OSError):
                await self._syncing

    def close(self) -> None:
        """Ends the thread, after what it was given."""
        self._pool.shutdown()


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync(file: SegmentWriter) -> None:
    try:
        os.fdatasync(file.fd)
    except OSError:
        file.is_broken = file.is_unsynced = True
        raise


def _sync_and_close(file: SegmentWriter) -> None:
    try:
        _sync(file)
    finally:
        os.close(file.fd)
