"""Live verdicts for whoever looks on: each reader has a short queue, and loses the oldest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from collector.api.access import ANYBODY, Access
from collector.calls.decisions.prevented_calls import PreventedCall
from collector.sinks.event import as_event
from collector.telemetry.json_text import as_json
from monitor.records import ReferenceAlarm, Verdict

__all__ = ["READERS_MAX", "VerdictFeed"]

READERS_MAX = 16
WAITING_MAX = 1_000
HEARTBEAT_SECONDS = 10.0


class _Reader:
    def __init__(self, access: Access) -> None:
        self._access = access
        self.verdicts: deque[Verdict | ReferenceAlarm | PreventedCall] = deque(
            maxlen=WAITING_MAX
        )
        self.missed = 0
        self.news = asyncio.Event()

    def put(self, verdicts: Sequence[Verdict | ReferenceAlarm | PreventedCall]) -> None:
        if self._access.namespaces is not None:
            verdicts = [each for each in verdicts if self._access.sees(each.session.namespace)]
            if not verdicts:
                return
        self.missed += max(0, len(self.verdicts) + len(verdicts) - WAITING_MAX)
        self.verdicts.extend(verdicts)
        self.news.set()


class VerdictFeed:
    """Streams of verdicts as JSON lines.

    Args:
        attend: gets whether anybody reads: harmless verdicts are worded only then.
    """

    def __init__(self, attend: Callable[[bool], None]) -> None:
        self._attend = attend
        self._readers: set[_Reader] = set()
        self._closed = False

    @property
    def full(self) -> bool:
        """True while no further reader is taken."""
        return len(self._readers) >= READERS_MAX

    def deliver(self, verdicts: Sequence[Verdict | ReferenceAlarm | PreventedCall]) -> None:
        for reader in self._readers:
            reader.put(verdicts)

    def close(self) -> None:
        """Ends all streams."""
        self._closed = True
        for reader in self._readers:
            reader.news.set()

    async def lines(self, access: Access = ANYBODY) -> AsyncIterator[bytes]:
        """A verdict that the reader may see a line, from now on; an empty line now and then keeps the connection alive.

        `{"missed": n}` says that the reader was too slow for so many.
        """
        reader = _Reader(access)
        self._readers.add(reader)
        self._attend(True)
        try:
            yield b"\n"
            while not self._closed:
                yield await self._next(reader)
        finally:
            self._readers.discard(reader)
            self._attend(bool(self._readers))

    async def _next(self, reader: _Reader) -> bytes:
        if not reader.verdicts:
            reader.news.clear()
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await reader.news.wait()
            except TimeoutError:
                return b"\n"
        lines = [as_json(as_event(each)) for each in reader.verdicts]
        if reader.missed:
            lines.append(as_json({"missed": reader.missed}))
        reader.verdicts.clear()
        reader.missed = 0
        return b"".join(line + b"\n" for line in lines)
