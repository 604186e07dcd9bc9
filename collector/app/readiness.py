"""Whether the service does what it is there for: what `/-/ready` says between start and stop.

It is not ready while nothing is judged: senders are refused for lack of room, and no span was taken for a while.
If that is set, nor while a sink of alerts fails. If it lasts, it is not healthy either: what fills the memory does not
go by itself, so the process is to be restarted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collector.config.settings.ready import ReadySettings
from collector.net.health import Health
from collector.sinks.queue import SinkQueue
from collector.telemetry.counters import Stats

__all__ = ["Readiness"]

STUCK_TIMES: Final = 12
"""Multiple of `full_seconds` without an accepted span, while senders are refused, after which the
process is unhealthy: two minutes by default."""

_SECOND: Final = 1_000_000_000


class Readiness:
    """Tells `Health` why the service is not ready.

    Args:
        settings: when it is not.
        health: is told.
        stats: what was refused, and what was taken.
        queues: of the sinks of alerts.
    """

    def __init__(
        self, settings: ReadySettings, health: Health, stats: Stats, queues: Sequence[SinkQueue]
    ) -> None:
        self._settings = settings
        self._health = health
        self._stats = stats
        self._queues = queues
        self._taken = self._refused = 0
        self._full_since: int | None = None
        """When the first sender was refused after the last span that was taken."""
        self._refused_at = 0

    def tick(self, now: int) -> None:
        """Looks again.

        Args:
            now: nanoseconds of a clock that nobody sets.
        """
        reasons = ["full"] if self._is_full(now) else []
        if self._settings.failing_sinks:
            reasons += sorted({f"{each.name} fails" for each in self._queues if each.failing})
        self._health.faults = ", ".join(reasons)
        self._health.stuck = "full" if self._is_stuck(now) else ""

    def _is_stuck(self, now: int) -> bool:
        wait, since = self._settings.full_seconds, self._full_since
        return (
            wait is not None
            and since is not None
            and now - since >= STUCK_TIMES * wait * _SECOND
        )

    def _is_full(self, now: int) -> bool:
        wait, stats = self._settings.full_seconds, self._stats
        if wait is None:
            return False
        taken = sum(n for (_, result), n in stats.spans.items() if result == "accepted")
        refused = sum(n for key, n in stats.counts.items() if key[0] == "requests_refused")
        if refused != self._refused:
            self._refused_at = now
        # Who is taken out of a Service is asked by nobody: without refusals it has room again.
        if taken != self._taken or now - self._refused_at > wait * _SECOND:
            self._full_since = None
        elif refused != self._refused and self._full_since is None:
            self._full_since = now
        self._taken, self._refused = taken, refused
        return self._full_since is not None and now - self._full_since >= wait * _SECOND
