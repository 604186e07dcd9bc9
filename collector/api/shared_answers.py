"""Answers that take long to make: one at a time, shared by all who wait for the same one, so that ingest comes first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

__all__ = ["REST", "SharedAnswers"]

REST: Final = 4
"""Pause after an answer, as a multiple of its own time: answers take a fifth of the time at most."""

Asked = TypeVar("Asked", bound=Hashable)
Answer = TypeVar("Answer")


class SharedAnswers(Generic[Asked, Answer]):
    """Makes answers in turn.

    However many session views are open, answers take a fifth of the process's time at most. Who asks while one is being
    made waits for the next one, so that none is older than the question.

    Args:
        make: makes an answer.
    """

    def __init__(self, make: Callable[[Asked], Awaitable[Answer]]) -> None:
        self._make_one = make
        self._waiting: dict[Asked, asyncio.Future[Answer]] = {}
        """Answers that have not begun, by question."""
        self._turn = asyncio.Lock()
        self._next = 0.0
        """The event loop's time from which there may be another one."""

    async def get(self, asked: Asked) -> Answer:
        """An answer that was begun no earlier than now."""
        found = self._waiting.get(asked)
        if found is None:
            found = self._waiting[asked] = asyncio.ensure_future(self._make(asked))
        return await asyncio.shield(found)

    async def _make(self, asked: Asked) -> Answer:
        async with self._turn:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._next - loop.time())
            del self._waiting[asked]
            began = time.thread_time()
            try:
                return await self._make_one(asked)
            finally:
                self._next = loop.time() + REST * (time.thread_time() - began)
