"""Counters of parts of the process other than the monitor and `Stats`, as they outlive it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from collector.config.spec_reload import Reloads
from collector.decide.service import DecideService
from collector.sinks.sink_dispatch import SinkDispatch

if TYPE_CHECKING:
    from collector.forward.next_hops import NextHops

__all__ = ["CountersOfParts", "StatefulParts"]


class StatefulParts(NamedTuple):
    """Parts of the service beside the monitor that go on after a restart."""

    alerts: SinkDispatch
    reloads: Reloads
    decisions: DecideService
    forwarding: NextHops | None
    """None without next hops."""


class CountersOfParts:
    """Reads and sets them: deliveries by sink, what was withheld, reloads, decisions, requests by next hop."""

    def __init__(self, parts: StatefulParts) -> None:
        self._alerts, self._reloads, self._decisions, self._forwarding = parts

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
