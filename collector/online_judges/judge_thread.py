"""The thread of the judges, with an event loop of its own: neither transcripts nor answers hold up verdicts.

Invariants:

- `put` never waits: beyond `queue_max` sessions, or `bytes_max` bytes of them, it says no.
- What a session brings, its judgements and its end, is told on the event loop of the service.
- What goes wrong with one session is that session's alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from collector.online_judges.judge_job import JudgeJob
from collector.online_judges.judge_panel import JudgePanel, PanelAnswer
from judges.judging import SessionCase

__all__ = ["JudgeThread", "JudgesReceiver"]


class JudgesReceiver(Protocol):
    """Who is told what judges said, on the event loop of the service."""

    def judged(self, job: JudgeJob, answer: PanelAnswer) -> None:
        """One judgement, of the session or of a canary that came with it."""
        ...

    def failed(self, job: JudgeJob, error: Exception) -> None:
        """A session could not be judged, for a fault of ours."""
        ...


class JudgeThread:
    """Judges sessions, some at once.

    Args:
        panel: who judges.
        case_of: makes a session's transcript.
        receiver: who is told.
        queue_max: sessions that may wait.
        bytes_max: bytes of sessions that may wait.
        at_once: sessions that are judged together.
    """

    def __init__(
        self,
        panel: JudgePanel,
        case_of: Callable[[JudgeJob], SessionCase],
        receiver: JudgesReceiver,
        queue_max: int,
        bytes_max: int,
        at_once: int,
    ) -> None:
        self.waiting = 0
        """Sessions that wait or are being judged."""
        self._panel = panel
        self._case_of = case_of
        self._receiver = receiver
        self._queue_max = queue_max
        self._bytes = 0
        self._bytes_max = bytes_max
        self._at_once = at_once
        self._loop = asyncio.new_event_loop()
        self._jobs: asyncio.Queue[JudgeJob] = asyncio.Queue()
        self._service: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._work: asyncio.Task[None] | None = None

    # --- on the event loop of the service --------------------------------------------------------

    def start(self) -> None:
        """Begins to judge, for the running loop."""
        self._service = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="judges", daemon=True)
        self._thread.start()

    def put(self, job: JudgeJob) -> bool:
        """Takes a session; False if there is no room."""
        size = job.size
        if self.waiting >= self._queue_max + self._at_once:
            return False
        if self.waiting and self._bytes + size > self._bytes_max:
            return False
        self.waiting += 1
        self._bytes += size
        self._loop.call_soon_threadsafe(self._jobs.put_nowait, job)
        return True

    def stop(self, seconds: float) -> None:
        """Gives up what waits, and ends the thread; waits for it for so long."""
        if self._thread is None:
            return
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(seconds)
        self._thread = None

    def _over(self, size: int) -> None:
        self.waiting -= 1
        self._bytes -= size

    # --- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        with (
            asyncio.Runner(loop_factory=lambda: self._loop) as runner,
            suppress(asyncio.CancelledError),
        ):
            runner.run(self._judge_all())

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    async def _judge_all(self) -> None:
        self._work = asyncio.current_task()
        try:
            await asyncio.gather(*(self._judge_some() for _ in range(self._at_once)))
        finally:
            await self._panel.close()

    async def _judge_some(self) -> None:
        while True:
            job = await self._jobs.get()
            try:
                async for answer in self._panel.judge(self._case_of(job)):
                    self._tell(self._receiver.judged, job, answer)
            except Exception as error:  # noqa: BLE001 - it is counted, and the next one is judged
                self._tell(self._receiver.failed, job, error)
            self._tell(self._over, job.size)

    def _tell(self, whom: Callable[..., None], *what: object) -> None:
        if self._service is not None:
            with suppress(RuntimeError):  # the service's loop is closed
                self._service.call_soon_threadsafe(whom, *what)
