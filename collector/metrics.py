"""The metrics listener: renders what is summed, in OpenMetrics or the text format."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from math import inf

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from collector.asgi import Receive, Scope, Send, send_status
from collector.health import Health
from collector.stats import Histogram, Stats
from monitor.engine import Monitor
from monitor.exposition import family, histogram, monitor_families

__all__ = ["Families", "MetricsApp"]


class Families(Collector):
    """All families of this process, made at scrape."""

    def __init__(self, monitor: Monitor, stats: Stats) -> None:
        self._monitor = monitor
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        monitor, stats = self._monitor, self._stats
        yield from monitor_families(monitor.totals, monitor.binder, monitor.ended)
        yield family("steps_folded_young", [((), monitor.folded_young)])
        built = (version("offrails"), platform.python_version())
        yield family("build_info", [(built, 1)])
        yield from _pipeline_families(monitor, stats)


def _pipeline_families(monitor: Monitor, stats: Stats) -> Iterator[Metric]:
    """Families of the receiver and the pipeline."""
    yield family("ingest_requests", stats.requests.items())
    yield family("ingest_spans", stats.spans.items())
    yield family("ingest_bytes", _single(stats.bytes))
    yield family("spans_dropped", _single(stats.dropped))
    yield family("calls_not_judged", _single(monitor.not_judged))
    counted = sorted(stats.counts.items())
    for name in ("arguments_unreadable", "internal_errors", "sessions_split"):
        found = ((key[1:], count) for key, count in counted if key[0] == name)
        yield family(name, found)
    yield histogram(
        "verdict_latency_seconds",
        (_sample((transport,), found) for transport, found in stats.verdict_latency.items()),
    )
    yield histogram("span_lag_seconds", [_sample((), stats.span_lag)])


def _single(counts: Mapping[str, int]) -> Iterator[tuple[tuple[str, ...], float]]:
    return (((label,), count) for label, count in sorted(counts.items()))


def _sample(
    labels: tuple[str, ...], found: Histogram
) -> tuple[tuple[str, ...], list[tuple[str, float]], float]:
    # Prometheus' own spelling of the bounds: "0.005", "1.0", "+Inf".
    rows = ((repr(bound) if bound != inf else "+Inf", n) for bound, n in found.cumulative())
    buckets = [(bound, float(n)) for bound, n in rows]
    return labels, buckets, found.sum_seconds


class MetricsApp:
    """An ASGI application: `GET /metrics` and the health paths."""

    def __init__(self, families: Families, health: Health) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(families)
        self._health = health

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if await self._health.answer(scope, send):
            return
        if scope["path"] != "/metrics":
            await send_status(send, 404, b"see /metrics\n", b"text/plain; charset=utf-8")
        elif scope["method"] not in ("GET", "HEAD"):
            allow = (b"allow", b"GET, HEAD")
            await send_status(send, 405, b"use GET\n", b"text/plain; charset=utf-8", allow)
        else:
            accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
            encode, content_type = choose_encoder(accept)
            await send_status(send, 200, encode(self._registry), content_type.encode())
