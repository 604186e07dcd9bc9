"""The last scrape: final counters reach whoever scrapes, before a process ends whose counters nobody continues."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from collector.metrics.service import MetricsApp
from collector.telemetry.logs import log

__all__ = ["LastScrape"]


class LastScrape:
    """Waits for it, where somebody scrapes.

    Args:
        app: answers scrapes; from now on it counts calls as `calls` does.
        seconds: for which each wait lasts at most; 0: it is not waited for.
        calls: gives the number of tool calls so far.
        finalise: makes the verdicts so far final.
    """

    def __init__(
        self,
        app: MetricsApp,
        seconds: float,
        calls: Callable[[], int],
        finalise: Callable[[], None],
    ) -> None:
        self.app = app
        self._seconds = seconds
        self._calls = calls
        self._finalise = finalise
        self._is_due = False
        """True once the process ends: each scrape may be the last one."""
        self._is_scraped = True
        """False if it is waited for in vain."""
        app.count = self._count

    def _count(self) -> int:
        """A scrape begins: the last ones have final verdicts of all calls so far, whose number this gives."""
        if self._is_due:
            self._finalise()
        return self._calls()

    def begin(self) -> None:
        """The process ends, and no other one goes on with its counters."""
        self._is_due = True

    async def wait(self) -> None:
        """Waits until the final counters are scraped. Calls are taken meanwhile."""
        if not self._seconds or not self.app.is_scraped:
            return
        self._is_scraped = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await self.app.next_scrape()
                self._is_scraped = True

    async def wait_for_rest(self, seconds: float) -> None:
        """Calls that came behind the last scrape: waits for one more, and logs how many calls no scrape has."""
        app = self.app
        if not self._is_due or not self._seconds or not app.is_scraped:
            return
        if self._is_scraped and app.counted < self._calls():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await app.next_scrape()
        missing = self._calls() - app.counted
        if missing or not self._is_scraped:
            log.warning("counters_not_scraped", waited_seconds=self._seconds, calls=missing)
