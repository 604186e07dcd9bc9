"""Limits how many log lines one agent, and one namespace, may cause; counts what is left out.

Two token buckets must have a token for a line: that of its namespace, agent and spec, and that of
its namespace. The first keeps one bad agent from filling the log, the second an agent that invents
names. No clock: `now` is an argument, in Unix nanoseconds.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

__all__ = ["LEFT_OUT_LINES", "NAMESPACES_MAX", "PAIRS_MAX", "LineLimit", "OmittedLines"]

PAIRS_MAX: Final = 1_024
"""Buckets of agents under specs; beyond it the one that was used least recently is given up."""

NAMESPACES_MAX: Final = 256
"""Buckets of namespaces; likewise."""

LEFT_OUT_LINES: Final = 16
"""Lines at a time that say how many were left out."""

SECOND: Final = 1_000_000_000

Pair = tuple[str, str, str]
"""Namespace, agent, spec."""


class OmittedLines(NamedTuple):
    """So many lines were not written."""

    namespace: str
    agent: str | None
    """None, and no spec, for all agents of a namespace whose buckets were given up."""
    spec: str | None
    lines: int


class _Bucket:
    """A token bucket, full at first."""

    __slots__ = ("_most", "_per_second", "_since", "_tokens")

    def __init__(self, per_second: float, burst_seconds: float, now: int) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second * burst_seconds)
        self._tokens = self._most
        self._since = now

    def has(self, now: int) -> bool:
        """Whether there is a token."""
        # A clock that is set back neither gives tokens nor takes any.
        passed = max(0, now - self._since) / SECOND
        self._since = now
        self._tokens = min(self._most, self._tokens + passed * self._per_second)
        return self._tokens >= 1.0

    def pay(self) -> None:
        self._tokens -= 1.0


class LineLimit:
    """The buckets of one kind of line.

    Args:
        per_second: lines of one agent under one spec.
        namespace_per_second: lines of one namespace.
        burst_seconds: what has been quiet may write the lines of so many seconds at once.
    """

    def __init__(
        self, per_second: float, namespace_per_second: float, burst_seconds: float
    ) -> None:
        self._per_second = per_second
        self._namespace_per_second = namespace_per_second
        self._burst_seconds = burst_seconds
        self._pairs: OrderedDict[Pair, _Bucket] = OrderedDict()
        self._namespaces: OrderedDict[str, _Bucket] = OrderedDict()
        self._left_out: OrderedDict[Pair, int] = OrderedDict()
        """Lines that were left out and not counted in the log yet; the pairs are those with a bucket."""
        self._given_up: OrderedDict[str, int] = OrderedDict()
        """Namespace -> the same of pairs whose buckets were given up."""

    def allows(self, namespace: str, agent: str, spec: str, now: int) -> bool:
        """Whether a line may be written; one that may not is counted."""
        pair = (namespace, agent, spec)
        own, all_of_it = self._pair(pair, now), self._namespace(namespace, now)
        if own.has(now) and all_of_it.has(now):
            own.pay()
            all_of_it.pay()
            return True
        self._left_out[pair] = self._left_out.get(pair, 0) + 1
        return False

    def left_out(self, now: int) -> list[OmittedLines]:
        """Counts of left-out lines that may be logged by now; each is returned once."""
        found: list[OmittedLines] = []
        while self._given_up and len(found) < LEFT_OUT_LINES:
            namespace, count = self._given_up.popitem(last=False)
            found.append(OmittedLines(namespace, None, None, count))
        for pair in list(self._left_out):
            if len(found) >= LEFT_OUT_LINES:
                break
            bucket = self._pairs[pair]
            if bucket.has(now):
                bucket.pay()
                found.append(OmittedLines(*pair, self._left_out.pop(pair)))
        return found

    def rest(self) -> list[OmittedLines]:
        """All counts that were not logged, at the end: by namespace."""
        for pair, count in self._left_out.items():
            self._give_up(pair[0], count)
        self._left_out.clear()
        found = [
            OmittedLines(each, None, None, count) for each, count in self._given_up.items()
        ]
        self._given_up.clear()
        return found

    def _pair(self, pair: Pair, now: int) -> _Bucket:
        bucket = self._pairs.get(pair)
        if bucket is not None:
            self._pairs.move_to_end(pair)
            return bucket
        bucket = self._pairs[pair] = _Bucket(self._per_second, self._burst_seconds, now)
        if len(self._pairs) > PAIRS_MAX:
            gone, _ = self._pairs.popitem(last=False)
            count = self._left_out.pop(gone, 0)
            if count:
                self._give_up(gone[0], count)
        return bucket

    def _namespace(self, namespace: str, now: int) -> _Bucket:
        bucket = self._namespaces.get(namespace)
        if bucket is not None:
            self._namespaces.move_to_end(namespace)
            return bucket
        bucket = _Bucket(self._namespace_per_second, self._burst_seconds, now)
        self._namespaces[namespace] = bucket
        if len(self._namespaces) > NAMESPACES_MAX:
            self._namespaces.popitem(last=False)
        return bucket

    def _give_up(self, namespace: str, count: int) -> None:
        """Counts by namespace, and by none where there are too many of them."""
        if namespace not in self._given_up and len(self._given_up) >= NAMESPACES_MAX:
            namespace = ""
        self._given_up[namespace] = self._given_up.get(namespace, 0) + count
