"""An event loop of another thread that stands still for a moment, such as that of a fork.

Idea: a step of the loop waits until the moment is over. Between two steps the thread runs nothing of any library, so it
holds none of their locks.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Final

__all__ = ["PAUSE_SECONDS", "Pause"]

PAUSE_SECONDS: Final = 1.0
"""How long a step under way is waited for, and how long the loop stands still, at most."""


class Pause:
    """While it is held, the loop stands still. Several threads may want that; one has it at a time.

    Args:
        loop: of the thread, or closed.
        thread: that runs the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self._loop = loop
        self._thread = thread
        self._lock = threading.Lock()
        self._over = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()
        # Plain locks: a forked process releases one of them, whatever the thread did with it at that moment.
        stands, self._over = threading.Lock(), threading.Lock()
        stands.acquire()
        self._over.acquire()
        if threading.current_thread() is self._thread:
            return
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(_stand, stands, self._over)
            stands.acquire(timeout=PAUSE_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._over.release()
        self._lock.release()


def _stand(stands: threading.Lock, over: threading.Lock) -> None:
    """A step of the loop that lasts until the moment is over."""
    stands.release()
    over.acquire(timeout=PAUSE_SECONDS)
