"""The current OpenTelemetry span is named in a question, as what it is."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from tests.offrails_guard.conftest import Make
from tests.offrails_guard.double import Double

IDS = ("trace_id", "span_id", "parent_span_id")


@pytest.fixture
def tracer() -> Tracer:
    return TracerProvider().get_tracer("t")


def ids(asked: dict[str, Any]) -> list[str | None]:
    return [asked.get(key) for key in IDS]


def test_without_a_span_there_are_no_ids(double: Double, make: Make) -> None:
    """A call outside of any trace names none."""
    make().check("scan")

    assert ids(double.asked()) == [None, None, None]


def test_the_agents_span_is_the_parent(double: Double, make: Make, tracer: Tracer) -> None:
    """Several calls can be below a span that is no tool's, so it is never taken for a call's own."""
    with tracer.start_as_current_span("invoke_agent") as span:
        make().check("scan")
    context = span.get_span_context()

    trace_id, parent = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    assert ids(double.asked()) == [trace_id, None, parent]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gen_ai.operation.name", "execute_tool"),
        ("openinference.span.kind", "TOOL"),
        ("traceloop.span.kind", "tool"),
    ],
)
def test_a_tools_span_is_the_calls_own(
    double: Double, make: Make, tracer: Tracer, key: str, value: str
) -> None:
    """A span that says it is a tool's is the call; the span above it is the parent."""
    with (
        tracer.start_as_current_span("invoke_agent") as agent,
        tracer.start_as_current_span("tool", attributes={key: value}) as tool,
    ):
        make().check("scan")

    asked = double.asked()
    assert asked["span_id"] == f"{tool.get_span_context().span_id:016x}"
    assert asked["parent_span_id"] == f"{agent.get_span_context().span_id:016x}"


def test_given_ids_stay(double: Double, make: Make, tracer: Tracer) -> None:
    """Ids that a check names are not replaced by those of the current span."""
    with tracer.start_as_current_span("invoke_agent"):
        make().check("scan", trace_id="0" * 31 + "1", span_id="0" * 15 + "2")

    assert ids(double.asked()) == ["0" * 31 + "1", "0" * 15 + "2", None]
