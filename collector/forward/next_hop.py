"""One next hop: its queue, the attempts to empty it, and what becomes of them.

Idea: the pauses between attempts belong to the next hop, not to single messages. After an attempt that may be
retried, nothing is sent for a while, then one message at a time until one is taken. Pauses grow exponentially with
full jitter (uniform from 0 to the bound), and are never shorter than the next hop asks for.

Invariants:

- `offer` returns at once. A next hop that hangs holds up its own queue, and the senders that `sync` lets wait for it:
  `SYNC_MAX` of them, and one at a time from the first failure on. The others are refused at once.
- Each message that is offered is counted once in `counts.results`: ok, partial, refused or dropped. One that `send_now` may
  not deliver is its sender's again, and counted in `counts.retries`.
- A message that fails goes behind the others, so one that the next hop never takes does not block them.
- The log has at most one line a minute of each kind about a next hop.

Example: the next hop is down for ten minutes. Its queue fills up; what does not fit is counted as dropped
(`queue_full`) or refused to its sender, as `on_full` says. An attempt at most every 30 s tries whether it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, Protocol

from collector.config.settings.forward import NextHopSettings
from collector.forward.counts import Counts
from collector.forward.encoding import encode
from collector.forward.message import ForwardMessage, ForwardReply
from collector.forward.queue import ForwardQueue
from collector.forward.transcode import TranscodeError
from collector.receive.request import Encoding
from collector.receive.status_codes import ExportStatus
from collector.telemetry.logs import log

__all__ = ["Destination", "NextHopSender"]

IN_FLIGHT_MAX: Final = 8
"""Messages that are on their way to one next hop at a time."""
SYNC_MAX: Final = 128
"""Senders that wait for one next hop at a time."""
FIRST_PAUSE_SECONDS: Final = 0.5
PAUSE_SECONDS_MAX: Final = 30.0
"""Bounds of the pause after the first failure, and after many."""
FAILURES_MAX: Final = 16
"""Failures that are counted. The pause has reached its bound long before."""
WAIT_SECONDS_MAX: Final = 300.0
"""Longest time that a next hop may ask us to wait."""
INLINE_BYTES_MAX: Final = 16 * 1024
"""Bytes of a body that is converted on the event loop; a larger one is converted in a thread."""
LOG_SECONDS: Final = 60.0
WORDS_MAX: Final = 200
"""Characters of a next hop's answer in the log."""


class NextHopSender(Protocol):
    """Sends to one next hop."""

    encodings: frozenset[Encoding]
    """Encodings that the next hop takes."""

    async def prepare(self) -> None:
        """Reads certificates and credentials.

        Raises:
            UnusableFileError: a file that the settings name.
        """

    async def send(self, message: ForwardMessage) -> ForwardReply:
        """Makes one attempt, within the next hop's timeout."""

    async def close(self) -> None:
        """Closes its connections."""


class Destination:
    """Sends messages to one next hop.

    Args:
        hop: its settings.
        sender: reaches it.
        queue: of its messages.
        random: draws the pauses.
    """

    def __init__(
        self,
        hop: NextHopSettings,
        sender: NextHopSender,
        queue: ForwardQueue,
        random: Random | None = None,
    ) -> None:
        self.hop = hop
        self.name = hop.label
        self.queue = queue
        self.counts = Counts(hop.signals)
        self.before = Counts(hop.signals)
        """Counts of earlier processes while their requests are restored."""
        self.settled: Callable[[ForwardMessage, str, str], None] | None = None
        """Called for each message that is in the journal and need not be sent any more, with its result and, where it
        was dropped, the reason; both are counted by then."""
        self.is_up = True
        """False from an attempt that failed until one is answered."""
        self._sender = sender
        self._random = random or Random()  # noqa: S311 - it spreads attempts in time
        self._in_flight: dict[asyncio.Task[None], ForwardMessage] = {}
        """Attempts that have not ended."""
        self._waiting = 0
        """Senders that wait for the answer."""
        self._failures = 0
        """Attempts that failed one after the other; those that were made together count as one."""
        self._failed_at = 0.0
        self._not_before = 0.0
        """No attempt begins sooner, by the event loop's clock."""
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._logged: dict[str, float] = {}
        """Event -> when the last line was written."""
        self._logged_failure = False
        """The last line about failures says that it fails."""

    # --- what comes in -------------------------------------------------------------------------

    def offer(self, message: ForwardMessage, age_seconds: float = 0.0) -> None:
        """Takes a message if there is room for it, else drops and counts it.

        Args:
            message: for this next hop.
            age_seconds: how long ago it was accepted.
        """
        if self.queue.reserve(message.size):
            self.put(message, age_seconds)
        else:
            self.drop(message, "queue_full")

    def put(self, message: ForwardMessage, age_seconds: float = 0.0) -> None:
        """Takes a message whose size is reserved in the queue."""
        message.received = asyncio.get_running_loop().time() - age_seconds
        self.queue.put(message)
        self._idle.clear()
        self._news.set()

    # --- its life -------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Reads certificates and credentials.

        Raises:
            UnusableFileError: a file that the settings name.
        """
        await self._sender.prepare()

    def start(self) -> None:
        """Begins to send, in the running loop."""
        self._task = asyncio.create_task(self._run())

    async def stop(self, grace_seconds: float) -> None:
        """Sends what waits, as far as the time allows. What is left is logged; what no journal keeps is counted."""
        self._stopping.set()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_seconds):
                    await self._idle.wait()
            tasks = [self._task, *self._in_flight]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        left: Counter[bool] = Counter()
        for message in self.queue.drain():
            is_kept = message.place > 0
            left[is_kept] += 1
            if not is_kept:
                self.drop(message, "shutdown")
        if left[False]:
            log.warning("forward_undelivered", destination=self.name, requests=left[False])
        if left[True]:
            log.info("forward_kept", destination=self.name, requests=left[True])
        await self._sender.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._news.clear()
            if not len(self.queue) or len(self._in_flight) >= self._in_flight_max:
                await self._news.wait()
                continue
            await self._pause()
            message = self.queue.take()
            task = loop.create_task(self._deliver(message))
            self._in_flight[task] = message
            task.add_done_callback(self._ended)

    async def _pause(self) -> None:
        """Waits until an attempt may begin. The pause of a service that stops is cut to the first one."""
        loop = asyncio.get_running_loop()
        while (pause := self._not_before - loop.time()) > 0:
            if self._stopping.is_set():
                await asyncio.sleep(min(pause, FIRST_PAUSE_SECONDS))
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()

    @property
    def _in_flight_max(self) -> int:
        return 1 if self._failures else IN_FLIGHT_MAX

    def _ended(self, task: asyncio.Task[None]) -> None:
        message = self._in_flight.pop(task)
        if task.cancelled():  # before its first step, it runs no line of its own
            self.queue.put(message)
        if not self._in_flight and not len(self.queue):
            self._idle.set()
        self._news.set()

    # --- one attempt ----------------------------------------------------------------------------

    async def _deliver(self, message: ForwardMessage) -> None:
        """Makes one attempt. A message that is to be sent again goes behind the others."""
        began = asyncio.get_running_loop().time()
        try:
            await self._encode(message)
            reply = await self._sender.send(message)
        except TranscodeError:
            self.queue.settle(message)
            self.drop(message, "unreadable")
            return
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the task
            self._log("error", "forward_failed", error=type(error).__name__, exc_info=error)
            self.queue.settle(message)
            self.drop(message, "internal_error")
            return
        if reply.status.value.retryable:
            self._retry(message, reply, began)
            return
        self._answered()
        self.queue.settle(message)
        self._settle(message, reply)

    async def send_now(self, message: ForwardMessage) -> ForwardReply:
        """Makes one attempt with a message whose size is reserved, and frees it; its sender waits.

        Raises:
            TranscodeError: the message cannot be converted for this next hop.
        """
        if self._waiting >= (1 if self._failures else SYNC_MAX):
            self.queue.settle(message)
            self.counts.retries += 1
            return ForwardReply(ExportStatus.UNAVAILABLE, "it has not answered others yet")
        began = message.received = asyncio.get_running_loop().time()
        self._waiting += 1
        try:
            await self._encode(message)
            reply = await self._sender.send(message)
        except Exception as error:
            unreadable = isinstance(error, TranscodeError)
            self.drop(message, "unreadable" if unreadable else "internal_error")
            raise
        finally:
            self._waiting -= 1
            self.queue.settle(message)
        if reply.status.value.retryable:
            self._failed(reply, began, asyncio.get_running_loop().time())
            self.counts.retries += 1
        else:
            self._answered()
            self._settle(message, reply)
        return reply

    async def _encode(self, message: ForwardMessage) -> None:
        """Annotates and converts the body, once; a large one in a thread.

        Raises:
            TranscodeError: the official schema does not allow it.
        """
        encodings = self._sender.encodings
        if message.marks is None and message.encoding in encodings:
            return
        if len(message.body) <= INLINE_BYTES_MAX:
            encode(message, encodings)
        else:
            await asyncio.to_thread(encode, message, encodings)

    def _retry(self, message: ForwardMessage, reply: ForwardReply, began: float) -> None:
        now = asyncio.get_running_loop().time()
        self._failed(reply, began, now)
        if now - message.received >= self.hop.give_up_seconds:
            self.queue.settle(message)
            self.drop(message, "gave_up")
            return
        self.counts.retries += 1
        self.queue.put(message)

    def _failed(self, reply: ForwardReply, began: float, now: float) -> None:
        """Nothing is sent for a while."""
        if began >= self._failed_at or not self._failures:
            self._failures = min(self._failures + 1, FAILURES_MAX)
        self._failed_at = now
        most = min(FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1), PAUSE_SECONDS_MAX)
        asked = min(reply.wait_seconds, WAIT_SECONDS_MAX)
        # After the time that the next hop asks for, all its clients would come at once.
        pause = asked + self._random.uniform(0, most)
        self._not_before = max(self._not_before, now + pause)
        self.is_up = False
        if self._log("warning", "forward_failing", reason=reply.message[:WORDS_MAX]):
            self._logged_failure = True

    def _answered(self) -> None:
        """The next hop answers, whatever it says."""
        self._failures = 0
        self.is_up = True
        if self._logged_failure:
            self._logged_failure = False
            log.info("forward_recovered", destination=self.name, waiting=len(self.queue))

    def _settle(self, message: ForwardMessage, reply: ForwardReply) -> None:
        """Counts a message that the next hop took or refused."""
        signal = message.signal
        self.counts.latency.observe(asyncio.get_running_loop().time() - message.received)
        if reply.status is not ExportStatus.OK:
            self.counts.count(signal, "refused")
            self._done(message, "refused")
            words = reply.message[:WORDS_MAX]
            self._log("warning", "forward_refused", signal=signal, reason=words)
            return
        result = "partial" if reply.rejected else "ok"
        self.counts.count(signal, result)
        self._done(message, result)
        self.counts.rejected[signal] += reply.rejected
        if reply.rejected or reply.message:
            words = reply.message[:WORDS_MAX]
            self._log(
                "warning",
                "forward_partial",
                signal=signal,
                rejected=reply.rejected,
                reason=words,
            )

    def drop(self, message: ForwardMessage, reason: str) -> None:
        """Gives a message up, and counts it."""
        self.counts.count(message.signal, "dropped", reason)
        self._done(message, "dropped", reason)
        if reason != "shutdown":  # which has a line of its own
            self._log("warning", "forward_dropped", reason=reason)

    def _done(self, message: ForwardMessage, result: str, reason: str = "") -> None:
        if message.place and self.settled is not None:
            self.settled(message, result, reason)

    def come_back(self) -> None:
        """All of earlier processes is counted: from now on there is one count."""
        self.counts.add(self.before)
        self.before = Counts(self.hop.signals)

    def _log(self, level: str, event: str, **fields: Any) -> bool:
        """Writes a line about this next hop, unless the last one of its kind is young; True if it does."""
        now = asyncio.get_running_loop().time()
        if now - self._logged.get(event, -LOG_SECONDS) < LOG_SECONDS:
            return False
        self._logged[event] = now
        write: Callable[..., None] = log.error if level == "error" else log.warning
        write(
            event,
            destination=self.name,
            waiting=len(self.queue),
            waiting_bytes=self.queue.bytes,
            **fields,
        )
        return True

    def outcomes(self) -> Iterator[tuple[tuple[str, str, str], int]]:
        """(name, signal, result) and the number of messages."""
        for (signal, result), count in self.counts.results.items():
            yield (self.name, signal, result), count
