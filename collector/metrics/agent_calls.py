"""How the calls of each agent come: with their arguments, or without.

Arguments that vanish for one agent of many change little in the sums of a service. A condition on them is not checked
any more, so each agent has counters of its own, and AgentMonitorArgumentsMissing looks at them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from collector.calls.inventory.inventory import Inventory
from collector.telemetry.counters import MetricReading
from monitor.aggregate.totals import AGENT_CHARACTERS_MAX, OVERFLOW

__all__ = ["AGENTS_MAX", "AgentCalls"]

AGENTS_MAX = 2_000
"""Agents with series of their own, in all namespaces; those that are seen later are one."""


class AgentCalls:
    """The agents that were seen, as metrics.

    Args:
        seen: the agents.
        namespaced: whether /metrics has the label `namespace`.
    """

    def __init__(self, seen: Inventory, *, namespaced: bool = True) -> None:
        self._seen = seen
        self._namespaced = namespaced

    def readings(self) -> Iterator[MetricReading]:
        """Calls by agent, and by what is known of their arguments."""
        found: Counter[tuple[str, str, str]] = Counter()
        agents: set[tuple[str, str]] = set()
        for record in self._seen:
            namespace = record.namespace[:AGENT_CHARACTERS_MAX] if self._namespaced else ""
            for name, run in record.runs():
                who = name[:AGENT_CHARACTERS_MAX], namespace
                if who not in agents and len(agents) >= AGENTS_MAX:
                    who = OVERFLOW, OVERFLOW
                agents.add(who)
                found[(*who, "known")] += run.known
                found[(*who, "missing")] += run.missing
        yield MetricReading("agent_calls", sorted(found.items()))
