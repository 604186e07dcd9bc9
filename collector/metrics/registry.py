"""The process's own metrics as a registry of prometheus_client.

It holds prometheus_client's collectors for the process, the interpreter and the garbage collector, and
`ServiceCollector`, which reads the service's counters at each scrape. Those counters are plain integers
(`collector.telemetry.counters`): a span increments several, and `inc()` of prometheus_client takes 1 us.
The series of agents and specs bypass the registry. A large process has 250,000 of them, which
prometheus_client renders in 2.5 s and the line templates in 0.13 s.

This module loads prometheus_client (70 ms, 3 MB). `Families` imports it at the first scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from collector.metrics.service_table import OWN
from collector.telemetry.counters import MetricReading
from collector.telemetry.duration_histogram import DurationHistogram
from monitor.exposition.family import Family, Sample, labels_text

__all__ = ["ServiceCollector", "family_of", "registry_of", "runtime"]

Readings = Callable[[], Iterable[MetricReading]]
Failed = Callable[[Exception], None]

PROC: Final = "/proc"


def registry_of(readings: Readings, failed: Failed) -> CollectorRegistry:
    """The registry of this process.

    Args:
        readings: yields the present values of the service's own families.
        failed: called with the error of a collector that failed.
    """
    registry = CollectorRegistry()
    registry.register(ServiceCollector(readings))
    registry.register(_Guarded(runtime(), failed))
    return registry


def runtime(proc: str = PROC) -> CollectorRegistry:
    """Metrics of the process, the interpreter and the garbage collector.

    Args:
        proc: the folder of the proc file system.
    """
    registry = CollectorRegistry()
    ProcessCollector(proc=proc, registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class ServiceCollector(Collector):
    """Passes the service's plain counters to a registry.

    Args:
        readings: yields their present values.
    """

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        return map(_metric, self._readings())


class _Guarded(Collector):
    """A collector of the runtime. If it fails, the scrape goes on without its metrics."""

    def __init__(self, inner: CollectorRegistry, failed: Failed) -> None:
        self._inner = inner
        self._failed = failed

    def collect(self) -> Iterator[Metric]:
        try:
            yield from self._inner.collect()
        except Exception as error:  # noqa: BLE001
            self._failed(error)


def _metric(reading: MetricReading) -> Metric:
    """A reading as a metric, with name, kind and description."""
    row, name = OWN[reading.name], f"offrails_{reading.name}"
    metric = Metric(name, row.help, row.kind)
    full = f"{name}_total" if row.kind == "counter" else name
    for values, value in reading.values:
        labels = dict(zip(row.labels, values, strict=True))
        if isinstance(value, DurationHistogram):
            _add_histogram(metric, labels, value)
        else:
            metric.add_sample(full, labels, value)
    return metric


def _add_histogram(metric: Metric, labels: dict[str, str], found: DurationHistogram) -> None:
    for bound, count in found.cumulative():
        # Prometheus spells the bounds "0.005", "1.0", "+Inf".
        text = repr(bound) if bound != inf else "+Inf"
        metric.add_sample(f"{metric.name}_bucket", {**labels, "le": text}, count)
    metric.add_sample(f"{metric.name}_count", labels, found.count)
    metric.add_sample(f"{metric.name}_sum", labels, found.sum_seconds)


def family_of(metric: Metric) -> Family:
    """A metric of the registry as a family for the renderer; labels keep their order."""
    start = len(metric.name)
    samples = (
        Sample(
            sample.name[start:],
            labels_text(sample.labels, sample.labels.values()),
            sample.value,
        )
        for sample in metric.samples
    )
    return Family(metric.name, metric.type, metric.documentation, samples)
