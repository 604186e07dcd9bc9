"""Generated traffic for the benchmarks: requests as agents send them, with known outcomes."""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

__all__ = ["SECOND", "Traffic", "generate"]

GOLDEN = ("unlock_safety", "move", "scan", "open_valve", "water", "log")
HARMFUL = ("unlock_safety", "move", "water", "scan", "open_valve", "water", "log")
SECOND = 1_000_000_000
SPAN_BYTES = 3_000


class Traffic(NamedTuple):
    """Requests, and what must come of them."""

    requests: list[bytes]
    spans: int
    calls: int
    harmful: int


def generate(
    spans_a_request: int,
    requests: int,
    *,
    seed: int = 1,
    start_ns: int = 1_700_000_000 * SECOND,
) -> Traffic:
    """Traffic of many sessions in flight: 40 % tool spans, 40 % chat, 20 % agent spans.

    One session in four waters before the valve is open.
    """
    chance = random.Random(seed)
    live: list[list[Span]] = []
    batches: list[bytes] = []
    calls = harmful = serial = 0
    for _ in range(requests):
        batch: list[Span] = []
        while len(batch) < spans_a_request:
            if len(live) < 200:
                tools = HARMFUL if chance.random() < 0.25 else GOLDEN
                serial += 1
                live.append(_session(serial, tools, start_ns + serial * SECOND, chance))
            session = chance.choice(live)
            span = session.pop(0)
            batch.append(span)
            if span.name.startswith("execute_tool"):
                calls += 1
                harmful += span.name.endswith("water") and len(_left(session, "water")) == 1
            if not session:
                live.remove(session)
        batches.append(_request(batch))
    return Traffic(batches, requests * spans_a_request, calls, harmful)


def _left(session: list[Span], tool: str) -> list[Span]:
    return [span for span in session if span.name == f"execute_tool {tool}"]


def _session(
    serial: int, tools: tuple[str, ...], start_ns: int, chance: random.Random
) -> list[Span]:
    """The spans of one session in the order they end: chat, tool, ..., now and then an agent."""
    trace = chance.randbytes(16)
    conversation = f"bench-{serial}-{trace.hex()[:8]}"
    spans = []
    for number, tool in enumerate(tools):
        begin = start_ns + number * SECOND
        spans.append(_chat(trace, conversation, begin, chance))
        spans.append(_tool(trace, tool, begin + SECOND // 2, chance))
        if number % 2:
            spans.append(_agent(trace, conversation, start_ns, begin + SECOND, chance))
    return spans


def _tool(trace: bytes, tool: str, begin: int, chance: random.Random) -> Span:
    return _span(
        trace,
        f"execute_tool {tool}",
        begin,
        begin + SECOND // 4,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": f"call_{chance.randrange(16**12):012x}",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": "A tool of the farm rover.",
            "gen_ai.tool.call.arguments": '{"x": 3, "y": 4, "note": "' + "n" * 80 + '"}',
            "gen_ai.tool.call.result": "r" * (SPAN_BYTES - 600),
        },
        chance,
    )


def _chat(trace: bytes, conversation: str, begin: int, chance: random.Random) -> Span:
    return _span(
        trace,
        "chat gpt-4o",
        begin,
        begin + SECOND // 3,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o",
            "gen_ai.conversation.id": conversation,
            "gen_ai.usage.input_tokens": 512,
            "gen_ai.usage.output_tokens": 64,
            "gen_ai.input.messages": "m" * (SPAN_BYTES - 700),
            "gen_ai.output.messages": json.dumps(
                [
                    {
                        "role": "assistant",
                        "parts": [{"type": "text", "content": "o" * 200}],
                        "finish_reason": "tool_call",
                    }
                ]
            ),
        },
        chance,
    )


def _agent(
    trace: bytes, conversation: str, begin: int, end: int, chance: random.Random
) -> Span:
    return _span(
        trace,
        "invoke_agent farm_rover",
        begin,
        end,
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "farm_rover",
            "gen_ai.agent.id": "rover-1",
            "gen_ai.conversation.id": conversation,
            "gen_ai.system_instructions": "i" * (SPAN_BYTES - 450),
        },
        chance,
    )


def _span(
    trace: bytes,
    name: str,
    begin: int,
    end: int,
    attributes: dict[str, str | int],
    chance: random.Random,
) -> Span:
    return Span(
        trace_id=trace,
        span_id=chance.randbytes(8),
        parent_span_id=trace[:8],
        name=name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=begin,
        end_time_unix_nano=end,
        attributes=[_attribute(key, value) for key, value in attributes.items()],
        status=Status(),
        flags=256,
    )


def _attribute(key: str, value: str | int) -> KeyValue:
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _request(spans: list[Span]) -> bytes:
    resource = ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])
    resource.scope_spans[0].scope.name = "farm.rover"
    resource.resource.attributes.extend(
        [
            _attribute("service.name", "farm-rover"),
            _attribute("service.instance.id", "c40de952-cba1-4886-bb6f-d4007ae8b35a"),
            _attribute("telemetry.sdk.language", "python"),
        ]
    )
    return ExportTraceServiceRequest(resource_spans=[resource]).SerializeToString()
