"""What the large tables hold of the process's memory, estimated as they grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from collector.telemetry.counters import MetricReading

__all__ = ["MemoryMetrics"]


class MemoryMetrics:
    """A source of metrics.

    Args:
        holders: each gives bytes by what holds them, and costs little: a scrape asks.
    """

    def __init__(self, *holders: Callable[[], Mapping[str, int]]) -> None:
        self._holders = holders

    def total(self) -> int:
        """Bytes of all holders."""
        return sum(size for holder in self._holders for size in holder().values())

    def readings(self) -> Iterator[MetricReading]:
        """Bytes by holder."""
        found = {of: size for holder in self._holders for of, size in holder().items()}
        yield MetricReading("memory_bytes", (((of,), size) for of, size in found.items()))
