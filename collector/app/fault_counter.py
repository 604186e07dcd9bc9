"""Faults of ours: none of them may keep a sender, a sink or the time from going on."""

from __future__ import annotations

from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log

__all__ = ["FaultCounter"]


class FaultCounter:
    """Counts them by type, and logs the first of each.

    Args:
        stats: has the counter `internal_errors`.
    """

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._log = log
        self._reported: set[tuple[str, str]] = set()

    def report(self, what: str, error: Exception) -> None:
        """Counts a fault; the first of its type is logged with its traceback.

        Args:
            what: could not be done.
            error: why.
        """
        name = type(error).__name__
        if (what, name) not in self._reported:
            self._reported.add((what, name))
            self._log.error(what, error=name, exc_info=error)
        self._stats.count("internal_errors", name)

    def of_decision(self, error: Exception) -> Refusal:
        """A fault kept a question from being answered: what its sender is told."""
        self.report("a decision could not be made", error)
        return Refusal(ExportStatus.INTERNAL, "internal error; see the service's log")
