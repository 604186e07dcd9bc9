"""Between verdicts and the network: a bounded queue for each sink, and a task that empties it.

Idea: `put` never waits; `_run` sends the oldest messages together, again and again with longer pauses, until they
arrive or are given up.

Invariants:

- A sink that hangs holds up its own queue only.
- A full queue drops its oldest message and counts it: the newest ones are worth most.
- Each message that was put in is counted once: ok, failed or dropped.
- The log has at most one line a minute about a sink that fails, and one when it works again.
- With a journal, each message with a key is told there when it has left, however it has: what has not is sent by the
  next process.

Example: the webhook is down for ten minutes. Its messages are given up when they are five minutes old, and the oldest
are dropped where more come than the queue holds; the log has a line a minute. The first delivery that arrives
writes `alerts_recovered` with the number of lost messages.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from collector.sinks.http_client import DeliveryError
from collector.telemetry.duration_histogram import DELIVERY_SECONDS, DurationHistogram
from collector.telemetry.logs import log
from collector.telemetry.tracing import Tracer, traced

__all__ = ["Backoff", "Settled", "Sink", "SinkQueue"]

LOG_SECONDS = 60.0
"""The log has a line about a sink that fails so often at most."""


class Sink(Protocol):
    """Where messages go."""

    @property
    def name(self) -> str:
        """As a label: alertmanager, webhook, jsonl, otlp."""
        ...

    async def send(self, messages: Sequence[Any]) -> None:
        """Sends what was put in, oldest first.

        Raises:
            DeliveryError: none of it arrived.
        """
        ...


class Backoff(NamedTuple):
    """When a delivery is tried again, and until when."""

    first_seconds: float = 0.25
    most_seconds: float = 15.0
    give_up_seconds: float = 300.0


Settled = Callable[[str, list[bytes]], None]
"""Takes the id of a queue and the keys of messages that have left it."""


class _Entry(NamedTuple):
    message: Any
    at: float
    key: bytes = b""
    """Key of the message in the journal; empty without one."""


class SinkQueue:
    """The messages of one sink.

    Args:
        sink: where they go.
        capacity: so many may wait.
        backoff: how deliveries are tried again.
        lump: so many are sent at once, at most.
        place: where the sink is, for the log, without what is secret.
        tracer: makes a span of each attempt; None if own traces are off.
    """

    def __init__(
        self,
        sink: Sink,
        capacity: int,
        backoff: Backoff | None = None,
        lump: int = 64,
        place: str = "",
        tracer: Tracer | None = None,
    ) -> None:
        self.name = sink.name
        self.place = place
        self.settled: Settled | None = None
        """Called with messages that have left; None without a journal."""
        self._held: deque[tuple[bytes, Any]] | None = None
        """Messages that an earlier process may not have sent, during a replay."""
        self.capacity = capacity
        self.results: Counter[str] = Counter(ok=0, failed=0, dropped=0)
        self.retries = 0
        self.latency = DurationHistogram(DELIVERY_SECONDS)
        self._sink = sink
        self._backoff = backoff or Backoff()
        self._lump = lump
        self._tracer = tracer
        self._entries: deque[_Entry] = deque()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None
        self._log = log
        self._logged_at: float | None = None
        self._logged_failure = False
        """The last line of the log about the sink is that it fails."""

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def id(self) -> str:
        """What it is known by in the journal."""
        return f"{self.name} {self.place}"

    def hold(self) -> None:
        """Sends nothing from now on: messages wait for `release`, or for `drop_held`."""
        self._held = deque(maxlen=self.capacity)

    def drop_held(self, keys: Sequence[bytes]) -> None:
        """An earlier process has sent these, or given them up: of several alike, the earliest."""
        held = self._held
        if held is None:
            return
        for key in keys:
            place = next((n for n, (known, _) in enumerate(held) if known == key), None)
            if place is not None:
                del held[place]

    def release(self) -> list[tuple[bytes, Any]]:
        """What was held and not dropped, the earliest first; from now on messages are sent."""
        held, self._held = self._held, None
        return list(held or ())

    def waiting(self) -> list[tuple[bytes, Any]]:
        """What has not left yet, with its keys, the earliest first."""
        return [(each.key, each.message) for each in self._entries if each.key]

    def put(self, message: Any, key: bytes = b"") -> None:
        """Takes a message; never waits."""
        if self._held is not None:
            self._held.append((key, message))
            return
        if len(self._entries) >= self.capacity:
            self._note([self._entries.popleft()])
            self.results["dropped"] += 1
        self._entries.append(_Entry(message, asyncio.get_running_loop().time(), key))
        self._idle.clear()
        self._news.set()

    def offer(self, message: Any) -> None:
        """Takes a message that will be put in again in any case, unless the queue is half full.

        So what is repeated never pushes out what is new.
        """
        if self._held is not None:
            return
        if 2 * len(self._entries) < self.capacity:
            self.put(message)

    def start(self) -> None:
        """Begins to send, in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def empty(self, seconds: float) -> None:
        """Waits until all has left, as far as the time allows."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def stop(self, grace_seconds: float) -> None:
        """Sends what waits, as far as the time allows; the rest is counted as dropped."""
        if self._task is None:
            return
        await self.empty(grace_seconds)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if self._entries and self.settled is not None:
            self._entries.clear()  # the next process sends them
        if self._entries:
            self._log.warning(
                "alerts_undelivered",
                sink=self.name,
                place=self.place,
                messages=len(self._entries),
            )
        self.results["dropped"] += len(self._entries)
        self._entries.clear()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            while self._entries:
                await self._deliver()
            self._news.clear()
            self._idle.set()

    async def _deliver(self) -> None:
        """Sends the oldest messages, and tries until they arrive or are given up."""
        loop = asyncio.get_running_loop()
        pause = self._backoff.first_seconds
        entries: list[_Entry] = []
        while True:
            # What waits is looked at anew each time: meanwhile the oldest may be dropped.
            entries = [self._entries[n] for n in range(min(self._lump, len(self._entries)))]
            if not entries:
                return
            try:
                with traced(self._tracer, "delivery", sink=self.name, messages=len(entries)):
                    await self._sink.send([entry.message for entry in entries])
            except DeliveryError as problem:
                self._log_failure(str(problem))
                before = loop.time() - self._backoff.give_up_seconds
                gone = [each for each in entries if each.at <= before or not problem.again]
                if gone:
                    self._settle(gone, "failed")
                    return
            except Exception as error:  # noqa: BLE001
                # A fault of ours must not end the task: what follows may well arrive.
                self._log_failure(type(error).__name__, error)
                self._settle(entries, "failed")
                return
            else:
                now = loop.time()
                for entry in entries:
                    self.latency.observe(now - entry.at)
                self._settle(entries, "ok")
                self._log_recovery()
                return
            self.retries += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._backoff.most_seconds)

    def _log_failure(self, reason: str, error: Exception | None = None) -> None:
        """It fails: a line in the log, unless the last one is young."""
        now = asyncio.get_running_loop().time()
        if self._logged_at is not None and now - self._logged_at < LOG_SECONDS:
            return
        self._logged_at, self._logged_failure = now, True
        self._log.warning(
            "alerts_failing",
            sink=self.name,
            place=self.place,
            reason=reason,
            waiting=len(self._entries),
            lost=self._lost,
            exc_info=error,
        )

    def _log_recovery(self) -> None:
        """It works: a line in the log, where the last one says something else."""
        if self._logged_failure:
            self._logged_failure = False
            self._log.info(
                "alerts_recovered", sink=self.name, place=self.place, lost=self._lost
            )

    @property
    def failing(self) -> bool:
        """True from a delivery that failed until one arrives."""
        return self._logged_failure

    @property
    def _lost(self) -> int:
        """Messages that never arrived, since the start."""
        return self.results["failed"] + self.results["dropped"]

    def _settle(self, entries: Sequence[_Entry], result: str) -> None:
        """The entries leave the queue, but for those that were dropped meanwhile."""
        self._note(entries)
        done = {id(entry) for entry in entries}
        while self._entries and id(self._entries[0]) in done:
            self._entries.popleft()
            self.results[result] += 1

    def _note(self, entries: Sequence[_Entry]) -> None:
        """Tells the journal of messages that have left, but for those that are repeated in any case."""
        if self.settled is not None:
            keys = [entry.key for entry in entries if entry.key]
            if keys:
                self.settled(self.id, keys)
