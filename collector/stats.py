"""The process' own health as plain counters; the exposition reads them, nothing here renders.

A counter is one dict update (a tenth of a microsecond). Names and labels are those of the
pipeline metrics: requests, spans, bytes, dropped spans, verdict latency, span lag.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Final

__all__ = ["SPAN_LAG_SECONDS", "VERDICT_LATENCY_SECONDS", "Histogram", "Stats", "Transport"]

Transport = str
"""grpc | http_proto | http_json"""

TRANSPORTS: Final = ("grpc", "http_proto", "http_json")
# fmt: off
VERDICT_LATENCY_SECONDS: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
)
SPAN_LAG_SECONDS: Final[tuple[float, ...]] = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)
# fmt: on


class Histogram:
    """Counts of observations by fixed upper bounds, in seconds.

    Args:
        buckets: ascending upper bounds, each inclusive; +Inf is added.
    """

    __slots__ = ("_above", "_place", "_up_to", "buckets", "counts", "sum_seconds")

    def __init__(self, buckets: Sequence[float]) -> None:
        self.buckets = tuple(buckets)
        self.counts: list[int] = [0] * (len(self.buckets) + 1)
        """Not cumulative; the last is the one above every bound."""
        self.sum_seconds = 0.0
        self._place = 0
        """The last observation's bucket, which mostly is the next one's, too."""
        self._above = 0.0
        self._up_to = 0.0
        """Its bounds: none until something is observed."""

    def observe(self, seconds: float) -> None:
        if not self._above < seconds <= self._up_to:
            self._find(seconds)
        counts, place = self.counts, self._place
        counts[place] = counts[place] + 1  # compiled, `+=` would cost three times as much
        self.sum_seconds += seconds

    def _find(self, seconds: float) -> None:
        """Notes the bucket of an observation."""
        self._place, self._above = 0, -inf
        for bound in self.buckets:
            self._up_to = bound
            if seconds <= bound:
                return
            self._above = bound
            self._place += 1
        self._up_to = inf

    @property
    def count(self) -> int:
        """Observations in all."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[float, int]]:
        """Return (upper bound, observations at or below it), ending with +Inf."""
        total = 0
        rows = []
        for bound, count in zip((*self.buckets, float("inf")), self.counts, strict=True):
            total += count
            rows.append((bound, total))
        return rows


class Stats:
    """Every counter of the process, keyed by label values."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str], int] = {}
        """(transport, signal, code): signal traces | metrics | logs | other."""
        self.spans: dict[tuple[str, str], int] = {}
        """(transport, result): accepted | rejected."""
        self.bytes: dict[str, int] = {}
        """transport: bodies as decoded, after decompression."""
        self.dropped: dict[str, int] = {}
        """reason: spans or calls that were accepted and not judged."""
        self.recorded: dict[str, int] = {"written": 0, "dropped": 0}
        """result: requests that were to be recorded. Another thread counts: no key is ever added."""
        self.counts: dict[tuple[str, ...], int] = {}
        """(name, *labels): everything that has no field of its own."""
        self.verdict_latency: dict[Transport, Histogram] = {
            transport: Histogram(VERDICT_LATENCY_SECONDS) for transport in TRANSPORTS
        }
        """Receipt of the request to its verdict."""
        self.span_lag = Histogram(SPAN_LAG_SECONDS)
        """End of a span to its receipt: the sender's batching, not our latency."""

    def request(self, transport: Transport, signal: str, code: str) -> None:
        """Count one answered request; `code` is the gRPC code's name or the HTTP status."""
        # Any: compiled, a tuple whose length is known is made anew wherever it is handed on.
        key: Any = (transport, signal, code)
        self.requests[key] = self.requests.get(key, 0) + 1

    def span(self, transport: Transport, result: str, count: int = 1) -> None:
        key: Any = (transport, result)
        self.spans[key] = self.spans.get(key, 0) + count

    def received(self, transport: Transport, byte_count: int) -> None:
        self.bytes[transport] = self.bytes.get(transport, 0) + byte_count

    def drop(self, reason: str, count: int = 1) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        self.add((name, *labels), by)

    def add(self, key: tuple[str, ...], by: int = 1) -> None:
        """The same, with the name and the labels as one."""
        self.counts[key] = self.counts.get(key, 0) + by
