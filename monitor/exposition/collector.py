"""A monitor's families for a registry of prometheus_client: for agents that embed the library.

    registry.register(MonitorCollector(monitor))

The names, labels and values are those of the service's /metrics. The families are made as lines,
because a scrape of thousands of pairs is cheap that way; the collector reads the lines again. That
takes 6 us a sample: a monitor with 2,000 pairs is better scraped from `offrails serve`.

The library does not need prometheus_client; this module does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from monitor.aggregate.totals import Exemplar
from monitor.exposition.family import ExemplarLines, Family
from monitor.exposition.metric_samples import MonitorTotals, families_of
from monitor.exposition.metric_table import TABLE

try:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
    from prometheus_client.samples import Exemplar as Marking
except ImportError:
    raise ImportError(
        "MonitorCollector needs prometheus-client: pip install prometheus-client"
    ) from None

__all__ = ["MonitorCollector", "metric_of"]

_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


class MonitorCollector(Collector):
    """All families of a monitor.

    Args:
        monitor: whose sums are shown.
        lock: held while they are read. A monitor is not safe for threads: where another thread
            serves the metrics, as `start_http_server` does, give the lock that guards the monitor
            (`MonitorSpanProcessor.lock`).
    """

    def __init__(
        self, monitor: MonitorTotals, lock: AbstractContextManager[Any] | None = None
    ) -> None:
        self._monitor = monitor
        self._lock = lock if lock is not None else nullcontext()

    def collect(self) -> list[Metric]:
        with self._lock:
            return [metric_of(family) for family in families_of(self._monitor)]

    def describe(self) -> Iterator[Metric]:
        """The families without samples: a registry refuses another collector of the same names."""
        for name, row in TABLE.items():
            yield Metric(f"offrails_{name}", row.help, row.kind)


def metric_of(family: Family) -> Metric:
    """A family of ours as one of prometheus_client's."""
    metric = Metric(family.name, family.help, family.kind)
    ending = "_total" if family.kind == "counter" else ""
    for sample in family.samples:
        if isinstance(sample, str):
            _add(metric, sample, {})
        elif isinstance(sample, ExemplarLines):
            _add(metric, sample.text, sample.exemplars)
        else:
            metric.add_sample(
                family.name + (sample.suffix or ending),
                _labels(sample.labels),
                sample.value,
                exemplar=_marking(sample.exemplar, sample.observed),
            )
    return metric


def _add(metric: Metric, text: str, exemplars: Mapping[int, tuple[Exemplar, float]]) -> None:
    """Adds whole lines, `name{labels} value`; no label holds a line end."""
    for place, line in enumerate(text.split("\n")[:-1]):
        head, _, value = line.rpartition(" ")
        name, _, labels = head.partition("{")
        exemplar = _marking(*exemplars.get(place, (None, 0.0)))
        metric.add_sample(name, _labels(labels), float(value), exemplar=exemplar)


def _labels(text: str) -> dict[str, str]:
    return {name: _plain(value) for name, value in _LABEL.findall(text)}


def _plain(value: str) -> str:
    """A value without escapes. Half a surrogate pair, which no format can hold, is a question mark."""
    if "\\" in value:
        value = _ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], value)
    return value if value.isascii() else value.encode(errors="replace").decode()


def _marking(exemplar: Exemplar | None, observed: float) -> Marking | None:
    if exemplar is None:
        return None
    span = {"trace_id": exemplar.trace_id.hex(), "span_id": exemplar.span_id.hex()}
    return Marking(span, observed, exemplar.at_ns / 1e9)
