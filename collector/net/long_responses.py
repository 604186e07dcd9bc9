"""Long responses of the metrics and admin listeners: rendered part by part, as their clients read.

Whoever asks, one part is rendered in a turn of the event loop, so spans are judged in between, and a
client that does not read costs nothing. Only so many are open at once: one more takes the place of
the client that has not read for longest, or gets 503 with Retry-After. An address that holds its share
gives way first: slow readers soon, so that they keep no place from a good client beside them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import Final

from collector.net.asgi import Scope, Send, begin_stream, end_stream, send_part, send_status

__all__ = ["OPEN_MAX", "LongResponses"]

OPEN_MAX: Final = 32
"""Of one listener; of one address, half of them."""
STALLED_SECONDS: Final = 1.0
"""Who has not read for so long may be closed in favour of another."""
SLOW_SECONDS: Final = 0.1
"""The same in favour of another of its own address."""
CALM: Final = 2
"""With more responses open than these, the process rests between parts."""
REST: Final = 3
"""For so many times as long as a part took: they take a quarter of its time at most."""


class LongResponses:
    """Those of one listener."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        """How many each address has open."""
        self._open: dict[asyncio.Task[None], float] = {}
        """Since when each waits for its client to read; infinity: it does not."""
        self._address: dict[asyncio.Task[None], str] = {}
        """Whose each of them is."""
        self._turn = asyncio.Lock()

    async def send(
        self, scope: Scope, send: Send, content_type: bytes, parts: AsyncIterator[bytes]
    ) -> None:
        """Sends a response, or says that too many are open.

        Args:
            scope: of the request.
            send: of ASGI.
            content_type: of the response.
            parts: what it is made of; an empty one gives others their turn.
        """
        task = asyncio.current_task()
        assert task is not None
        address = (scope.get("client") or ("", 0))[0]
        if not (self._has_room(address) or self._end_slowest(address)):
            body, retry = b"too many long responses are open\n", (b"retry-after", b"1")
            await send_status(send, 503, body, b"text/plain; charset=utf-8", retry)
            return
        self._open[task], self._address[task] = float("inf"), address
        self._held[address] += 1
        try:
            await begin_stream(send, content_type)
            while True:
                part = await self._next(parts)
                if part is None:
                    break
                if part:
                    await self._send_part(task, send, part)
            await end_stream(send)
        finally:
            self._open.pop(task, None)
            self._address.pop(task, None)
            self._held -= Counter((address,))

    def _has_room(self, address: str) -> bool:
        """One address never has more open than are left for the others."""
        return self._held[address] < OPEN_MAX - len(self._open)

    async def _send_part(self, task: asyncio.Task[None], send: Send, part: bytes) -> None:
        self._open[task] = asyncio.get_running_loop().time()
        await send_part(send, part)
        self._open[task] = float("inf")

    async def _next(self, parts: AsyncIterator[bytes]) -> bytes | None:
        """The next part, rendered in a turn of its own; None after the last."""
        async with self._turn:
            began = perf_counter()
            part = await anext(parts, None)
            taken = perf_counter() - began
            await asyncio.sleep(taken * REST if len(self._open) > CALM else 0)
            return part

    def _end_slowest(self, address: str) -> bool:
        """Ends the response whose client has not read for longest; False where all read."""
        own = [task for task, whose in self._address.items() if whose == address]
        return self._end_one(own, SLOW_SECONDS) or self._end_one(self._open, STALLED_SECONDS)

    def _end_one(self, tasks: Iterable[asyncio.Task[None]], seconds: float) -> bool:
        """Ends one of these, if its client has not read for so long."""
        task = min(
            (each for each in tasks if each in self._open), key=self._since, default=None
        )
        if task is None or asyncio.get_running_loop().time() < self._since(task) + seconds:
            return False
        del self._open[task]
        task.cancel()
        return True

    def _since(self, task: asyncio.Task[None]) -> float:
        return self._open[task]
