"""Changes of an agent that was seen before, on real captures: another framework, arguments that are turned off."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from collector.app.notices import Notices
from collector.calls.pipeline import Pipeline
from collector.offline.progress_bar import Progress
from collector.offline.replay import recorded
from collector.sinks.log import LogSink
from collector.telemetry.counters import Stats
from collector.telemetry.logs import captured, log
from monitor.engine import Monitor
from monitor.limits import SECOND

CAPTURES = Path(__file__).parents[3] / ".." / "shared" / "captures"

pytestmark = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason="no captures beside the repository"
)


class Observer:
    """A pipeline and its notices, with a clock of its own."""

    def __init__(self) -> None:
        self.now = 2_000_000_000 * SECOND
        self.stats = Stats()
        self.monitor = Monitor(())
        self.pipeline = Pipeline(self.monitor, self.stats, lambda _: None)
        sink = LogSink(log, clock=self.clock)
        self.notices = Notices(
            self.monitor, self.pipeline.inventory, sink, self.stats, self.clock
        )

    def clock(self) -> int:
        return self.now

    def send(self, *names: str) -> None:
        """Sends recorded runs, and lets a minute pass."""
        for name in names:
            file = CAPTURES / f"{name}.otlp.jsonl"
            for spans in recorded(file, Progress([file], stream=io.StringIO())).requests:
                self.pipeline.consume(spans, self.now, "http_json")
        self.notices.tick(self.now)
        self.now += 60 * SECOND
        self.notices.tick(self.now)

    def shown(self) -> dict[str, Any]:
        """The service as `/api/v1/seen` shows it."""
        (agent,) = self.pipeline.inventory
        found: dict[str, Any] = agent.as_json()
        return found


def _changes(events: list[Any]) -> list[dict[str, Any]]:
    return [dict(each) for each in events if each["event"] == "agent_changed"]


def test_another_framework_in_a_service_is_logged_once() -> None:
    """Spans of OpenAI Agents in a service of LangChain are one line, with both instrumentations, and one count."""
    with captured() as events:
        seen = Observer()
        seen.send("langchain-openinference/golden", "langchain-openinference/harmful")
        assert not _changes(events)
        seen.send("openai-agents-openinference/golden", "langchain-openinference/error")
        seen.send("openai-agents-openinference/harmful")

    (change,) = _changes(events)
    assert (change["service"], change["agent"], change["change"]) == (
        "farm-rover",
        "farm_rover",
        "instrumentation",
    )
    assert change["instrumentation"] == "openinference.instrumentation.openai_agents"
    assert change["dialect"] == "openai_agents_openinference"
    assert change["earlier"] == ["openinference.instrumentation.langchain"]
    assert seen.stats.counts["agent_changes", "instrumentation"] == 1
    (kept,) = seen.shown()["changes"]
    assert kept["instrumentation"] == change["instrumentation"]


def test_frameworks_that_a_service_has_from_the_start_are_no_change() -> None:
    """Two frameworks in a service's first seconds are both in its first line."""
    with captured() as events:
        Observer().send("langchain-openinference/golden", "openai-agents-openinference/golden")

    (agent,) = [each for each in events if each["event"] == "agent_seen"]
    assert agent["dialects"] == ["langchain_openinference", "openai_agents_openinference"]
    assert not _changes(events)


def test_arguments_that_are_turned_off_and_on_again_are_logged() -> None:
    """An agent whose calls had arguments goes on without, and has them again: one line each."""
    with captured() as events:
        seen = Observer()
        seen.send("otel-genai-semconv/golden")
        seen.send("otel-genai-semconv-nocontent/golden")
        assert not _changes(events), "six calls without arguments are not enough"
        seen.send("otel-genai-semconv-nocontent/harmful")
        seen.send("otel-genai-semconv/harmful")

    stopped, resumed = _changes(events)
    assert (stopped["change"], stopped["agent"]) == ("arguments_stopped", "farm_rover")
    assert (stopped["level"], stopped["calls"]) == ("warning", 11), (
        "two calls are of tools that had no arguments before"
    )
    assert stopped["to_see_arguments"] == [
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"
    ]
    assert resumed["change"] == "arguments_resumed"
    assert seen.stats.counts["agent_changes", "arguments_stopped"] == 1


def test_an_agent_without_arguments_from_the_start_has_not_changed() -> None:
    """Arguments that were never there cannot stop, however many calls come."""
    with captured() as events:
        seen = Observer()
        seen.send("otel-genai-semconv-nocontent/golden", "otel-genai-semconv-nocontent/harmful")
        seen.send("otel-genai-semconv-nocontent/golden")

    assert not _changes(events)
