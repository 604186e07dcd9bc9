"""Work that waits for a network, in a thread that nobody waits for at the end of the process.

The threads of an executor are joined at that end, so one of them that waits for a receiver holds it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What a thread returns. At its end the process does not wait for the thread."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not done.done():  # else nobody waits for it any more
            outcome()

    def run() -> None:
        try:
            outcome = partial(done.set_result, work())
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            outcome = partial(done.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="net", daemon=True).start()
    return await done
