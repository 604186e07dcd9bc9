"""Families as OTLP metrics: counters are cumulative sums, histograms have explicit bounds.

OTLP names of counters have no `_total`: receivers for Prometheus add it. Exemplars are not sent.
This module loads opentelemetry-sdk, so only the thread of `otlp_push` imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.metrics_core import Metric as Shown
from prometheus_client.samples import Sample

from collector import __version__
from collector.telemetry.redaction import Redaction
from monitor.exposition.collector import metric_of
from monitor.exposition.family import Family

__all__ = ["metrics_data"]

NAMES: Final = ("agent", "tool", "namespace")
"""Labels that hold what agents say."""

UNKNOWN: Final[Any] = None
"""The least and the greatest observation: the protocol lets them be left out, the SDK's types do not."""

CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


def metrics_data(
    families: Iterable[Family],
    resource: Resource,
    redaction: Redaction,
    started_ns: int,
    now: int,
) -> MetricsData:
    """The families of one request; those without samples are left out.

    Args:
        families: what is sent.
        resource: the resource of this process.
        redaction: hides parts of labels.
        started_ns: start of the counters, Unix nanoseconds.
        now: time of the reading, Unix nanoseconds.
    """
    made = (_metric(metric_of(each), redaction, started_ns, now) for each in families)
    metrics = [metric for metric in made if metric.data.data_points]
    scope = ScopeMetrics(InstrumentationScope("offrails", __version__), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(shown: Shown, redaction: Redaction, started_ns: int, now: int) -> Metric:
    data: Sum | Gauge | Histogram
    if shown.type == "histogram":
        data = Histogram(list(_histograms(shown, redaction, started_ns, now)), CUMULATIVE)
    else:
        points = [
            NumberDataPoint(
                _attributes(sample.labels, redaction), started_ns, now, sample.value
            )
            for sample in shown.samples
        ]
        is_counter = shown.type == "counter"
        data = Sum(points, CUMULATIVE, is_monotonic=True) if is_counter else Gauge(points)
    return Metric(shown.name, shown.documentation, "", data)


def _histograms(
    shown: Shown, redaction: Redaction, started_ns: int, now: int
) -> Iterator[HistogramDataPoint]:
    """The histograms of a family. Samples of one are its cumulative buckets, then count and sum."""
    buckets: list[Sample] = []
    for sample in shown.samples:
        if sample.name.endswith("_bucket"):
            buckets.append(sample)
        elif sample.name.endswith("_sum"):
            counts = [int(each.value) for each in buckets]
            yield HistogramDataPoint(
                _attributes(sample.labels, redaction),
                started_ns,
                now,
                count=counts[-1],
                sum=sample.value,
                bucket_counts=[
                    more - less for less, more in zip([0, *counts], counts, strict=False)
                ],
                explicit_bounds=[float(each.labels["le"]) for each in buckets[:-1]],
                min=UNKNOWN,
                max=UNKNOWN,
            )
            buckets = []


def _attributes(labels: Mapping[str, str], redaction: Redaction) -> dict[str, str]:
    if not redaction:
        return dict(labels)
    return {
        name: redaction.name(value) if name in NAMES else value
        for name, value in labels.items()
    }
