"""The metrics of the process itself, and which format a scraper is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import ProcessCollector
from prometheus_client.exposition import choose_encoder

from collector import __version__
from collector.metrics.process import HELP, Process
from collector.metrics.text_format import OPEN_METRICS, PLAIN, is_open_metrics, lines

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


def values(process: Process) -> dict[str, float]:
    text = "".join(lines(process.families(), open_metrics=False))
    rows = (line.split(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.removesuffix("_total"): float(value) for name, value in rows}


def test_it_is_read_as_client_libraries_read_it() -> None:
    """The same names and kinds; the same values where they do not move."""
    ours = {family.name: family for family in Process().families()}
    theirs = {family.name: family for family in ProcessCollector(registry=None).collect()}

    assert {name: each.kind for name, each in ours.items()} == {
        name: each.type for name, each in theirs.items()
    }
    assert set(ours) == set(HELP)
    fixed = ("process_start_time_seconds", "process_max_fds")
    found = values(Process())
    assert [found[name] for name in fixed] == [theirs[name].samples[0].value for name in fixed]
    resident = theirs["process_resident_memory_bytes"].samples[0].value
    assert found["process_resident_memory_bytes"] == pytest.approx(resident, rel=0.1)


def test_each_value_is_of_its_unit(tmp_path: Path) -> None:
    """Bytes and seconds, whatever the kernel counts in; a command's name may hold anything."""
    found = values(Process(proc(tmp_path)))

    assert found["process_virtual_memory_bytes"] == 8_192_000
    assert found["process_resident_memory_bytes"] % 300 == 0
    assert found["process_start_time_seconds"] - 1_700_000_000 == pytest.approx(10)
    assert found["process_cpu_seconds"] == pytest.approx(3)
    assert (found["process_open_fds"], found["process_max_fds"]) == (1, 1024)


def test_without_a_bound_on_files(tmp_path: Path) -> None:
    """The kernel says `unlimited`, a metric says +Inf."""
    process = Process(proc(tmp_path, LIMITS.replace("1024", "unlimited")))

    text = "".join(lines(process.families(), open_metrics=True))
    assert "process_max_fds +Inf\n" in text
    assert "process_cpu_seconds_total 3.0\n" in text


def test_where_there_is_no_proc(tmp_path: Path) -> None:
    """Nothing is told, and nothing fails."""
    assert values(Process(tmp_path)) == {}


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
    """OpenMetrics where it is accepted in our version, else the text format; as client libraries do."""
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
    assert capsys.readouterr().out == f"offrails {__version__}\n"
