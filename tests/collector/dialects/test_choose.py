"""The plan of a span: chosen by its shape, kept for spans of that shape."""

from __future__ import annotations

import base64
import json
from itertools import product
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode.json import otlp_json
from collector.decode.protobuf import otlp_proto
from collector.dialects.choose import MARK_MAX, SESSION_KEYS, SLOTS, Plans
from collector.dialects.model_messages.outputs import outputs_of, requested
from collector.dialects.plan import ReadPlan
from collector.dialects.read import agent_of

GUARDED = ("traceloop.span.kind", "gen_ai.operation.name")
MOVE = {"x": 3, "y": 4}


def test_each_span_names_its_own_agent() -> None:
    """The agent's name may equal the last one, differ, be missing, or be too long for the cache."""
    names = ["rover", "rover", "mower", "OpenAI Agent", "rover", "", "x" * MARK_MAX, "rover"]
    message = ExportTraceServiceRequest()
    for number, name in enumerate(names, start=1):
        span = message.resource_spans.add().scope_spans.add().spans.add()
        span.trace_id, span.span_id = bytes([number]) * 16, bytes([number]) * 8
        span.attributes.add(key="gen_ai.agent.name").value.string_value = name

    plans = Plans(SESSION_KEYS, ())
    spans = otlp_proto.decode(message.SerializeToString()).spans
    found = [agent_of(span, plans.of(span)) for span in spans]
    assert found == [name if name != "OpenAI Agent" else "" for name in names]


def _told(plan: ReadPlan) -> tuple[Any, ...]:
    calls = [each.dialect.name for each in plan.calls]
    return calls, plan.stop, plan.silent, plan.outputs is None, len(plan.agents), plan.session


@pytest.mark.parametrize("decode", [otlp_proto.decode, otlp_json.decode])
def test_spans_of_one_shape_have_the_plan_of_their_own_values(decode: Any) -> None:
    """However they alternate, and in either encoding: nothing is left over from the one before."""
    kinds, operations = ("tool", "agent", 1), ("execute_tool", "chat", b"chat", "")
    pairs = [*product(kinds, operations), *product(kinds, operations[::-1]), ("tool", "chat")]
    spans = _spans(decode, [dict(zip(GUARDED, pair, strict=True)) for pair in pairs])
    plans = Plans(SESSION_KEYS, ())

    assert len({id(span.shape) for span in spans}) == 1
    for span in spans:
        expected = _told(Plans(SESSION_KEYS, ()).of(span))
        assert _told(plans.of(span)) == expected == _told(plans.of(span))


def test_many_shapes_have_each_their_plan() -> None:
    """More of them than there are slots, of which several share each."""
    keys = [f"gen_ai.key{number}" for number in range(SLOTS * 2)]
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "a"}
    given = [tool | {key: 1} if number % 2 else {key: 1} for number, key in enumerate(keys)]
    plans, spans = Plans(SESSION_KEYS, ()), _spans(otlp_proto.decode, given)

    for span in (*spans, *spans):
        assert bool(plans.of(span).calls) is (len(span.shape) == 3)


def _spans(decode: Any, given: list[dict[str, Any]]) -> list[Any]:
    """Spans with these attributes, as one of the decoders reads them."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add().scope_spans.add()
    for number, attributes in enumerate(given, start=1):
        span = group.spans.add()
        span.trace_id, span.span_id = bytes(15) + b"1", number.to_bytes(8, "big")
        for key, value in attributes.items():
            kind = {str: "string_value", int: "int_value", bytes: "bytes_value"}[type(value)]
            setattr(span.attributes.add(key=key).value, kind, value)
    if decode is otlp_proto.decode:
        return list(decode(message.SerializeToString()).spans)
    document = json_format.MessageToDict(message)
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId"):
            span[key] = base64.b64decode(span[key]).hex()
    return list(decode(json.dumps(document).encode()).spans)


@pytest.mark.parametrize("decode", [otlp_proto.decode, otlp_json.decode])
@pytest.mark.parametrize("size", [10, 5_000, 20_000])
def test_requests_are_found_in_messages_of_any_length(decode: Any, size: int) -> None:
    """A long text is only scanned, with the same result as a short one."""
    key = "gen_ai.output.messages"
    outputs = outputs_of({key: 0})
    assert outputs is not None
    said = {"type": "text", "content": "a" * size}
    asked = {"type": "tool_call", "id": "c1", "name": "move", "arguments": MOVE}
    for parts, names in (([said], []), ([said, asked], ["move"])):
        (span,) = _spans(decode, [{key: json.dumps([{"parts": parts}])}])
        for names_only in (True, False):
            found = requested(span, outputs, names_only=names_only)
            assert [each.tool for each in found] == names
