"""The first minutes of a service on default settings: an order violation of a new agent is caught."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.end_to_end.service import eventually

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

ARGUMENTS = {"move": {"x": 3, "y": 4}, "scan": {"area": "field 3"}}


def _run(service: Service, *tools: str, session: str = "", model: bool = True) -> str:
    """One run of an agent, by OpenTelemetry's SDK and its batching exporter: the session's id."""
    provider = TracerProvider(resource=Resource({"service.name": "farm-rover"}))
    exporter = OTLPSpanExporter(endpoint=f"http://{service.addresses['grpc']}", insecure=True)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("pydantic-ai")
    of = {"gen_ai.conversation.id": session} if session else {}
    messages: list[Any] = [{"role": "user", "parts": [{"type": "text", "content": "water"}]}]
    with tracer.start_as_current_span("agent run", attributes=of) as root:
        for tool in tools:
            asked = {"gen_ai.operation.name": "chat", **of}
            if model:
                asked["gen_ai.input.messages"] = json.dumps(messages)
            with tracer.start_as_current_span("chat model", attributes=asked):
                pass
            made = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, **of}
            made["gen_ai.tool.call.arguments"] = json.dumps(ARGUMENTS.get(tool, {}))
            with tracer.start_as_current_span(f"execute_tool {tool}", attributes=made):
                pass
            messages.append(
                {"role": "assistant", "parts": [{"type": "tool_call", "name": tool}]}
            )
            messages.append({"role": "tool", "parts": [{"type": "tool_call_response"}]})
        trace = f"{root.get_span_context().trace_id:032x}"
    provider.shutdown()
    return session or trace


@pytest.mark.parametrize("session", ["", "conversation-1"], ids=["trace", "session"])
def test_an_order_violation_is_caught_at_once(serve: Serve, session: str) -> None:
    """`move` without `unlock_safety`: harmful for certain, with exact scores, on default settings."""
    service = serve("--specs", "dfa_specs/farm_rover.yaml")

    found = service.judgement(_run(service, "move", "unlock_safety", session=session))

    assert [(step["tool"], step["kind"]) for step in found["steps"]] == [
        ("move", "harmful"),
        ("unlock_safety", "progress"),
    ]
    assert (found["joined"], found["exact"], found["harm_rate"]) == (False, True, 0.5)
    assert eventually(lambda: service.metric("offrails_calls_total", verdict="harmful")) == 1


def test_a_trace_without_messages_is_judged_when_its_root_has_ended(serve: Serve) -> None:
    """Where content is not captured, the root of a trace without a session's id is the proof."""
    service = serve("--specs", "dfa_specs/farm_rover.yaml")

    found = service.judgement(_run(service, "move", model=False))

    assert (found["harmful"], found["joined"]) == (1, False)


def test_what_cannot_be_proven_is_possible_harm(serve: Serve) -> None:
    """A session with an id and without messages: reported, with the time, and counted apart."""
    service = serve("--specs", "dfa_specs/farm_rover.yaml")

    found = service.judgement(_run(service, "move", session="conversation-1", model=False))

    assert (found["harmful"], found["joined"], found["steps"][0]["possible"]) == (0, True, True)
    assert found["steps"][0]["possible_reason"] == "out_of_order"
    assert eventually(lambda: service.metric("offrails_possible_harm_total")) == 1
    assert service.metric("offrails_calls_total", verdict="harmful") == 0
    (line,) = service.logged("possible_harm")
    assert (line["tool"], line["reason"]) == ("move", "out_of_order")
    assert line["unless_began_before"].endswith("Z")


def test_serve_says_until_when_sessions_may_have_begun_before(serve: Serve) -> None:
    """The log has the time and the setting against it; with a complete history it has neither."""
    before = time.time_ns() / 1e9
    line = _started(serve(OFFRAILS_SESSIONS_IDLE_SECONDS="60"))
    until = datetime.fromisoformat(line["may_have_begun_before_until"]).timestamp()

    assert before + 59 <= until <= time.time_ns() / 1e9 + 60
    assert line["off_by"] == "OFFRAILS_HISTORY=complete"
    line = _started(serve(OFFRAILS_HISTORY="complete"))
    assert "may_have_begun_before_until" not in line


def _started(service: Service) -> dict[str, Any]:
    """The log's line on the start."""
    (line,) = service.logged("started")
    return line
