"""How long a peer may take, by its own time: not by that in which this process waited for the processor."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

__all__ = ["Patience"]

SLICE_SECONDS = 0.02
"""Time of one wait: what goes beyond it is time in which this process did not run."""


class Patience:
    """Waits for one peer, so many seconds in all.

    Each wait counts at most as it was meant to take, however late this process went on after it. So a host where
    hundreds of processes start at once takes nothing from the time that the peer has.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def wait(self, file: int, *, to_write: bool = False) -> None:
        """Waits until a file can be read, or written.

        Raises:
            TimeoutError: the time is up.
        """
        while not self._is_ready(file, to_write=to_write):
            pass

    def pause(self) -> None:
        """Waits for a moment, where nothing says when to go on.

        Raises:
            TimeoutError: the time is up.
        """
        self._is_ready(None, to_write=False)

    def connect(self, line: socket.socket, path: str) -> None:
        """Connects to a socket of the file system, which refuses for a moment while too many want to.

        Raises:
            OSError: there is no such socket.
            TimeoutError: the time is up.
        """
        line.setblocking(False)
        while True:
            try:
                return line.connect(path)
            except BlockingIOError:
                self.pause()

    def _is_ready(self, file: int | None, *, to_write: bool) -> bool:
        if self.left <= 0:
            raise TimeoutError
        part, began = min(self.left, SLICE_SECONDS), time.monotonic()
        files = [] if file is None else [file]
        to_read = [] if to_write else files
        found = select.select(to_read, files if to_write else [], [], part)
        self.left -= min(part, time.monotonic() - began)
        return any(found)
