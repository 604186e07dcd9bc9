"""What became of the messages of one next hop, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from collector.telemetry.duration_histogram import DELIVERY_SECONDS, DurationHistogram

__all__ = ["DROPPED", "Counts"]

RESULTS: Final = ("ok", "partial", "refused", "dropped")
DROPPED: Final = (
    "queue_full",
    "gave_up",
    "unreadable",
    "shutdown",
    "not_in_journal",
    "internal_error",
)
"""Why a message did not reach the next hop: labels of the counter `forward_dropped`."""


class Counts:
    """Counters of one next hop.

    Args:
        signals: that go to it.
    """

    def __init__(self, signals: Sequence[str]) -> None:
        self.results: Counter[tuple[str, str]] = Counter(
            {(signal, result): 0 for signal in signals for result in RESULTS}
        )
        """(signal, result) -> messages."""
        self.dropped: Counter[str] = Counter(dict.fromkeys(DROPPED, 0))
        self.rejected: Counter[str] = Counter(dict.fromkeys(signals, 0))
        """signal -> items that the next hop left out of requests it took."""
        self.retries = 0
        self.latency = DurationHistogram(DELIVERY_SECONDS)

    def count(self, signal: str, result: str, reason: str = "", by: int = 1) -> None:
        """Counts what became of some messages."""
        self.results[signal, result] += by
        if reason:
            self.dropped[reason] += by

    def count_again(self, counts: Iterable[tuple[str, str, str, int]]) -> None:
        """Counts results of an earlier process: signal, result, reason, number. Unknown ones are left out."""
        for signal, result, reason, by in counts:
            if (signal, result) in self.results and (not reason or reason in self.dropped):
                self.count(signal, result, reason, by)

    def kept(self) -> dict[str, Any]:
        """All of them, as plain data."""
        return {
            "results": [[*key, count] for key, count in self.results.items()],
            "dropped": dict(self.dropped),
            "rejected": dict(self.rejected),
            "retries": self.retries,
            "latency": [list(self.latency.counts), self.latency.sum_seconds],
        }

    def set_kept(self, found: Mapping[str, Any]) -> None:
        """Sets them; signals and reasons that are not known are left out."""
        for signal, result, count in found["results"]:
            if (signal, result) in self.results:
                self.results[signal, result] = count
        for counter, name in ((self.dropped, "dropped"), (self.rejected, "rejected")):
            for key in counter.keys() & found[name].keys():
                counter[key] = found[name][key]
        self.retries = found["retries"]
        self.latency.set(*found["latency"])

    def add(self, other: Counts) -> None:
        """Adds those of an earlier process."""
        self.results.update(other.results)
        self.dropped.update(other.dropped)
        self.rejected.update(other.rejected)
        self.retries += other.retries
        self.latency.add(other.latency)
