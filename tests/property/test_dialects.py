"""Made-up spans: nothing an agent writes makes a dialect raise, and arrival order is nothing."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collector.calls.pipeline import Pipeline
from collector.decode.span import Resource, Span
from collector.dialects.choose import SESSION_KEYS, Plans
from collector.dialects.names.session_and_agent_keys import (
    AGENT_KEYS,
    AGENT_SPANS,
    METADATA_SCOPES,
)
from collector.dialects.read import TOO_LONG, SpanReading, agent_of, read, unpended, wrapped_by
from collector.dialects.registry import DIALECTS
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.limits import Limits

SECOND = 1_000_000_000
RESOURCES = [Resource({"service.name": name}) for name in ("agent", "server")]


class Codec:
    """Values are there already."""

    def keys(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        return shape

    def value(self, raw: Any) -> Any:
        return raw

    name = value

    def is_large(self, raw: Any) -> bool:
        return False

    def events(self, raw: Any) -> Any:
        return raw


CODEC = Codec()


def _span(
    name: str,
    attributes: dict[str, Any],
    *,
    span_id: bytes = b"span-id1",
    parent: bytes = b"",
    start: int = 1,
    end: int = 2,
    status: int = 0,
    kind: int = 1,
    scope: str = "",
    resource: Resource = RESOURCES[0],
    events: Any = (),
) -> Span:
    return Span(
        trace_id=b"0123456789abcdef",
        span_id=span_id,
        parent_span_id=parent,
        name=name,
        kind=kind,
        start_ns=start,
        end_ns=end,
        status=status,
        resource=resource,
        scope=scope,
        dropped=0,
        shape=tuple(attributes),
        values=list(attributes.values()),
        codec=CODEC,
        events=list(events),
    )


KEYS = sorted(
    {
        key
        for dialect in DIALECTS
        for key in (
            *dialect.when,
            *dialect.unless,
            *dialect.some,
            *dialect.tool,
            *dialect.call_id,
            *dialect.request_id,
            *dialect.failed_result,
            *dialect.values,
            *dialect.not_values,
            *dialect.failed,
            *dialect.control_marks,
            *(source.key for source in dialect.arguments),
        )
    }
    | {*SESSION_KEYS, *AGENT_KEYS, "metadata", "error.type", "logfire.span_type"}
    | {"logfire.pending_parent_id", "gen_ai.output.messages", "ai.response.toolCalls"}
    | {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name"}
    | {"llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments"}
    | {"llm.output_messages.0.message.tool_calls.0.tool_call.id"}
    | {"llm.input_messages.0.message.tool_call_id", "gen_ai.input.messages"}
)
SCOPES = sorted(
    {scope for dialect in DIALECTS for scope in dialect.scopes}
    | {scope for span in AGENT_SPANS for scope in span.scopes}
    | {*METADATA_SCOPES, "", "other"}
)
WORDS = sorted(
    {word for dialect in DIALECTS for words in dialect.values.values() for word in words}
    | {
        "AGENT",
        "CHAIN",
        "LLM",
        "chat",
        "invoke_agent",
        "pending_span",
        "agent",
        "ERROR",
        "00aa",
    }
)
NAMES = (
    "execute_tool a",
    "tools/call a",
    "MCP send tools/call a",
    "a.tool",
    "tools",
    "x.run",
    "",
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=8)
    | st.text(max_size=20)
    | st.sampled_from(WORDS)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "args",
                    "kwargs",
                    "inputs",
                    "input_str",
                    "arguments",
                    "tool_name",
                    "input",
                    "parts",
                    "type",
                    "name",
                    "id",
                    "is_error",
                    "lc_agent_name",
                    "tool_call_id",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def _as_json(value: Any) -> str:
    return json.dumps(value, default=repr)


contents = values | values.map(_as_json) | st.lists(values, max_size=2).map(_as_json)
made_up = st.builds(
    _span,
    st.sampled_from(NAMES) | st.text(max_size=10),
    st.dictionaries(st.sampled_from(KEYS), contents, max_size=12),
    span_id=st.sampled_from([b"%08d" % n for n in range(6)]),
    parent=st.sampled_from([b"", *(b"%08d" % n for n in range(7))]),
    start=st.integers(0, 5),
    end=st.integers(0, 5),
    status=st.integers(0, 3),
    kind=st.integers(0, 5),
    scope=st.sampled_from(SCOPES),
    resource=st.sampled_from(RESOURCES),
    events=st.lists(
        st.tuples(
            st.sampled_from(["exception", "gen_ai.tool.message", "other"]),
            st.dictionaries(st.sampled_from(["content", "gen_ai.input.messages"]), contents),
            st.just(1),
        ),
        max_size=2,
    ),
)


@given(made_up)
def test_no_value_makes_a_dialect_raise(span: Span) -> None:
    """Any attribute of any type, depth or size gives a well-typed reading, or none."""
    plan = Plans(SESSION_KEYS, ()).of(span)
    reading = read(span, plan)
    agent_of(span, plan)
    wrapped_by(span, plan)
    unpended(span, plan)

    assert reading is None or _is_sound(reading)


def _is_sound(reading: SpanReading) -> bool:
    texts = (reading.dialect, reading.tool, reading.call_id, reading.request_id)
    return (
        all(type(text) is str for text in texts)
        and bool(reading.tool)
        and (reading.arguments is None or type(reading.arguments) is dict)
        and all(type(flag) is bool for flag in (reading.error, reading.control))
    )


def _pipeline(**options: Any) -> tuple[Monitor, Pipeline]:
    limits = Limits(history_complete=True, keep_arguments=True, fold=False)
    monitor = Monitor((), limits)
    return monitor, Pipeline(monitor, Stats(), lambda _: None, **options)


@given(st.lists(made_up, max_size=12), st.sampled_from(["auto", "always", "never"]))
def test_no_spans_make_the_pipeline_raise(spans: list[Span], requested: str) -> None:
    """Circles of parents, doubled ids and bad clocks included."""
    monitor, pipeline = _pipeline(requested=requested)
    pipeline.consume(spans, 10, "test")
    pipeline.finish()
    for judgement in monitor.judgements():
        assert judgement["calls"] <= len(spans) * 4


def test_depth_and_size_are_bounded() -> None:
    """Deeply nested and huge texts are unreadable, not fatal."""
    base = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "a" * 1_000}
    for text in ("[" * 100_000, '{"a":' * 100_000, '"' + "x" * 1_000_000, "9" * 100_000):
        span = _span("x", {**base, "gen_ai.tool.call.arguments": text})
        reading = read(span, Plans(SESSION_KEYS, ()).of(span))
        assert reading is not None
        assert reading.unreadable
    span = _span("x", {**base, "gen_ai.tool.name": "a" * 100_000})
    assert read(span, Plans(SESSION_KEYS, ()).of(span)) is TOO_LONG


@st.composite
def forests(draw: st.DrawFn) -> list[Span]:
    """A trace as agents make them: agents, chats and tools below each other, any of them silent."""
    spans: list[Span] = []
    for number in range(draw(st.integers(1, 9))):
        parent = draw(st.sampled_from([None, *range(number)])) if number else None
        above = spans[parent] if parent is not None else None
        start = (above.start_ns if above else 0) + draw(st.integers(1, 3)) * SECOND
        attributes: dict[str, Any] = {}
        kind = draw(st.sampled_from(["tool", "tool", "tool", "mcp", "agent", "chat", "plain"]))
        if draw(st.booleans()):
            attributes["gen_ai.conversation.id"] = draw(st.sampled_from(["one", "two"]))
        if kind == "tool":
            attributes |= {"gen_ai.operation.name": "execute_tool"}
            attributes["gen_ai.tool.name"] = draw(st.sampled_from(["a", "b"]))
            if draw(st.booleans()):
                attributes["gen_ai.tool.call.arguments"] = json.dumps({"n": number})
            if draw(st.booleans()):
                attributes["gen_ai.tool.call.id"] = draw(st.sampled_from(["i", "j"]))
        elif kind == "mcp":
            attributes |= {"mcp.method.name": "tools/call", "gen_ai.tool.name": "a"}
        elif kind in ("agent", "chat"):
            attributes["gen_ai.operation.name"] = "invoke_agent" if kind == "agent" else "chat"
        spans.append(
            _span(
                kind,
                attributes,
                span_id=b"%08d" % number,
                parent=above.span_id if above else b"",
                start=start,
                end=start + draw(st.integers(1, 9)) * SECOND,
                status=draw(st.sampled_from([0, 0, 2])),
            )
        )
    return spans


def _result(spans: list[Span], size: int = 1) -> Any:
    """The result of the spans, in requests of this size."""
    monitor, pipeline = _pipeline()
    for first in range(0, len(spans), size):
        pipeline.consume(spans[first : first + size], 100 * SECOND, "test")
    found = [
        (judgement["session"], judgement["steps"])
        for judgement in monitor.judgements()
        if judgement["steps"]
    ]
    return sorted(found, key=lambda each: each[0])


@given(forests(), st.data())
def test_arrival_order_is_nothing(spans: list[Span], data: st.DataObject) -> None:
    """Any permutation and duplication ends in the same calls, of the same sessions."""
    order = data.draw(st.permutations(spans))
    again = data.draw(st.lists(st.sampled_from(spans), max_size=3))

    assert _result([*order, *again]) == _result(spans)


@given(forests(), st.data())
def test_what_comes_together_is_nothing(spans: list[Span], data: st.DataObject) -> None:
    """The grouping of spans into requests changes neither calls nor sessions."""
    order = data.draw(st.permutations(spans))
    size = data.draw(st.integers(2, 9))

    assert _result(order, size) == _result(order)
