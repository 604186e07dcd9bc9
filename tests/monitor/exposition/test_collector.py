"""An embedded monitor's families in a registry of prometheus_client."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as plain_families
from prometheus_client.registry import DuplicateTimeseries

from collector.metrics.text_format import lines
from monitor import Monitor, MonitorCollector
from monitor.exposition.collector import metric_of
from monitor.exposition.family import Family, Sample
from monitor.exposition.metric_samples import families_of
from monitor.exposition.metric_table import TABLE
from tests.bench.scrape import Crowd
from tests.golden.test_exposition import rovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]


def registry_of(monitor: Monitor) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(MonitorCollector(monitor))
    return registry


def crowd() -> Monitor:
    """Twenty pairs with sessions that are alive, finished, and harmful."""
    made = Crowd(200, 10, 2)
    made.finish(100)
    return made.monitor


def samples(families: Any) -> dict[Any, Any]:
    """Everything that a text says, to be compared."""
    return {
        (
            family.name,
            family.type,
            family.documentation,
            sample.name,
            *sorted(sample.labels.items()),
        ): (
            sample.value,
            _mark(sample.exemplar),
        )
        for family in families
        for sample in family.samples
    }


def _mark(exemplar: Any) -> Any:
    if exemplar is None:
        return None
    return exemplar.labels, exemplar.value, round(float(exemplar.timestamp), 3)


both = pytest.mark.parametrize("made", [rovers, crowd])


@both
def test_it_shows_what_the_service_shows(made: Callable[[], Monitor]) -> None:
    """Both OpenMetrics texts have the same samples: name, kind, help, labels, value, exemplar."""
    monitor = made()
    ours = "".join(lines(families_of(monitor), open_metrics=True))
    theirs = generate_open_metrics(registry_of(monitor)).decode()  # type: ignore[no-untyped-call]

    found = samples(open_metrics_families(ours))  # type: ignore[no-untyped-call]
    assert found == samples(open_metrics_families(theirs))  # type: ignore[no-untyped-call]
    assert len(found) > 500
    assert any(mark for _, mark in found.values())


@both
def test_the_text_format_is_alike(made: Callable[[], Monitor]) -> None:
    """Prometheus' own format, as `start_http_server` serves it."""
    monitor = made()
    ours = "".join(lines(families_of(monitor), open_metrics=False))
    theirs = generate_latest(registry_of(monitor)).decode()

    assert samples(plain_families(ours)) == samples(plain_families(theirs))


def test_hostile_labels_stay_values() -> None:
    """An agent's name may hold whatever ends a label, a line or an encoding."""
    name = 'x"} 1\\n\n{é,b="\\'
    labels = f'agent="{_escaped(name)}",spec="\ud800"'
    family = Family("a", "gauge", "", [Sample("", labels, 1), f"a{{{labels}}} 2.0\n"])

    assert [(s.labels, s.value) for s in metric_of(family).samples] == [
        ({"agent": name, "spec": "?"}, 1),
        ({"agent": name, "spec": "?"}, 2),
    ]


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def test_two_monitors_do_not_share_a_registry() -> None:
    """The registry refuses a second monitor, whose series would be the same."""
    registry = registry_of(Monitor([]))

    with pytest.raises(DuplicateTimeseries):
        registry.register(MonitorCollector(Monitor([])))
    described = MonitorCollector(Monitor([])).describe()
    assert {metric.name for metric in described} == {f"offrails_{name}" for name in TABLE}
    assert {metric.name for metric in MonitorCollector(Monitor([])).collect()} == {
        f"offrails_{name}" for name in TABLE
    }


def test_the_lock_is_held_while_sums_are_read() -> None:
    """A scrape in another thread reads nothing after the lock is released."""
    held: list[str] = []

    @contextmanager
    def lock() -> Iterator[None]:
        held.append("taken")
        yield
        held.append("let go")

    monitor = rovers()
    metrics = MonitorCollector(monitor, lock()).collect()
    assert held == ["taken", "let go"]
    assert all(isinstance(metric.samples, list) for metric in metrics)


def test_the_documented_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of docs/metrics.md, as it stands there."""
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "metrics.md").read_text(), re.DOTALL
    )
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}

    exec(compile(code, "docs/metrics.md", "exec"), names)

    assert b"offrails_spec_info{" in names["text"]


WITHOUT = """
import sys
import monitor
assert "prometheus_client" not in sys.modules
monitor.Monitor([])
assert "prometheus_client" not in sys.modules
sys.modules["prometheus_client"] = None
try:
    monitor.MonitorCollector
except ImportError as error:
    print(error)
"""


def test_the_library_does_without_it() -> None:
    """prometheus-client is imported with the collector only. If it is missing, the error says what to do."""
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (ended.stdout, ended.stderr) == (
        "MonitorCollector needs prometheus-client: pip install prometheus-client\n",
        "",
    )
