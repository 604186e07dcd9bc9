"""The process's own counters: requests, spans, bytes, dropped spans, verdict latency, span lag.

They are plain integers. A span adds to several of them, and `inc()` of prometheus_client takes 1 us.
`collector.metrics.registry` reads them at each scrape and hands them to a registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from collector.telemetry.duration_histogram import (
    SPAN_LAG_SECONDS,
    VERDICT_LATENCY_SECONDS,
    DurationHistogram,
)

__all__ = [
    "MetricReading",
    "Stats",
    "Tally",
    "Transport",
]

Transport = str
"""grpc | http_proto | http_json"""

TRANSPORTS: Final = ("grpc", "http_proto", "http_json")


class MetricReading(NamedTuple):
    """The present values of one family, from the part of the process that counts them.

    Kind, labels and description are in `collector.metrics.service_table`.
    """

    name: str
    """Name without `offrails_` and `_total`."""
    values: Iterable[tuple[tuple[str, ...], float | DurationHistogram]]
    """Label values, in the order of the description's label names, and the value."""


class Tally:
    """A counter, by up to three labels.

    The labels that were counted last mostly come again: they are counted beside the dictionary, where that
    costs a twentieth, until others come, or somebody asks.

    Args:
        labels: how many there are; of one, the keys are the label itself.
    """

    __slots__ = ("_counts", "_first", "_labels", "_more", "_second", "_third")

    def __init__(self, labels: int) -> None:
        self._labels = labels
        self._counts: dict[Any, int] = {}
        self._first: str | None = None
        """None if all is in the dictionary."""
        self._second = self._third = ""
        self._more = 0
        """Count of these labels that is not in the dictionary yet."""

    def add(self, by: int, first: str, second: str = "", third: str = "") -> None:
        """Counts so many more."""
        is_last = first is self._first and second is self._second and third is self._third
        if not is_last:
            self._settle()
            self._first, self._second, self._third = first, second, third
        self._more += by

    def _settle(self) -> None:
        if self._first is not None:
            labels = (self._first, self._second, self._third)
            key: Any = self._first if self._labels == 1 else labels[: self._labels]
            self._counts[key] = self._counts.get(key, 0) + self._more
            self._first, self._more = None, 0

    @property
    def counts(self) -> dict[Any, int]:
        """All of them, by their labels."""
        self._settle()
        return self._counts

    def set(self, counts: Mapping[Any, int]) -> None:
        """Sets what was counted so far."""
        self._settle()
        self._counts = dict(counts)


_TAKEN: Final = frozenset({"OK", "200"})
_COUNTED_LATER: Final = frozenset({"spans_rejected", "attributes_over_bound"})


class Stats:
    """Every counter of the process, keyed by label values."""

    def __init__(self) -> None:
        self._requests = Tally(3)
        self._spans = Tally(2)
        self._bytes = Tally(1)
        self.dropped: dict[str, int] = {"duplicate": 0, "internal_error": 0}
        """reason: spans or calls that were accepted and not judged."""
        self.recorded: dict[str, int] = {"written": 0, "dropped": 0}
        """result: requests that were to be recorded. Another thread counts: no key is ever added."""
        self.log_lines_dropped: dict[str, int] = {"queue_full": 0, "write_failed": 0}
        """reason: lines of the log that were lost. Other threads count: no key is ever added."""
        self.counts: dict[tuple[str, ...], int] = {}
        """(name, *labels): everything that has no field of its own."""
        self.verdict_latency: dict[Transport, DurationHistogram] = {
            transport: DurationHistogram(VERDICT_LATENCY_SECONDS) for transport in TRANSPORTS
        }
        """Receipt of the request to its verdict."""
        self.span_lag = DurationHistogram(SPAN_LAG_SECONDS)
        """End of a span to its receipt: the sender's batching, not our latency."""

    @property
    def requests(self) -> dict[tuple[str, str, str], int]:
        """(transport, signal, code): signal traces | metrics | logs | other."""
        return self._requests.counts

    @property
    def spans(self) -> dict[tuple[str, str], int]:
        """(transport, result): accepted | rejected."""
        return self._spans.counts

    @property
    def bytes(self) -> dict[str, int]:
        """transport: bodies as decoded, after decompression."""
        return self._bytes.counts

    def kept(self) -> dict[str, Any]:
        """All of it as plain data, for `set_kept` of a later process."""
        return {
            "requests": [[*key, n] for key, n in self.requests.items()],
            "spans": [[*key, n] for key, n in self.spans.items()],
            "bytes": dict(self.bytes),
            "dropped": dict(self.dropped),
            "recorded": dict(self.recorded),
            "log_lines_dropped": dict(self.log_lines_dropped),
            "counts": [[*key, n] for key, n in self.counts.items()],
            "verdict_latency": {
                name: [list(each.counts), each.sum_seconds]
                for name, each in self.verdict_latency.items()
            },
            "span_lag": [list(self.span_lag.counts), self.span_lag.sum_seconds],
        }

    def set_kept(self, found: Mapping[str, Any]) -> None:
        """Sets all of it; what a later version has added or dropped stays as it is."""
        self._requests.set({tuple(key): n for *key, n in found.get("requests", ())})
        self._spans.set({tuple(key): n for *key, n in found.get("spans", ())})
        self._bytes.set(found.get("bytes", {}))
        for name in ("dropped", "recorded", "log_lines_dropped"):
            getattr(self, name).update(found.get(name, {}))
        self.counts.clear()
        self.counts.update({tuple(key): n for *key, n in found.get("counts", ())})
        for name, (counts, total) in found.get("verdict_latency", {}).items():
            if name in self.verdict_latency:
                self.verdict_latency[name].set(counts, total)
        if "span_lag" in found:
            self.span_lag.set(*found["span_lag"])

    def add_early(self, early: Stats) -> None:
        """Adds what was counted while trace requests were only kept, but for these: they are counted as they are judged."""
        for (transport, signal, code), n in early.requests.items():
            if signal != "traces" or code not in _TAKEN:
                self._requests.add(n, transport, signal, code)
        for key, n in early.counts.items():
            if key[0] not in _COUNTED_LATER:
                self.add(key, n)

    def request(self, transport: Transport, signal: str, code: str) -> None:
        """Count one answered request; `code` is the gRPC code's name or the HTTP status."""
        self._requests.add(1, transport, signal, code)

    def span(self, transport: Transport, result: str, count: int = 1) -> None:
        """Count spans of a request."""
        self._spans.add(count, transport, result)

    def received(self, transport: Transport, byte_count: int) -> None:
        """Count a body."""
        self._bytes.add(byte_count, transport)

    def drop(self, reason: str, count: int = 1) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def count(self, name: str, *labels: str, by: int = 1) -> None:
        self.add((name, *labels), by)

    def add(self, key: tuple[str, ...], by: int = 1) -> None:
        """The same, with the name and the labels as one."""
        self.counts[key] = self.counts.get(key, 0) + by
