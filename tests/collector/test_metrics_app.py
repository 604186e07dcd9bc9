"""The metrics application on its own, without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as plain_families

from collector.health import Health
from collector.metrics import Families, MetricsApp
from collector.stats import Stats
from monitor.engine import Monitor
from monitor.exposition import TABLE


def scrape(
    stats: Stats | None = None, path: str = "/metrics", method: str = "GET", accept: bytes = b""
) -> tuple[int, dict[bytes, bytes], str]:
    app = MetricsApp(Families(Monitor(), stats or Stats()), Health())
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"accept", accept)] if accept else []
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"].decode()


def test_every_family_of_the_table_is_exposed() -> None:
    """What is described is there, with its help, from the first scrape on; and nothing else."""
    status, _, text = scrape()

    found = {family.name for family in plain_families(text)}
    assert status == 200
    assert found == {f"offrails_{name}" for name in TABLE}


def test_both_formats_parse() -> None:
    """The text format, and OpenMetrics where it is accepted."""
    stats = Stats()
    stats.request("grpc", "traces", "OK")
    stats.drop("duplicate", 3)
    stats.verdict_latency["grpc"].observe(0.0003)
    stats.span_lag.observe(99)

    _, plain_headers, plain = scrape(stats)
    _, open_headers, text = scrape(stats, accept=b"application/openmetrics-text")

    assert plain_headers[b"content-type"].startswith(b"text/plain")
    assert open_headers[b"content-type"].startswith(b"application/openmetrics-text")
    ours = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in plain_families(plain)
        for sample in family.samples
    }
    theirs = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in open_metrics_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
    assert ours == theirs
    assert ours["offrails_spans_dropped_total", (("reason", "duplicate"),)] == 3


def test_bounds_of_buckets_are_written_as_prometheus_does() -> None:
    """ "1.0" and "+Inf": alert rules match on these texts."""
    _, _, text = scrape()

    assert 'offrails_verdict_latency_seconds_bucket{le="0.0001",transport="grpc"} 0.0' in text
    assert 'offrails_verdict_latency_seconds_bucket{le="1.0",transport="grpc"} 0.0' in text
    assert 'offrails_verdict_latency_seconds_bucket{le="+Inf",transport="grpc"} 0.0' in text


def test_hostile_labels_are_escaped() -> None:
    """A label is what a sender says; the text stays one line a sample."""
    stats = Stats()
    stats.count("arguments_unreadable", 'x"} 1\nevil{a="')

    _, _, text = scrape(stats)

    assert not any(line.startswith("evil") for line in text.splitlines())
    assert list(plain_families(text))


def test_other_paths_and_methods() -> None:
    """404 says where to look, 405 what to use."""
    assert scrape(path="/")[0] == 404
    status, headers, _ = scrape(method="POST")
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD")
    assert scrape(method="HEAD")[0] == 200
    assert scrape(path="/-/healthy")[0] == 200
    assert scrape(path="/-/ready")[0] == 503
