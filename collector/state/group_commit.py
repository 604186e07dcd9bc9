"""Group commit: a thread brings the journal to the disk, and whoever answers waits for it (`durability: power`).

Idea: all that was written while one `fdatasync` ran shares the next one.

Invariant: `wait` returns once everything is on the disk that was in the newest file when it was called, or raises.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from collector.state.writer import Writer

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
        self, newest: Callable[[], Writer | None], failed: Callable[[OSError], None]
    ) -> None:
        self._newest = newest
        self._failed = failed
        self._pool = ThreadPoolExecutor(1, "journal")
        self._next: asyncio.Future[None] | None = None
        """Future of a sync that has not begun."""
        self._syncing: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Waits until all that is written so far is on the disk.

        Raises:
            OSError: it is not; a TimeoutError after `SYNC_SECONDS`.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        mine = self._next
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync())
        async with asyncio.timeout(SYNC_SECONDS):
            await asyncio.shield(mine)

    async def _sync(self) -> None:
        """Synchronises again and again while somebody waits."""
        loop = asyncio.get_running_loop()
        while self._next is not None:
            waiting, self._next = self._next, None
            file = self._newest()
            try:
                if file is not None:
                    await loop.run_in_executor(self._pool, os.fdatasync, file.fd)
            except OSError as problem:
                assert file is not None
                file.is_broken = True
                self._failed(problem)
                waiting.set_exception(problem)
                waiting.exception()  # nobody may wait any more
            else:
                waiting.set_result(None)
        self._syncing = None

    def leave(self, fd: int) -> None:
        """Closes a file once it is on the disk."""
        self._pool.submit(_sync_and_close, fd)

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


def _sync_and_close(fd: int) -> None:
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
