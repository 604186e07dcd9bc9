"""The monitor inside the agent's process: real spans of the real SDK, judged as over the wire."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer

from collector.calls.pipeline import Pipeline
from collector.decode.protobuf import otlp_proto
from collector.sdk import MonitorSpanProcessor
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, Verdict, load_spec
from monitor.records import Kind

ROOT = Path(__file__).parents[3]
ROVER = load_spec(ROOT / "dfa_specs" / "farm_rover.yaml")
BAD = ("unlock_safety", "move", "scan", "water", "open_valve", "water", "log")
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "move": {"x": 3, "y": 4},
    "scan": {"area": "field 3"},
    "open_valve": {"valve": "V3"},
    "water": {"field": 3, "liters": 10},
    "log": {"message": "done"},
}


def monitor() -> Monitor:
    return Monitor([ROVER], Limits(history_complete=True))


def provider(**given: Any) -> TracerProvider:
    return TracerProvider(resource=Resource.create({"service.name": "farm-rover"}), **given)


def call(tracer: Tracer, tool: str, session: str = "s", *, failed: bool = False) -> None:
    """One tool call, as the GenAI conventions write it."""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.conversation.id": session,
        "gen_ai.tool.call.arguments": json.dumps(ARGUMENTS.get(tool, {})),
    }
    with tracer.start_as_current_span(f"execute_tool {tool}", attributes=attributes) as span:
        if failed:
            span.set_status(Status(StatusCode.ERROR))


def drive(processor: MonitorSpanProcessor, tools: Sequence[str], **given: Any) -> None:
    tracer_provider = provider()
    tracer_provider.add_span_processor(processor)
    tracer = tracer_provider.get_tracer("rover")
    for tool in tools:
        call(tracer, tool, **given)


def harmful(verdicts: Sequence[Verdict]) -> list[str]:
    return [each.tool for each in verdicts if each.kind is Kind.HARMFUL]


def test_a_harmful_call_is_told_when_it_ends() -> None:
    """The verdict comes in the agent's own process, once, with its reason and its skipped steps."""
    told: list[Verdict] = []
    processor = MonitorSpanProcessor(monitor(), told.extend)
    drive(processor, BAD)

    assert harmful(told) == ["water"]
    assert told[0].skipped == ("open_valve",)
    assert processor.errors == 0
    [found] = processor.monitor.find("s")
    assert (found["calls"], found["harmful"]) == (7, 1)


def test_what_is_judged_equals_the_wire() -> None:
    """The same spans, encoded by the SDK's exporter and decoded, end in the same judgements."""
    kept = InMemorySpanExporter()
    processor = MonitorSpanProcessor(monitor())
    tracer_provider = provider()
    tracer_provider.add_span_processor(processor)
    tracer_provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = tracer_provider.get_tracer("rover", "1.0")
    for session in ("one", "two"):
        with tracer.start_as_current_span("invoke_agent rover", kind=SpanKind.CLIENT) as agent:
            agent.set_attribute("gen_ai.agent.name", "rover")
            agent.set_attribute("gen_ai.tags", ["a", "b"])
            agent.add_event("note", {"k": [1, 2]})
            for tool in BAD:
                call(tracer, tool, session, failed=tool == "scan")
    finished = kept.get_finished_spans()
    by_wire = monitor()
    spans = otlp_proto.decode(encode_spans(finished).SerializeToString()).spans
    Pipeline(by_wire, Stats(), lambda _: None).consume(spans, _end(finished), "grpc")

    for judge in (processor.monitor, by_wire):
        judge.close(_end(finished))
    assert _objects(processor.monitor) == _objects(by_wire)


def _end(spans: Sequence[ReadableSpan]) -> int:
    return max(span.end_time or 0 for span in spans)


def _objects(judge: Monitor) -> list[dict[str, Any]]:
    found = sorted(judge.judgements(), key=lambda each: each["session"])
    for each in found:
        del each["coverage"][
            "spans"
        ]  # those of calls are seen twice here: they start, and they end
    return found


def test_a_call_is_pending_until_it_ends() -> None:
    """While the tool runs the call is in its session already, and it is counted once in the end."""
    processor = MonitorSpanProcessor(monitor())
    tracer_provider = provider()
    tracer_provider.add_span_processor(processor)
    tracer = tracer_provider.get_tracer("rover")
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "unlock_safety",
        "gen_ai.conversation.id": "s",
        "gen_ai.tool.call.arguments": "{}",
    }
    with tracer.start_as_current_span("execute_tool unlock_safety", attributes=attributes):
        [found] = processor.monitor.find("s")
        assert [step["evidence"] for step in found["steps"]] == ["pending"]
    [found] = processor.monitor.find("s")
    assert [step["evidence"] for step in found["steps"]] == ["executed"]


def test_many_threads_lose_no_call() -> None:
    """Eight threads with their own sessions: every call is judged exactly once."""
    processor = MonitorSpanProcessor(monitor())
    tracer_provider = provider()
    tracer_provider.add_span_processor(processor)
    tracer = tracer_provider.get_tracer("rover")

    def work(session: str) -> None:
        for tool in BAD * 5:
            call(tracer, tool, session)

    threads = [threading.Thread(target=work, args=(f"s{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list(processor.monitor.judgements())
    assert [each["calls"] for each in found] == [35] * 8
    assert processor.errors == 0


def test_whoever_takes_verdicts_cannot_harm_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    """A callback that raises, or makes spans itself, costs the agent nothing; it is logged once."""

    def broken(_: Sequence[Verdict]) -> None:
        raise RuntimeError("no")

    processor = MonitorSpanProcessor(monitor(), broken)
    drive(processor, ("water", "water", "water"))
    assert processor.errors == 3
    assert len(caplog.records) == 1

    tracer_provider = provider()
    chatty = MonitorSpanProcessor(
        monitor(), lambda _: call(tracer_provider.get_tracer("x"), "water", "other")
    )
    tracer_provider.add_span_processor(chatty)
    call(tracer_provider.get_tracer("x"), "water")
    assert chatty.errors == 0
    assert list(chatty.monitor.find("other")) == []


def test_over_the_bound_is_not_the_agents_trouble() -> None:
    """A span with too long a key is rejected, and the agent goes on."""
    processor = MonitorSpanProcessor(monitor())
    tracer_provider = provider(span_limits=SpanLimits(max_attribute_length=None))
    tracer_provider.add_span_processor(processor)
    with tracer_provider.get_tracer("x").start_as_current_span("y") as span:
        span.set_attribute("k" * 5_000, 1)
    assert processor.errors == 1


def test_shutdown_makes_verdicts_final() -> None:
    """The provider's shutdown ends every session."""
    final: list[Verdict] = []
    judge = monitor()
    judge.on_final(final.append)
    processor = MonitorSpanProcessor(judge)
    drive(processor, BAD)
    assert processor.force_flush()
    processor.shutdown()
    assert harmful(final) == ["water"]
    assert judge.sessions == 0
