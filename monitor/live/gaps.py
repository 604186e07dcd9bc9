"""Where calls may be missing: what a monitor is told of it, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from monitor.live.lifecycle import Lifecycle
from monitor.live.monitor_state import MonitorState
from monitor.live.session_facts import SessionFacts
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["Gaps"]

STALE_A_TICK: Final = 2_000
"""Sessions that look at the ledger again from one tick to the next."""
STALE_AT_ONCE: Final = 32
"""Sessions that do so in one go, where it is not left to the tick: under a millisecond."""


class Gaps:
    """The gaps in what a monitor sees."""

    def __init__(self, state: MonitorState, facts: SessionFacts, lifecycle: Lifecycle) -> None:
        self._state = state
        self._facts = facts
        self._lifecycle = lifecycle
        self._limits = state.limits
        self._table = state.table
        self._judging = state.judging_state
        self._ledger = state.judging_state.ledger
        self._sights = state.judging.sights
        self._left = STALE_A_TICK
        self._is_in_parts = False

    @property
    def doubts(self) -> Mapping[Cause, int]:
        """By cause: gaps in what was seen, and calls that may not be what they seem."""
        return self._ledger.counts

    @property
    def merged(self) -> int:
        """Times that two gaps in what was seen became one, because there were too many."""
        return self._ledger.merged

    def note(self, gap: Gap) -> None:
        """Calls may be missing in a time span. Sessions that it reaches allow for them from now on.

        The verdicts that change come with the sessions' next calls and ticks (`news`).
        """
        self._sights.note(gap)

    def lift(self, gap: Gap) -> None:
        """Takes `note` back: the calls have come after all, or were never made."""
        self._ledger.lift(gap)

    def missed(self, since: int, until: int, cause: Cause = Cause.OUTAGE) -> None:
        """Nothing was received between two times, in Unix nanoseconds: calls of that time may be missing.

        What was on its way at `since` is missing, too: calls that began up to a window before. A verdict that was
        provisional then waited for these, so it may change; one that was final does not.
        """
        began = max(0, since - self._limits.window_ns)
        self.note(Gap(cause, began, max(since, until), received_ns=began))

    def is_young(self, now: int) -> bool:
        """True while calls of a session that is seen for the first time may be missing: it may have begun in a gap."""
        return self._ledger.covers(now)

    def may_lack(self, namespace: str, since: int, until: int) -> bool:
        """True if spans of a tenant that were sent between two times, in Unix nanoseconds, may not have been taken."""
        return self._ledger.may_lack(namespace, since, until)

    def joined_until_ns(self) -> int:
        """Until when a session may have begun before the start, in Unix nanoseconds; 0 if none can."""
        return (
            0
            if self._limits.history_complete
            else self._judging.started_ns + self._limits.idle_ns
        )

    def look_again(self) -> None:
        """Has some of the sessions look at the ledger, after it has changed; none if `look_at_some` is asked to."""
        if not self._is_in_parts:
            self._look(STALE_A_TICK)
        self._left, self._is_in_parts = STALE_A_TICK, False

    def look_at_some(self) -> bool:
        """Does a little of what `look_again` would do at once. Between two of these, other work can be done.

        Returns:
            True if there is more of it to do.
        """
        self._is_in_parts = True
        self._look(min(STALE_AT_ONCE, self._left))
        return bool(self._state.stale) and self._left > 0

    def _look(self, most: int) -> None:
        """Has so many sessions look at the ledger, at most. The most recently active ones come first."""
        state, version = self._state, self._ledger.version
        if not state.stale and state.swept != version:
            state.stale, state.swept = [each.key for each in self._table.latest()], version
            state.stale.reverse()
        for _ in range(min(most, len(state.stale))):
            self._left -= 1
            session = self._table.live(state.stale.pop())
            if session is not None and session.ledger_version != version:
                news = self._sights.follow(session)
                if news:
                    self._lifecycle.queue(session, session.touched_ns)
                state.news += news
                self._facts.reconsider(session, session.touched_ns)
