"""What operators do with sessions that run: have them judged under corrected specs, or end them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from collector.config.spec_reload import ReloadedSessions
from monitor.aggregate.totals import SessionFinished
from monitor.engine import Monitor
from monitor.records import SessionKey, Verdict

__all__ = ["RunningSessions"]

LUMP: Final = 200
"""Sessions looked at before spans have their turn: a millisecond, and ten where each is judged again."""

REJUDGE: Final = "rejudge"
END: Final = "end"


class RunningSessions:
    """Live sessions, as far as operators change them.

    Args:
        monitor: has them.
        clock: Unix nanoseconds.
        deliver: takes verdicts that changed.
        finished: takes sessions that ended.
        keep: writes to the journal what is done, so that a restart does it again: time, action, session, namespace.
            None if there is none.
    """

    def __init__(
        self,
        monitor: Monitor,
        clock: Callable[[], int],
        deliver: Callable[[Sequence[Verdict]], None],
        finished: Callable[[Sequence[SessionFinished]], None],
        keep: Callable[[int, str, str, str], None] | None,
    ) -> None:
        self._monitor = monitor
        self._clock = clock
        self._deliver = deliver
        self._finished = finished
        self._keep = keep

    async def after_reload(self, *, rejudge: bool) -> ReloadedSessions:
        """Counts the sessions under earlier versions of specs; with `rejudge` they go over to those in use.

        Under a learnt reference they keep theirs.
        """
        if rejudge:
            self._note(REJUDGE)
        kept = rejudged = 0
        for number, key in enumerate(self._monitor.reader.live_sessions(), start=1):
            if number % LUMP == 0:
                await asyncio.sleep(0)
            if rejudge and self._rejudge(key):
                rejudged += 1
            kept += self._monitor.reader.is_under_earlier_specs(key)
        if rejudged:
            # A snapshot in between may have some as they were.
            self._note(REJUDGE)
        return ReloadedSessions(kept, rejudged)

    def end(self, keys: Sequence[SessionKey]) -> int:
        """Ends those of the sessions that are live; returns how many there were."""
        now, ended = self._clock(), 0
        for key in keys:
            if self._end(key, now):
                self._note(END, key.id, key.namespace)
                ended += 1
        return ended

    def again(self, action: str, session: str, namespace: str) -> None:
        """What was done in an earlier process."""
        if action == END:
            self._end(SessionKey(namespace, session), self._clock())
        elif action == REJUDGE:
            for key in self._monitor.reader.live_sessions():
                self._rejudge(key)

    def _rejudge(self, key: SessionKey) -> bool:
        if not self._monitor.reader.is_under_earlier_specs(key):
            return False
        verdicts = self._monitor.rejudge(key, self._clock())
        if verdicts:
            self._deliver(verdicts)
        return True

    def _end(self, key: SessionKey, now: int) -> bool:
        events = self._monitor.corrections.dismiss(key, now)
        if events is None:
            return False
        news = self._monitor.news()
        if news:
            self._deliver(news)
        self._finished(events)
        return True

    def _note(self, action: str, session: str = "", namespace: str = "") -> None:
        if self._keep is not None:
            self._keep(self._clock(), action, session, namespace)
