"""The metrics application on its own, without a socket."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as plain_families

from collector.app.listening.certificates import CertificateWatch
from collector.app.listening.listeners import ConnectionMetrics
from collector.archive.pruning import ArchiveBounds
from collector.archive.writer import ArchiveWriter
from collector.calls.pipeline import Pipeline
from collector.config.settings.alerts import AlertSettings
from collector.config.settings.settings import Settings
from collector.config.settings.telemetry import TelemetrySettings
from collector.decide.service import DecideService
from collector.forward.next_hops import NextHops
from collector.metrics.agent_calls import AgentCalls
from collector.metrics.created import LOSSES, VERDICTS, with_created
from collector.metrics.gzip_parts import accepts_gzip
from collector.metrics.memory import MemoryMetrics
from collector.metrics.otlp_push import OtlpPush
from collector.metrics.registry import runtime
from collector.metrics.service import SLICE_CHARACTERS, Families, MetricsApp, MetricSource
from collector.metrics.service_table import TABLE
from collector.net import long_responses
from collector.net.health import Health
from collector.online_judges.judge_setup import feed_of
from collector.receive.admission import Admission
from collector.receive.memory_guard import MemoryGuard
from collector.restart.snapshot_content import SnapshotContent, SnapshotState
from collector.restart.snapshot_schedule import SnapshotSchedule
from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.sink_dispatch import SinkDispatch
from collector.state.journal import Journal, JournalRules
from collector.telemetry.clock import now_ns
from collector.telemetry.counters import Stats
from collector.telemetry.redaction import Redaction
from collector.telemetry.tracing import Tracer
from monitor.aggregate.totals import PAIRS_MAX
from monitor.engine import Monitor
from monitor.exposition.family import Family, labels_text
from monitor.limits import Limits
from tests.bench.scrape import Crowd

SERIES_MAX = 150
"""Of one pair."""


def scrape(
    stats: Stats | None = None,
    path: str = "/metrics",
    method: str = "GET",
    accept: bytes = b"",
    started_ns: int = 0,
) -> tuple[int, dict[bytes, bytes], str]:
    alerts = SinkDispatch(AlertSettings(), AlertLinks(), 0, now_ns)
    monitor = Monitor(started_ns=started_ns)
    pipeline = Pipeline(monitor, Stats(), lambda _: None)
    held, tracer = MemoryMetrics(monitor.kept.memory), Tracer(lambda _: None, 1, 1, now_ns)
    more: list[MetricSource] = [
        held,
        Admission(memory=MemoryGuard(1 << 30, lambda: 0)),
        ConnectionMetrics({}),
        journal := Journal(Path("unused"), JournalRules(), now_ns),
        SnapshotSchedule(
            journal,
            SnapshotContent(
                journal, monitor, {}, Settings(), lambda: SnapshotState({}, {}), now_ns
            ),
            60.0,
            None,
        ),
        alerts,
        tracer,
        DecideService(pipeline, monitor, now_ns),
        NextHops([], Stats(), lambda *_: None),
        AgentCalls(pipeline.inventory),
        CertificateWatch({}),
        ArchiveWriter(Path("unused"), ArchiveBounds(1, 1, 1, 1), now_ns),
        feed_of(Settings(), monitor, pipeline, Redaction(), pipeline.decision_records, now_ns),
    ]
    families = Families(monitor, stats or Stats(), None, more)
    pushed = TelemetrySettings(otlp_endpoint="http://127.0.0.1:1")
    families.add(OtlpPush(pushed, families, Redaction(), now_ns))
    return answer_of(MetricsApp(families, Health()), path, method, accept)


def answer_of(
    app: MetricsApp, path: str = "/metrics", method: str = "GET", accept: bytes = b""
) -> tuple[int, dict[bytes, bytes], str]:
    """Status, headers and text of an answer."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"accept", accept)] if accept else []
    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    asyncio.run(app(scope, receive, send))
    return (
        sent[0]["status"],
        dict(sent[0]["headers"]),
        b"".join(each["body"] for each in sent[1:]).decode(),
    )


def test_every_family_of_the_table_is_exposed() -> None:
    """Exactly the documented families are exposed, with their help, from the first scrape on."""
    status, _, text = scrape()

    found = {family.name for family in plain_families(text)}
    assert status == 200
    assert found == {f"offrails_{name}" for name in TABLE} | {
        each.name for each in runtime().collect()
    }


def test_both_formats_parse() -> None:
    """The text format and OpenMetrics are both valid."""
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
    runtime_names = ("process_", "python_")
    moving = {name for name in {key[0] for key in ours} if name.startswith(runtime_names)}
    assert {k: v for k, v in ours.items() if k[0] not in moving} == {
        k: v for k, v in theirs.items() if k[0] not in moving
    }
    assert ours["offrails_spans_dropped_total", (("reason", "duplicate"),)] == 3


def test_losses_are_counted_from_zero_and_say_since_when() -> None:
    """Loss counters start at zero with a created time, or Prometheus would miss the first increase."""
    fresh = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in plain_families(scrape()[2])
        for sample in family.samples
    }
    for name, labels in (
        ("spans_dropped", ("internal_error",)),
        ("ingest_spans", ("grpc", "rejected")),
        ("requests_refused", ("bytes",)),
        ("spans_rejected", ("over_bound",)),
        ("record_requests", ("dropped",)),
        ("log_lines_dropped", ("queue_full",)),
        ("alerts_withheld", ("full",)),
    ):
        assert fresh[f"offrails_{name}_total", labels] == 0, name

    accept = b"application/openmetrics-text"
    _, _, text = scrape(accept=accept, started_ns=5_000_000_000)
    dated = {
        family.name.removeprefix("offrails_")
        for family in open_metrics_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if sample.name.endswith("_created") and sample.value == 5
    }
    shown = {
        name
        for name in LOSSES | VERDICTS
        if f"offrails_{name}_total{{" in text or f"offrails_{name}_total " in text
    }
    assert (
        dated
        == shown
        >= {"spans_dropped", "requests_refused", "sessions_ended", "sessions_split"}
    )
    assert set(TABLE) >= LOSSES | VERDICTS
    assert fresh["offrails_internal_errors_total", ("KeyError",)] == 0


def test_counters_of_verdicts_say_since_when_they_count() -> None:
    """An agent's counters are born with its first call, above 0: each says that it began at 0, beside its value."""
    crowd = Crowd(40, 3, 2)
    crowd.finish(10)
    accept = b"application/openmetrics-text"
    families = Families(crowd.monitor, Stats())
    families.since = lambda: 5_000_000_000
    app = MetricsApp(families, Health())
    _, _, text = answer_of(app, accept=accept)
    samples = [
        sample
        for family in open_metrics_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
        if "agent" in sample.labels
    ]

    def keys(ending: str) -> set[tuple[Any, ...]]:
        return {
            (each.name.removesuffix(ending), *each.labels.items())
            for each in samples
            if each.name.endswith(ending)
            and each.name.removesuffix(ending).removeprefix("offrails_") in VERDICTS
        }

    assert keys("_created") == keys("_total")
    assert {each[0] for each in keys("_total")} >= {
        "offrails_calls",
        "offrails_harmful_calls",
        "offrails_harmful_calls_provisional",
    }
    assert "_created" not in answer_of(app)[2]


@given(st.text(), st.integers(0, 2**40))
def test_hostile_labels_move_no_created_time(agent: str, count: int) -> None:
    """Whatever a label holds, each line of a counter has one line behind it with the same labels."""
    labels = labels_text(("agent", "spec"), (agent, "s"))
    text = f"offrails_calls_total{{{labels}}} {count}.0\n" * 2
    family = Family("offrails_calls", "counter", "", [text])
    (found,) = next(iter(with_created([family], 5_000_000_000))).samples
    line = (
        f"offrails_calls_total{{{labels}}} {count}.0\noffrails_calls_created{{{labels}}} 5.0\n"
    )
    assert found == 2 * line


def test_a_scrape_is_compressed_for_who_accepts_it() -> None:
    """The gzip response holds the same text, in short slices. Other clients get it uncompressed."""
    app = MetricsApp(Families(Crowd(600, 60, 10).monitor, Stats()), Health())
    plain = b"".join(each.body for each in asyncio.run(_slices(app)))
    made = asyncio.run(_slices(app, b"deflate, gzip;q=0.5"))
    body = b"".join(each.body for each in made)

    def series(text: bytes) -> list[bytes]:
        return [line.rpartition(b" ")[0] for line in text.splitlines() if b"agent=" in line]

    assert series(gzip.decompress(body)) == series(plain)
    assert len(body) < len(plain) / 8
    assert len(made) > 1
    assert all(each.turns for each in made[1:])
    assert asyncio.run(_slices(app, b"br, gzip;q=0"))[0].body.startswith(b"# ")


@pytest.mark.parametrize(
    ("accepted", "gzips"),
    [("gzip", True), ("*", True), ("", False), ("gzip;q=0, *", False), ("gzip;q=a", False)],
)
def test_accept_encoding_is_understood(accepted: str, gzips: bool) -> None:
    """Qualities and the wildcard count as RFC 9110 has them."""
    assert accepts_gzip(accepted) is gzips


def test_bounds_of_buckets_are_written_as_prometheus_does() -> None:
    """ "1.0" and "+Inf": alert rules match on these texts."""
    _, _, text = scrape()

    assert 'offrails_verdict_latency_seconds_bucket{transport="grpc",le="0.0001"} 0.0' in text
    assert 'offrails_verdict_latency_seconds_bucket{transport="grpc",le="1.0"} 0.0' in text
    assert 'offrails_verdict_latency_seconds_bucket{transport="grpc",le="+Inf"} 0.0' in text


def test_hostile_labels_are_escaped() -> None:
    """Labels hold senders' text. Each sample stays on one line."""
    stats = Stats()
    stats.count("arguments_unreadable", 'x"} 1\nevil{a="')

    _, _, text = scrape(stats)

    assert not any(line.startswith("evil") for line in text.splitlines())
    assert list(plain_families(text))


def test_other_paths_and_methods() -> None:
    """404 names the right path, 405 the right method."""
    assert scrape(path="/")[0] == 404
    status, headers, _ = scrape(method="POST")
    assert (status, headers[b"allow"]) == (405, b"GET, HEAD")
    assert scrape(method="HEAD")[0] == 200
    assert scrape(path="/-/healthy")[0] == 200
    assert scrape(path="/-/ready")[0] == 503


def test_a_head_request_is_no_scrape() -> None:
    """HEAD has the type of GET and no body, renders nothing, and does not count as a scrape."""
    app = MetricsApp(Families(Monitor(), Stats()), Health())
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "HEAD", "path": "/metrics", "headers": []}
    asyncio.run(app(scope, receive, send))

    assert dict(sent[0]["headers"])[b"content-type"] == scrape()[1][b"content-type"]
    assert [each["body"] for each in sent[1:]] == [b""]
    assert not app.is_scraped


class Slice(NamedTuple):
    """A part of a scrape response, as it is sent."""

    characters: int
    series: int
    turns: int
    """So often others had their turn since the one before."""
    body: bytes


async def _slices(app: MetricsApp, encoding: bytes = b"") -> list[Slice]:
    """A scrape as Prometheus asks for it."""
    slices, turns = list[Slice](), 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def send(message: Any) -> None:
        nonlocal turns
        if body := message.get("body"):
            slices.append(Slice(len(body), body.count(b"\n") - body.count(b"\n#"), turns, body))
            turns = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    headers = [(b"accept", b"application/openmetrics-text"), (b"accept-encoding", encoding)]
    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": headers}
    await app(scope, receive, send)
    task.cancel()
    return slices


def test_a_large_scrape_is_rendered_in_slices() -> None:
    """Beyond the bound pairs fold: series stay bounded, and others get their turn meanwhile."""
    monitor = Crowd(1_500, 100, 20, Limits(pairs_max=500)).monitor
    app = MetricsApp(Families(monitor, Stats()), Health())

    slices = asyncio.run(_slices(app))

    assert len(monitor.totals.pairs) == 500 + 1
    assert sum(each.series for each in slices) < SERIES_MAX * (500 + 1) + 1_000
    assert len(slices) > 50
    assert max(each.characters for each in slices) < 2 * SLICE_CHARACTERS
    assert all(each.turns for each in slices[1:])


@pytest.mark.long
def test_a_hundred_thousand_sessions() -> None:
    """With 200 agents and 50 specs, pairs beyond the bound fold, and the scrape stops growing.

    What it takes is measured by `tests.bench.scrape`.
    """
    crowd = Crowd(100_000, 200, 50)
    crowd.finish(20_000)

    slices = asyncio.run(_slices(MetricsApp(Families(crowd.monitor, Stats()), Health())))

    assert crowd.monitor.sessions == 100_000
    assert len(crowd.monitor.totals.pairs) == PAIRS_MAX + 1
    assert sum(each.series for each in slices) < SERIES_MAX * (PAIRS_MAX + 1) + 1_000
    assert crowd.monitor.totals.folded["agent_spec"] > 0
    assert max(each.characters for each in slices) < 2 * SLICE_CHARACTERS
    assert all(each.turns for each in slices[1:])


class _Scraper:
    """A client of /metrics that reads when it is let."""

    def __init__(self, *, reads: bool = True) -> None:
        self.status = 0
        self.waits = asyncio.Event()
        self.may_read = asyncio.Event()
        if reads:
            self.may_read.set()

    async def scrape(self, app: MetricsApp) -> int:
        scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": []}
        await app(scope, self._receive, self._send)
        return self.status

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.waits.set()
        await self.may_read.wait()


def test_a_scrape_that_is_under_way_is_not_the_next_one() -> None:
    """A scrape that begins later is rendered anew, with the later counts."""

    async def use() -> None:
        app = MetricsApp(Families(Monitor(), Stats()), Health())
        slow = _Scraper(reads=False)
        under_way = asyncio.create_task(slow.scrape(app))
        await slow.waits.wait()
        next_one = asyncio.create_task(app.next_scrape())
        await asyncio.sleep(0)  # it waits
        slow.may_read.set()
        assert await under_way == 200
        await asyncio.sleep(0)
        assert not next_one.done()
        assert await _Scraper().scrape(app) == 200
        await next_one

    asyncio.run(use())


def test_a_scrape_that_is_refused_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """503, since too many long responses are open: nothing was read."""

    async def use() -> tuple[bool, bool]:
        app = MetricsApp(Families(Monitor(), Stats()), Health())
        with monkeypatch.context() as patch:
            patch.setattr(long_responses, "OPEN_MAX", 0)
            assert await _Scraper().scrape(app) == 503
        refused = app.is_scraped
        assert await _Scraper().scrape(app) == 200
        return refused, app.is_scraped

    assert asyncio.run(use()) == (False, True)
