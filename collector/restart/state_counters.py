"""Counters of parts of the process other than the monitor and `Stats`, as they outlive it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from collector.config.spec_reload import Reloads
from collector.decide.service import DecideService
from collector.sinks.alerts import Alerts

if TYPE_CHECKING:
    from collector.forward.next_hops import NextHops

__all__ = ["CountersOfParts"]


class CountersOfParts:
    """Reads and sets them.

    Args:
        alerts: deliveries by sink, and what was withheld.
        reloads: of specs.
        decisions: of the answers before calls.
        forwarding: requests by next hop; None without any.
    """

    def __init__(
        self,
        alerts: Alerts,
        reloads: Reloads,
        decisions: DecideService,
        forwarding: NextHops | None = None,
    ) -> None:
        self._forwarding = forwarding
        self._alerts = alerts
        self._reloads = reloads
        self._decisions = decisions

    def get(self) -> dict[str, Any]:
        """All of them, as plain data."""
        reloads = self._reloads
        return {
            "reloads": [reloads.succeeded, reloads.failed, reloads.errors],
            "decisions": self._decisions.kept(),
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
        reloads = self._reloads
        if "reloads" in found:
            reloads.succeeded, reloads.failed, reloads.errors = found["reloads"]
        self._decisions.set_kept(found.get("decisions", {}))
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
