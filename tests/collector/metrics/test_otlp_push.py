"""The service's own metrics at an OTLP/HTTP receiver: a small one of the tests, and our own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from collector import __version__
from collector.app.service import App
from collector.config.settings.decide import DecideSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.settings import Settings
from collector.config.settings.telemetry import TelemetrySettings
from collector.metrics import otlp_client
from collector.metrics.otlp_push import OtlpPush
from collector.metrics.service import Families
from collector.metrics.service_table import TABLE
from collector.telemetry.counters import Stats
from collector.telemetry.logs import captured
from collector.telemetry.redaction import Redaction, rules
from monitor.engine import Monitor
from tests.bench.scrape import Crowd
from tests.collector.event_loop import run, until
from tests.collector.sinks.test_delivery import OK, Receiver
from tests.golden.test_exposition import rovers

BEGAN, NOW = 1_700_000_000_000_000_000, 1_700_000_060_000_000_000
REFUSED = b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(autouse=True)
def no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A push that is given up tries again in its thread: it ends before the next test begins.

    It takes random numbers for its pauses, which hypothesis forbids while it makes examples.
    """
    monkeypatch.setattr(otlp_client, "TIMEOUT_SECONDS", 2.0)
    yield
    for thread in threading.enumerate():
        if thread.name == "otlp-metrics":
            thread.join(20)
            assert not thread.is_alive()


def stats() -> Stats:
    found = Stats()
    found.request("grpc", "traces", "OK")
    found.request("grpc", "traces", "OK")
    found.drop("duplicate", 3)
    for seconds in (0.0003, 0.0003, 9):
        found.verdict_latency["grpc"].observe(seconds)
    return found


def push_of(
    url: str,
    monitor: Monitor,
    *,
    pairs: bool = False,
    redaction: Redaction | None = None,
    interval: float = 60.0,
) -> OtlpPush:
    settings = TelemetrySettings(otlp_endpoint=url, interval_seconds=interval, pairs=pairs)
    families = Families(monitor, stats())
    times = iter([BEGAN])
    push = OtlpPush(settings, families, redaction or Redaction(), lambda: next(times, NOW))
    families.add(push)
    return push


async def pushed(receiver: Receiver, push: OtlpPush) -> dict[str, Metric]:
    """The metrics of one push, by name; the points of several requests together."""
    push.start()
    await push.stop(20)
    found: dict[str, Metric] = {}
    for _, _, body in receiver.requests:
        for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (each for scope in group.scope_metrics for each in scope.metrics):
                found.setdefault(metric.name, Metric()).MergeFrom(metric)
    return found


def attributes(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def results(push: OtlpPush) -> dict[str, Any]:
    (reading,) = push.readings()
    return {labels[0]: count for labels, count in reading.values}


def of_pairs(name: str) -> bool:
    row = TABLE.get(name.removeprefix("offrails_"))
    return row is not None and row.labels[:2] == ("agent", "spec")


def test_own_metrics_arrive() -> None:
    """Counters arrive as cumulative sums, with gauges, histograms and the resource, but no pair series."""

    async def main() -> None:
        async with Receiver() as receiver:
            push = push_of(receiver.url, rovers())
            found = await pushed(receiver, push)
            assert results(push) == {"ok": 1, "failed": 0}
        ((line, headers, body),) = receiver.requests
        assert line == "POST /v1/metrics HTTP/1.1"
        assert headers["content-type"] == "application/x-protobuf"
        (group,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
        whose = {each.key: each.value.string_value for each in group.resource.attributes}
        assert (whose["service.name"], whose["service.version"]) == ("offrails", __version__)
        assert len(whose["service.instance.id"]) == 36
        assert not [name for name in found if of_pairs(name)]

        requests = found["offrails_ingest_requests"]
        assert requests.description == TABLE["ingest_requests"].help
        cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        assert (requests.sum.is_monotonic, requests.sum.aggregation_temporality) == (
            True,
            cumulative,
        )
        (point,) = requests.sum.data_points
        assert attributes(point) == {"transport": "grpc", "signal": "traces", "code": "OK"}
        assert (point.as_int or point.as_double) == 2
        assert (point.start_time_unix_nano, point.time_unix_nano) == (BEGAN, NOW)
        assert len(found["offrails_build_info"].gauge.data_points) == 1
        assert found["process_resident_memory_bytes"].gauge.data_points[0].as_double > 1e6
        assert len(found["offrails_spec_info"].gauge.data_points) > 1

        latency = found["offrails_verdict_latency_seconds"].histogram
        assert latency.aggregation_temporality == cumulative
        grpc = next(p for p in latency.data_points if attributes(p) == {"transport": "grpc"})
        assert grpc.count == 3
        assert grpc.sum == pytest.approx(9.0006)
        assert list(grpc.explicit_bounds)[:3] == [0.0001, 0.00025, 0.0005]
        assert list(grpc.bucket_counts) == [0, 0, 2, *[0] * 9, 1]
        assert not grpc.HasField("min")

    run(main)


def test_pairs_are_pushed_on_request() -> None:
    """Every sample of /metrics arrives then, in requests of a bounded size."""

    async def main() -> None:
        crowd = Crowd(200, 60, 4)
        crowd.finish(200)
        async with Receiver() as receiver:
            push = push_of(receiver.url, crowd.monitor, pairs=True)
            found = await pushed(receiver, push)
            assert results(push) == {"ok": 1, "failed": 0}
        assert len(receiver.requests) > 1
        calls = found["offrails_calls"].sum.data_points
        pairs = crowd.monitor.totals.pairs.values()
        assert sum(point.as_double for point in calls) == sum(
            sum(p.calls.values()) for p in pairs
        )
        shares = found["offrails_session_harm_rate_ratio"].histogram.data_points
        assert sum(point.count for point in shares) == 200

    run(main)


def test_hidden_names_stay_hidden() -> None:
    """Names removed from /metrics are removed here, too."""

    async def main() -> None:
        async with Receiver() as receiver:
            hide = Redaction(rules(["rover|water"], []))
            found = await pushed(
                receiver, push_of(receiver.url, rovers(), pairs=True, redaction=hide)
            )
        calls = [attributes(point) for point in found["offrails_calls"].sum.data_points]
        assert {"rover"} & {each["agent"] for each in calls} == set()
        tools = found["offrails_harmful_calls_by_tool"].sum.data_points
        assert "water" not in {attributes(point)["tool"] for point in tools}

    run(main)


def test_a_receiver_that_is_away_costs_its_pushes() -> None:
    """Failed pushes are counted and the first is logged. Values arrive once the receiver is back."""

    async def main() -> None:
        with captured() as told:
            async with Receiver(REFUSED) as receiver:
                push = push_of(receiver.url, Monitor([]), interval=0.05)
                push.start()
                await until(lambda: results(push)["failed"] >= 2)
                receiver.answer = OK
                await until(lambda: results(push)["ok"] >= 1)
                receiver.answer = None  # hangs
                count = len(receiver.requests)
                await until(lambda: len(receiver.requests) > count)
                began = asyncio.get_running_loop().time()
                await push.stop(0.2)
                assert asyncio.get_running_loop().time() - began < 2
        events = [each["event"] for each in told]
        assert events == ["telemetry_push_failed", "telemetry_push_recovered"]

    run(main)


def test_our_own_receiver_takes_them() -> None:
    """One offrails pushes to another: the request is counted as metrics, and answered."""

    async def main() -> None:
        other = App(_settings(TelemetrySettings()), [])
        addresses = await other.start()
        telemetry = TelemetrySettings(
            otlp_endpoint=f"http://{addresses['http']}", interval_seconds=0.05
        )
        app = App(_settings(telemetry), [])
        await app.start()
        await until(lambda: ("http_proto", "metrics", "200") in other.stats.requests)
        await app.stop()
        await other.stop()

    run(main)


def _settings(telemetry: TelemetrySettings) -> Settings:
    free = "127.0.0.1:0"
    receiver = ReceiverSettings(grpc="off", http=free)
    return Settings(
        receiver=receiver,
        metrics=free,
        admin="off",
        decide=DecideSettings(listen="off"),
        telemetry=telemetry,
    )


def test_without_the_exporter_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an endpoint is set and the extra is missing, the error names the extra."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(OSError, match=r"offrails\[otlp\]"):
        push_of("http://127.0.0.1:1", Monitor([]))
