"""Takes the time: final verdicts, ends of sessions and pages depend on it, so it must go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from collector.app.fault_counter import FaultCounter
from collector.telemetry.clock import ClockWatch, Standstill
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log
from monitor.engine import Monitor
from monitor.limits import SECOND

if TYPE_CHECKING:
    from collector.restart.kept_state import KeptState

__all__ = ["ClockChanges", "Pauses", "Step", "Ticker"]

TICK_SECONDS = 0.25
"""How late a final verdict or the end of a session may be noticed."""
PAUSE_NS: Final = 5 * SECOND
"""Senders wait longer than this for an answer, and so does the kernel's queue of connections."""

Step = Callable[[int], None]
"""Does what is due, at a time in Unix nanoseconds."""


class Ticker:
    """Takes its steps four times a second.

    Args:
        clock: Unix nanoseconds.
        steady: nanoseconds of a clock that nobody sets.
        watching: steps that are taken even after the process stood still, before what was sent meanwhile is read.
        going_on: the others.
        work: does a part of what one of them would do at once, and tells whether there is more. What has arrived is
            read between two parts.
        faults: counts a step that fails; the others are taken.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        steady: Callable[[], int],
        watching: Sequence[Step],
        going_on: Sequence[Step],
        work: Callable[[], bool],
        faults: FaultCounter,
    ) -> None:
        self._clock = clock
        self._steady = steady
        self._watching = watching
        self._going_on = going_on
        self._work = work
        self._faults = faults
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Time goes on from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Time goes on no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def step(self) -> None:
        """Time has passed."""
        self._take(self._watching)
        self._take(self._going_on)

    async def _run(self) -> None:
        standstill = Standstill(self._steady)
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._take(self._watching)
            if standstill.is_over():
                for _ in iter(self._has_more, False):
                    await asyncio.sleep(0)
                self._take(self._going_on)

    def _has_more(self) -> bool:
        try:
            return self._work()
        except Exception as error:  # noqa: BLE001
            self._faults.report("time could not go on", error)
            return False

    def _take(self, steps: Sequence[Step]) -> None:
        now = self._clock()
        for step in steps:
            try:
                step(now)
            except Exception as error:  # noqa: BLE001
                self._faults.report("time could not go on", error)


class ClockChanges:
    """A clock that was set ends no session, and is logged.

    Args:
        watch: notices it; None for a clock that is right whatever it says.
        monitor: is told.
        state: is told; None if none is kept.
        stats: counts it.
    """

    def __init__(
        self, watch: ClockWatch | None, monitor: Monitor, state: KeptState | None, stats: Stats
    ) -> None:
        self._watch = watch
        self._monitor = monitor
        self._state = state
        self._stats = stats

    def tick(self, now: int) -> None:
        """Looks again."""
        by = self._watch.moved() if self._watch is not None else 0
        if by:
            self._stats.count("clock_jumps")
            log.warning("clock_moved", seconds=round(by / SECOND, 3))
            if self._state is not None:
                self._state.clock_moved(by, now)
            self._monitor.clock_moved(by, now)


class Pauses:
    """A process that was stopped for a while has let senders wait, who may have given up.

    Args:
        steady: nanoseconds of a clock that nobody sets.
        monitor: is told what it may have missed.
    """

    def __init__(self, steady: Callable[[], int], monitor: Monitor) -> None:
        self._steady = steady
        self._monitor = monitor
        self._looked_ns = 0
        """When it was last looked at, by the steady clock; 0 before."""

    def begin(self) -> None:
        """Requests come from now on: a pause counts."""
        self._looked_ns = self._steady()

    def tick(self, now: int) -> None:
        """Looks again."""
        steady, before = self._steady(), self._looked_ns
        self._looked_ns = steady
        if before and steady - before >= PAUSE_NS:
            log.warning("paused", seconds=round((steady - before) / SECOND, 3))
            self._monitor.gaps.missed(now - (steady - before), now)
