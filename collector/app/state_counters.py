"""Counters of parts of the process other than the monitor and `Stats`, as they outlive it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from collector.config.spec_reload import Reloads
from collector.sinks.alerts import Alerts
from collector.state.journal import Journal

if TYPE_CHECKING:
    from collector.forward.forwarding import Forwarding

__all__ = ["CountersOfParts"]


class CountersOfParts:
    """Reads and sets them.

    Args:
        journal: its own records and errors.
        alerts: deliveries by sink, and what was withheld.
        reloads: of specs.
        forwarding: requests by next hop; None without any.
    """

    def __init__(
        self,
        journal: Journal,
        alerts: Alerts,
        reloads: Reloads,
        forwarding: Forwarding | None = None,
    ) -> None:
        self._journal = journal
        self._forwarding = forwarding
        self._alerts = alerts
        self._reloads = reloads

    def get(self) -> dict[str, Any]:
        """All of them, as plain data."""
        reloads = self._reloads
        return {
            "journal": {
                "records": dict(self._journal.records),
                "errors": self._journal.errors,
                "replayed": self._journal.replayed,
            },
            "reloads": [reloads.succeeded, reloads.failed, reloads.errors],
            "withheld": dict(self._alerts.pager.withheld),
            "forward": self._forwarding.counters() if self._forwarding is not None else {},
            "queues": {
                queue.id: {
                    "results": dict(queue.results),
                    "retries": queue.retries,
                    "latency": [list(queue.latency.counts), queue.latency.sum_seconds],
                }
                for queue in self._alerts.queues
            },
        }

    def set(self, found: Mapping[str, Any]) -> None:
        """Sets them; a sink that is new begins at 0."""
        reloads, journal = self._reloads, found.get("journal", {})
        _set(self._journal.records, journal.get("records", {}))
        self._journal.errors = journal.get("errors", self._journal.errors)
        self._journal.replayed = journal.get("replayed", self._journal.replayed)
        if "reloads" in found:
            reloads.succeeded, reloads.failed, reloads.errors = found["reloads"]
        _set(self._alerts.pager.withheld, found.get("withheld", {}))
        if self._forwarding is not None:
            self._forwarding.set_counters(found.get("forward", {}))
        for queue in self._alerts.queues:
            known = found.get("queues", {}).get(queue.id)
            if known is not None:
                _set(queue.results, known["results"])
                queue.retries = known["retries"]
                queue.latency.set(*known["latency"])


def _set(counter: Counter[str], found: Mapping[str, int]) -> None:
    """Sets counts; `update` would add them."""
    for key, count in found.items():
        counter[key] = count
