"""Long responses of the metrics and admin listeners, rendered part by part as their clients read.

One turn of the event loop renders one part, so spans are judged in between, and a client that does not
read costs nothing. At most `OPEN_MAX` responses are open. A further one replaces the response whose
client has stalled for longest. Where none has stalled for long enough, it waits for that, in order of arrival;
of more than `WAITING_MAX` the last gets 503 with Retry-After. An address that holds its
share gives way first: its slow readers soon, so that they keep no place from a good client beside them.
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
"""Open responses of one listener; one address has at most half of them."""
STALLED_SECONDS: Final = 1.0
"""A response whose client has not read for this long may be replaced."""
SLOW_SECONDS: Final = 0.1
"""The same for one of its own address."""
WAITING_MAX: Final = 64
"""Requests of one listener that wait for a place: sixteen slow readers give way in each `SLOW_SECONDS`."""
WAIT_SECONDS: Final = 0.5
"""How long the first of them waits: clients that read now and then may never stall for long enough."""
CALM: Final = 2
"""Open responses above which the process rests between parts."""
REST: Final = 3
"""Rest between parts, in multiples of a part's time: long responses take at most a quarter of the process."""

_NEVER: Final = float("inf")


class LongResponses:
    """The long responses of one listener."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        """Address -> number of open responses."""
        self._open: dict[asyncio.Task[None], float] = {}
        """Task -> since when it waits for its client to read; infinity if it does not wait."""
        self._address: dict[asyncio.Task[None], str] = {}
        """Task -> address of its client."""
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._line = asyncio.Lock()
        """Held by the first response that waits for a place."""

    async def send(
        self,
        scope: Scope,
        send: Send,
        content_type: bytes,
        parts: AsyncIterator[bytes],
        *headers: tuple[bytes, bytes],
    ) -> bool:
        """Sends a response, or 503 if too many are open; True if the response was sent.

        Args:
            scope: ASGI scope of the request.
            send: ASGI's send.
            content_type: of the response.
            parts: parts of the body; an empty part only gives other tasks a turn.
            headers: more headers of the response.
        """
        task = asyncio.current_task()
        assert task is not None
        address = (scope.get("client") or ("", 0))[0]
        if not await self._has_place(address):
            body, retry = b"too many long responses are open\n", (b"retry-after", b"1")
            await send_status(send, 503, body, b"text/plain; charset=utf-8", retry)
            return False
        self._open[task], self._address[task] = _NEVER, address
        self._held[address] += 1
        try:
            await begin_stream(send, content_type, *headers)
            while True:
                part = await self._next(parts)
                if part is None:
                    break
                if part:
                    await self._send_part(task, send, part)
            await end_stream(send)
            return True
        finally:
            self._open.pop(task, None)
            self._address.pop(task, None)
            self._held -= Counter((address,))

    async def _has_place(self, address: str) -> bool:
        """True once there is room for a response, False if none is to be had soon."""
        if not self._waiting and self._takes_place(address):
            return True
        if self._waiting >= WAITING_MAX:
            return False
        self._waiting += 1
        try:
            async with self._line:
                return await self._wait(address)
        finally:
            self._waiting -= 1

    async def _wait(self, address: str) -> bool:
        """Waits until a client of the address counts as slow, or has read all; False if none soon does."""
        now = asyncio.get_running_loop().time
        last = now() + WAIT_SECONDS
        while not self._takes_place(address):
            slow = min([now(), *map(self._since, self._own(address))]) + SLOW_SECONDS
            if slow > last or not self._held[address]:
                return False
            await asyncio.sleep(slow - now())
        return True

    def _takes_place(self, address: str) -> bool:
        return self._has_room(address) or self._end_slowest(address)

    def _has_room(self, address: str) -> bool:
        """True if the address has fewer open responses than are left for others."""
        return self._held[address] < OPEN_MAX - len(self._open)

    async def _send_part(self, task: asyncio.Task[None], send: Send, part: bytes) -> None:
        self._open[task] = asyncio.get_running_loop().time()
        await send_part(send, part)
        self._open[task] = _NEVER

    async def _next(self, parts: AsyncIterator[bytes]) -> bytes | None:
        """The next part, rendered in a turn of its own; None after the last."""
        async with self._turn:
            began = perf_counter()
            part = await anext(parts, None)
            taken = perf_counter() - began
            await asyncio.sleep(taken * REST if len(self._open) > CALM else 0)
            return part

    def _end_slowest(self, address: str) -> bool:
        """Ends the response whose client has not read for longest; False if all read."""
        own = self._own(address)
        return self._end_one(own, SLOW_SECONDS) or self._end_one(self._open, STALLED_SECONDS)

    def _own(self, address: str) -> list[asyncio.Task[None]]:
        """The open responses of an address."""
        return [task for task in self._open if self._address[task] == address]

    def _end_one(self, tasks: Iterable[asyncio.Task[None]], seconds: float) -> bool:
        """Ends one of these, if its client has not read for so long."""
        task = min(tasks, key=self._since, default=None)
        if task is None or asyncio.get_running_loop().time() < self._since(task) + seconds:
            return False
        del self._open[task]
        task.cancel()
        return True

    def _since(self, task: asyncio.Task[None]) -> float:
        return self._open[task]
