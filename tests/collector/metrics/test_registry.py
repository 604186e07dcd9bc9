"""The registry of the process, what it shows of the runtime, and which format a scraper is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder

from collector import __version__
from collector.metrics.registry import family_of, registry_of, runtime
from collector.metrics.service_table import OWN
from collector.metrics.text_format import OPEN_METRICS, PLAIN, is_open_metrics, lines
from collector.telemetry.build import BUILD
from collector.telemetry.counters import MetricReading
from collector.telemetry.duration_histogram import DurationHistogram
from monitor.exposition.metric_table import TABLE as LIBRARY

STAT = b"7 (a) name) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 3 0 1000 8192000 300 0\n"
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max open files            1024                 4096                 files     \n"
)


def proc(folder: Path, limits: str = LIMITS) -> Path:
    """A small /proc."""
    own = folder / "self"
    (own / "fd").mkdir(parents=True)
    (own / "fd" / "0").touch()
    (own / "stat").write_bytes(STAT)
    (own / "limits").write_text(limits)
    (folder / "stat").write_text("cpu 1 2\nbtime 1700000000\n")
    return folder


def text_of(registry: CollectorRegistry, *, open_metrics: bool = False) -> str:
    families = map(family_of, registry.collect())
    return "".join(lines(families, open_metrics=open_metrics))


def values(registry: CollectorRegistry) -> dict[str, float]:
    """The metrics of the process itself."""
    rows = (line.split(" ") for line in text_of(registry).splitlines())
    return {
        row[0].removesuffix("_total"): float(row[1])
        for row in rows
        if row[0].startswith("process_")
    }


def test_the_runtime_is_as_client_libraries_show_it() -> None:
    """The process, the interpreter and its garbage collector: the same names, kinds and values."""
    default = {metric.name: metric for metric in REGISTRY.collect()}
    ours = {metric.name: metric for metric in runtime().collect()}

    assert {name: each.type for name, each in ours.items()} == {
        name: each.type for name, each in default.items() if name in ours
    }
    assert {
        *("process_virtual_memory_bytes", "process_resident_memory_bytes"),
        *("process_start_time_seconds", "process_cpu_seconds"),
        *("process_open_fds", "process_max_fds", "python_info"),
    } <= set(ours)
    fixed = ("process_start_time_seconds", "process_max_fds")
    found = values(runtime())
    assert [found[name] for name in fixed] == [default[name].samples[0].value for name in fixed]
    resident = default["process_resident_memory_bytes"].samples[0].value
    assert found["process_resident_memory_bytes"] == pytest.approx(resident, rel=0.1)


def test_each_value_is_of_its_unit(tmp_path: Path) -> None:
    """Bytes and seconds, whatever the kernel counts in; a command's name may hold anything."""
    found = values(runtime(str(proc(tmp_path))))

    assert found["process_virtual_memory_bytes"] == 8_192_000
    assert found["process_resident_memory_bytes"] % 300 == 0
    assert found["process_start_time_seconds"] - 1_700_000_000 == pytest.approx(10)
    assert found["process_cpu_seconds"] == pytest.approx(3)
    assert (found["process_open_fds"], found["process_max_fds"]) == (1, 1024)


def test_where_there_is_no_proc(tmp_path: Path) -> None:
    """Without /proc there are no process metrics, and no error."""
    assert values(runtime(str(tmp_path))) == {}


def test_what_cannot_be_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that writes its files in another way costs these metrics, and no scrape."""
    broken = runtime(str(proc(tmp_path, LIMITS.replace("1024", "many"))))
    monkeypatch.setattr("collector.metrics.registry.runtime", lambda: broken)
    failed: list[Exception] = []
    registry = registry_of(lambda: [MetricReading("alerts_firing", [((), 2)])], failed.append)

    text = text_of(registry, open_metrics=True)

    assert "offrails_alerts_firing 2.0\n" in text
    assert text.endswith("# EOF\n")
    assert [type(error) for error in failed] == [ValueError]


def test_a_reading_is_shown_as_its_description_says() -> None:
    """Counters end in `_total`, labels keep the order of the description, buckets are cumulative."""
    seconds = DurationHistogram((0.5, 1.0))
    seconds.observe(0.7)
    readings = [
        MetricReading("ingest_requests", [(("grpc", "traces", 'O"K'), 3)]),
        MetricReading("alert_delivery_seconds", [(("webhook",), seconds)]),
    ]
    failed: list[Exception] = []
    text = text_of(registry_of(lambda: readings, failed.append))
    assert not failed
    name = "offrails_alert_delivery_seconds"

    assert (
        'offrails_ingest_requests_total{transport="grpc",signal="traces",code="O\\"K"} 3.0'
        in text
    )
    assert f'{name}_bucket{{sink="webhook",le="0.5"}} 0.0\n' in text
    assert f'{name}_bucket{{sink="webhook",le="+Inf"}} 1.0\n' in text
    assert f'{name}_count{{sink="webhook"}} 1.0\n' in text
    assert f'{name}_sum{{sink="webhook"}} 0.7\n' in text


def test_no_family_has_two_descriptions() -> None:
    """The library describes its own, the process its own."""
    assert not set(OWN) & set(LIBRARY)


PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (PROMETHEUS_3, True),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0", True),
        ("text/html, application/openmetrics-text", True),
        ("application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4", False),
        ("text/plain;version=0.0.4", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_the_format_is_what_the_scraper_takes(accept: str, wanted: bool) -> None:
    """OpenMetrics is sent if our version is accepted, else the text format."""
    assert is_open_metrics(accept) is wanted
    theirs = choose_encoder(accept)[1]
    assert (
        theirs.partition(";")[0]
        == (OPEN_METRICS if wanted else PLAIN).decode().partition(";")[0]
    )


def test_the_version_is_told_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`offrails --version` says what the package says."""
    from collector.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"offrails {__version__} ({BUILD})\n"
