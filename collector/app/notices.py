"""Log lines that time brings: what specs match on, a new agent, a change of one, a spec that judges nothing, an accepted call that is harmful again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from collector.calls.inventory.inventory import Inventory
from collector.sinks.log import LogSink
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log
from monitor.aggregate.totals import OVERFLOW
from monitor.engine import Monitor
from monitor.limits import SECOND
from monitor.session.spec_binding import SpecBinder

__all__ = ["Notices"]

INTRODUCED_AFTER_NS: Final = 2 * SECOND
"""A new agent is logged when it has had time to show more than one call."""
UNMATCHED_AFTER_NS: Final = 600 * SECOND
"""A spec that no session has matched is logged after this time, if there were sessions."""


class Notices:
    """Writes each notice once.

    Args:
        monitor: its specs, and the sessions that they have matched.
        seen: the agents that were seen.
        sink: words the lines.
        stats: counts changes of agents.
        clock: Unix nanoseconds.
    """

    def __init__(
        self,
        monitor: Monitor,
        seen: Inventory,
        sink: LogSink,
        stats: Stats,
        clock: Callable[[], int],
    ) -> None:
        self._monitor = monitor
        self._seen = seen
        self._sink = sink
        self._stats = stats
        self._clock = clock
        self._unmatched_ns = clock() + UNMATCHED_AFTER_NS
        self._shown: SpecBinder | None = None
        """The specs that were logged."""

    def specs_changed(self) -> None:
        """Other specs are in use: they get time to match a session."""
        self._unmatched_ns = self._clock() + UNMATCHED_AFTER_NS

    def tick(self, now: int) -> None:
        """Writes what is due."""
        self._tell_matches()
        self._introduce(now)
        self._log_changes(now)
        self._tell_unmatched(now)
        self._tell_expired()

    def _tell_matches(self) -> None:
        """One line for the specs in use, which says what they match on."""
        binder = self._monitor.binder
        if binder is not self._shown:
            self._shown = binder
            if binder.judges:
                self._sink.specs_match(judge.spec for judge in binder.judges.values())

    def _introduce(self, now: int) -> None:
        """One line for each agent seen for the first time, once its first calls have come."""
        new = self._seen.new
        while new and new[0].first_ns + INTRODUCED_AFTER_NS <= now:
            agent = new.pop(0)
            agent.is_introduced = True
            name = next(iter(agent.agents), "")
            judges = self._monitor.binder.bind(agent.attributes, name)
            self._sink.introduce(agent, [judge.spec.id for judge in judges])

    def _log_changes(self, now: int) -> None:
        """One line for each change of an agent that was introduced."""
        for agent in self._seen.changed(now):
            for change in agent.take_unlogged():
                self._stats.count("agent_changes", change.kind)
                self._sink.agent_changed(agent, change)

    def _tell_unmatched(self, now: int) -> None:
        """One line for each spec that looks healthy and judges nothing: its `match` may be mistyped."""
        pairs = self._monitor.totals.pairs
        if now < self._unmatched_ns or not pairs:
            return
        self._unmatched_ns = sys.maxsize
        matched = {key[1] for key in pairs}
        if OVERFLOW in matched:
            return  # which specs these sessions had is not known
        for spec_id, judge in self._monitor.binder.judges.items():
            if spec_id not in matched:
                self._sink.unmatched(judge.spec, UNMATCHED_AFTER_NS / SECOND)

    def _tell_expired(self) -> None:
        """One line for each accepted call that is harmful again from now on."""
        while self._monitor.expired:
            spec, entry = self._monitor.expired.pop(0)
            log.warning(
                "acceptance_expired",
                spec=spec.id,
                file=spec.file,
                symbol=entry.symbol,
                state=entry.state,
                who=entry.who,
                until=entry.until.isoformat(),
            )
