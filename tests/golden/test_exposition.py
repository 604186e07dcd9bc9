"""The whole text of /metrics, byte for byte, for a fixed monitor.

A name, label, help or number that changes here changes people's alerts and boards. When it is
meant, `GOLDEN=write pytest tests/golden` writes the files anew; read the difference before you
commit it, and tell it in CHANGELOG.md.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from collector.config.settings.alerts import AlertSettings, WebhookSettings
from collector.metrics import service as metrics
from collector.metrics.memory import MemoryMetrics
from collector.metrics.registry import runtime
from collector.metrics.service import Families
from collector.metrics.text_format import lines
from collector.receive.admission import Admission
from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.sink_dispatch import SinkDispatch
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.read import load_specs
from monitor.spec.spec import Spec

HERE = Path(__file__).parent
SPECS = HERE.parents[1] / "dfa_specs"
GOLDEN = ("unlock_safety", "move", "scan", "open_valve", "water", "log")


def _call(
    session: str, number: int, tool: str, agent: str, *, failed: bool = False
) -> ToolCall:
    return ToolCall(
        session=SessionKey("farm", session),
        agent=agent,
        tool=tool,
        arguments={"n": 1},
        error=failed,
        start_ns=number * SECOND,
        end_ns=number * SECOND + 1,
        trace_id=bytes(16),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"service.name": "farm-rover"},
    )


def _usual() -> Spec:
    """A reference learnt from two good runs, which watches every session of the rovers."""
    calls = tuple(seen_call(tool, {"n": 1}, failed=False) for tool in GOLDEN)
    learnt = learn([SeenRun(each, "rover", calls) for each in "ab"])
    text = reference_text(learnt, "usual", match={"service.name": "farm-rover"})
    spec, findings = compile_text(text, "usual.yaml")
    assert spec is not None, findings
    return spec


def rovers() -> Monitor:
    """Three sessions of two agents: one good and finished, one bad, one young."""
    limits = Limits(window_ns=10 * SECOND, idle_ns=100 * SECOND, history_complete=True)
    monitor = Monitor([*load_specs([SPECS]).specs, _usual()], limits)
    numbers = count(1)
    plays = (
        ("good", "rover", GOLDEN),
        ("bad", "rover", ("unlock_safety", "water", "fly", "move", "scan")),
        ("young", 'r"2\\', ("unlock_safety",)),
    )
    for session, agent, tools in plays:
        for tool in tools:
            number = next(numbers)
            monitor.observe(_call(session, number, tool, agent), number * SECOND)
        if session == "good":
            monitor.end(SessionKey("farm", "good"), 7 * SECOND)
    monitor.observe(_call("bad", 90, "move", "rover", failed=True), 20 * SECOND)
    monitor.tick(20 * SECOND)
    return monitor


def _stats() -> Stats:
    stats = Stats()
    stats.request("grpc", "traces", "OK")
    stats.request("http_json", "traces", "400")
    stats.request("http_proto", "metrics", "200")
    stats.span("grpc", "accepted", 12)
    stats.span("grpc", "rejected")
    stats.received("grpc", 4_096)
    stats.drop("duplicate", 2)
    stats.count("arguments_unreadable", "gen_ai")
    stats.count("internal_errors", "ValueError")
    stats.count("sessions_split")
    stats.count("requests_throttled", "farm", "bytes_rate")
    for milliseconds in (0.1, 0.3, 2):
        stats.verdict_latency["grpc"].observe(milliseconds / 1e3)
    stats.span_lag.observe(5)
    return stats


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> Families:
    """The exposed text, without the versions of this machine."""
    monkeypatch.setattr(metrics, "__version__", "1.2.3")
    monkeypatch.setattr(metrics, "BUILD", "plain")
    monkeypatch.setattr("platform.python_version", lambda: "3.11.0")
    settings = AlertSettings(
        alertmanager=("http://a",), webhook=WebhookSettings(url="http://b")
    )
    held = MemoryMetrics(lambda: {"sessions": 4096}, lambda: {"span_trees": 0, "span_ids": 512})
    more: list[metrics.MetricSource] = [
        held,
        Admission(),
        SinkDispatch(settings, AlertLinks(), 0, lambda: 0),
    ]
    return Families(rovers(), _stats(), None, more)


@pytest.mark.parametrize(
    ("name", "accept"),
    [
        ("metrics.txt", "text/plain"),
        ("metrics.openmetrics.txt", "application/openmetrics-text"),
    ],
)
def test_the_whole_text(families: Families, name: str, accept: str) -> None:
    """The text format and OpenMetrics, compared with the file of that name."""
    moving = {metric.name for metric in runtime().collect()}
    made = (each for each in families.collect() if each.name not in moving)
    found = "".join(lines(made, open_metrics="openmetrics" in accept))

    file = HERE / name
    if os.environ.get("GOLDEN") == "write":
        file.write_text(found)
    assert found == file.read_text()
