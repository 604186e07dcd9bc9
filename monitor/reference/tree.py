"""The prefix tree of some runs, with counts; pruned to the most frequent nodes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from monitor.reference.runs import SeenRun
from monitor.reference.settings import NODES_MAX, VARIANTS_MAX
from monitor.spec.learnt_reference import PrefixNode

__all__ = ["PrefixTree"]


class PrefixTree:
    """Grows run by run; the order of the runs makes no difference."""

    def __init__(self, runs: Iterable[SeenRun]) -> None:
        self._children: list[dict[str, int]] = [{}]
        self._runs = [0]
        self._ends = [0]
        self._digests: list[set[str]] = [set()]
        for run in runs:
            self._add(run)

    def _add(self, run: SeenRun) -> None:
        node = 0
        self._runs[0] += 1
        for call in run.calls:
            below = self._children[node]
            child = below.get(call.tool)
            if child is None:
                child = below[call.tool] = len(self._runs)
                self._children.append({})
                self._runs.append(0)
                self._ends.append(0)
                self._digests.append(set())
            node = child
            self._runs[node] += 1
            if len(self._digests[node]) <= VARIANTS_MAX:
                self._digests[node].add(call.digest)
        self._ends[node] += 1

    def leaves_others(self, run: SeenRun) -> bool:
        """Whether a run of this tree takes a way that no other run takes."""
        node = 0
        for call in run.calls:
            node = self._children[node][call.tool]
            if self._runs[node] <= 1:
                return True
        return False

    def leaves(self, run: SeenRun) -> bool:
        """Whether another run takes a way that no run of this tree takes."""
        node: int | None = 0
        for call in run.calls:
            node = self._children[node].get(call.tool) if node is not None else None
        return node is None

    def nodes(self, numbers: Mapping[str, int]) -> tuple[PrefixNode, ...]:
        """The nodes of most runs, parents before children; `numbers` are those of the tools."""
        found: list[PrefixNode] = []
        waiting: list[tuple[int, int, str, int, int]] = [(-self._runs[0], -1, "", 0, 0)]
        while waiting and len(found) < NODES_MAX:
            runs, parent, tool, _, node = heapq.heappop(waiting)
            own = len(found)
            digests = self._digests[node]
            varies = len(digests) > VARIANTS_MAX or "" in digests
            known = None if varies else frozenset(digests)
            number = numbers[tool] if node else -1
            found.append(PrefixNode(parent, number, -runs, self._ends[node], known))
            for name, child in self._children[node].items():
                heapq.heappush(waiting, (-self._runs[child], own, name, 0, child))
        return tuple(found)
