"""The connections of one listener: how many, how old, and whom we wait for."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from collector.logs import log
from collector.receivers.door import BODY_SECONDS, HEAD_SECONDS
from collector.receivers.greeting import Here, sentence
from collector.stats import Stats

__all__ = ["Bounds", "Crowd", "Member"]

SWEEP_SECONDS: Final = 1.0
"""How often slow clients are looked for."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """On the connections of one listener; times in seconds."""

    connections: int = 16_384
    """Open at once. Beyond it, the one that has kept us waiting longest goes."""
    head: float = HEAD_SECONDS
    """From the first byte of a request, or the connection's start, to the end of its headers."""
    body: float = BODY_SECONDS
    """From the end of the headers to the end of the body."""
    age: float | None = None
    """After it a connection is closed with its next answer, so that load spreads anew."""


class Member(ABC, asyncio.Protocol):
    """A connection, as the crowd knows it."""

    deadline = float("inf")
    """When we have waited too long, on the loop's clock."""
    idle = False
    """It is no fault of the client's that we wait."""

    @property
    @abstractmethod
    def is_busy(self) -> bool:
        """A request has begun and is not answered."""

    @abstractmethod
    def time_out(self) -> None:
        """The deadline has passed."""

    @abstractmethod
    def shut_down(self) -> None:
        """Closes it when it is not busy."""

    @abstractmethod
    def end(self) -> None:
        """Closes it."""


class Crowd:
    """The connections of one listener, and whom we wait for.

    We wait for a client while it is idle or in the middle of a request; the rest of the time it
    waits for us. `waiting` is in order of since when.
    """

    def __init__(self, bounds: Bounds, stats: Stats) -> None:
        self.bounds = bounds
        self.connections: set[Member] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """Requests that are answered beside the loop's turn."""
        self.waiting: OrderedDict[Member, None] = OrderedDict()
        self.moved = asyncio.Event()
        """A connection was closed, or will be once its answer has been read."""
        self._stats = stats
        self._told: set[str] = set()
        self._log = log

    def join(self, connection: Member) -> None:
        """One more has come: where that is too many, who kept us waiting longest goes."""
        self.connections.add(connection)
        if len(self.connections) > self.bounds.connections and self.waiting:
            first = next(iter(self.waiting))
            self._stats.count("connections_closed", "crowded")
            first.end()

    def await_(self, connection: Member) -> None:
        """From now on we wait for this client."""
        self.waiting[connection] = None
        self.waiting.move_to_end(connection)

    def leave(self, connection: Member) -> None:
        """It waits for us."""
        self.waiting.pop(connection, None)

    def part(self, connection: Member) -> None:
        """It is gone."""
        self.connections.discard(connection)
        self.leave(connection)
        self.moved.set()

    async def disperse(self, grace_seconds: float) -> None:
        """Closes all, those in the middle of a request after its answer, or after the grace."""
        for connection in list(self.connections):
            connection.shut_down()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while any(each.is_busy for each in self.connections):
                    self.moved.clear()
                    await self.moved.wait()
        for task in list(self.tasks):
            task.cancel()
        for connection in list(self.connections):
            connection.end()

    async def sweep(self) -> None:
        """Closes the connections of clients that are idle or too slow, once a second."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            for connection in [each for each in self.waiting if now >= each.deadline]:
                if not connection.idle:
                    self._stats.count("connections_closed", "slow")
                connection.time_out()

    def foreign(self, name: str, here: Here) -> None:
        """Counts another protocol on our port; each is told of once, not once a connection."""
        self._stats.count("foreign_protocol", name)
        if name not in self._told:
            self._told.add(name)
            self._log.warning("foreign_protocol", protocol=name, reason=sentence(name, here))
