"""CPU per span of decoding, in ratios to the protobuf runtime alone.

    python tests/bench/decode.py [--rounds N]

A generated request of 50 spans of about 3 KB each (40 % tool calls, 40 % chat, 20 % agent) is
decoded again and again, the ways taking turns; the least time of each way counts. Every row
checks the number of spans, and of tool calls found by reading attributes.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode import otlp_json, otlp_proto
from collector.decode.span import Batch

SPANS = 50
TOOL_CALLS = 20
TEXT = "The water pressure in zone 3 is below the threshold of 2.5 bar; check the valve. "


def text(rng: random.Random, size: int) -> str:
    start = rng.randrange(len(TEXT))
    return (TEXT[start:] + TEXT * (size // len(TEXT) + 1))[:size]


def attributes(rng: random.Random, number: int) -> tuple[str, int, dict[str, Any]]:
    """Name, kind and attributes of the span with this number."""
    common = {"gen_ai.conversation.id": f"conversation-{rng.randrange(1000):04d}"}
    if number % 5 < 2:
        arguments = json.dumps({"zone": rng.randrange(9), "note": text(rng, 90)})
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "open_valve",
            "gen_ai.tool.call.id": f"call_{rng.randbytes(12).hex()}",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": text(rng, 300),
            "gen_ai.agent.name": "rover",
            "gen_ai.tool.call.arguments": arguments,
            "gen_ai.tool.call.result": text(rng, 1900),
        }
        return "execute_tool open_valve", 1, tool | common
    if number % 5 < 4:
        chat = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.request.temperature": 0.5,
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.response.id": f"chatcmpl-{rng.randbytes(12).hex()}",
            "gen_ai.usage.input_tokens": rng.randrange(5000),
            "gen_ai.usage.output_tokens": rng.randrange(500),
            "gen_ai.response.finish_reasons": ["tool_calls"],
            "server.address": "api.openai.com",
            "server.port": 443,
            "gen_ai.input.messages": text(rng, 1800),
            "gen_ai.output.messages": text(rng, 500),
        }
        return "chat gpt-4o", 3, chat | common
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "rover",
        "gen_ai.agent.id": "asst_1",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.system_instructions": text(rng, 1200),
        "gen_ai.input.messages": text(rng, 1300),
    }
    return "invoke_agent rover", 1, agent | common


def request(seed: int = 1) -> ExportTraceServiceRequest:
    rng = random.Random(seed)
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    for key, value in (("service.name", "farm-rover"), ("telemetry.sdk.language", "python")):
        group.resource.attributes.add(key=key).value.string_value = value
    scope = group.scope_spans.add()
    scope.scope.name = "opentelemetry.instrumentation.openai"
    for number in range(SPANS):
        start = 1_700_000_000_000_000_000 + number * 1_000_000
        name, kind, found = attributes(rng, number)
        span = scope.spans.add(
            trace_id=rng.randbytes(16),
            span_id=rng.randbytes(8),
            parent_span_id=rng.randbytes(8),
            name=name,
            kind=kind,
            start_time_unix_nano=start,
            end_time_unix_nano=start + 500_000,
            flags=256,
        )
        for key, value in found.items():
            set_value(span.attributes.add(key=key).value, value)
    return message


def set_value(target: Any, value: Any) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    else:
        for item in value:
            target.array_value.values.add().string_value = item


def to_json(message: ExportTraceServiceRequest) -> bytes:
    document = json_format.MessageToDict(message, use_integers_for_enums=True)
    spans = message.resource_spans[0].scope_spans[0].spans
    items = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for item, span in zip(items, spans, strict=True):
        item["traceId"] = span.trace_id.hex()
        item["spanId"] = span.span_id.hex()
        item["parentSpanId"] = span.parent_span_id.hex()
    return json.dumps(document).encode()


def plan_of(keys: tuple[str, ...]) -> tuple[int, int, int]:
    """Return where the wanted keys are, -1 for none."""
    operation = keys.index("gen_ai.operation.name")
    if "gen_ai.tool.name" not in keys:
        return operation, -1, -1
    name, arguments = "gen_ai.tool.name", "gen_ai.tool.call.arguments"
    return operation, keys.index(name), keys.index(arguments)


def tool_calls(batch: Batch) -> int:
    """Read what a dialect would, where each shape says it is."""
    plans: dict[tuple[str, ...], tuple[int, int, int]] = {}
    found = 0
    for span in batch.spans:
        plan = plans.get(span.shape)
        if plan is None:
            plan = plans[span.shape] = plan_of(span.codec.keys(span.shape))
        operation, name, arguments = plan
        values, value = span.values, span.codec.value
        if name >= 0 and value(values[operation]) == "execute_tool":
            assert value(values[name]) == "open_valve"
            assert value(values[arguments])[0] == "{"
            found += 1
    return found


def count_spans(message: ExportTraceServiceRequest) -> int:
    return sum(len(s.spans) for group in message.resource_spans for s in group.scope_spans)


def measure(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the least CPU seconds of each way; they take turns, so noise meets all alike."""
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.process_time_ns()
            for _ in range(5):
                way()
            least[name] = min(least[name], (time.process_time_ns() - begin) / 5e9)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    message = request()
    proto, as_json = message.SerializeToString(), to_json(message)
    full = ExportTraceServiceRequest.FromString
    ways: dict[str, Callable[[], Any]] = {
        "upb FromString alone": lambda: full(proto),
        "protobuf -> list[Span]": lambda: otlp_proto.decode(proto),
        "protobuf -> tool calls read": lambda: tool_calls(otlp_proto.decode(proto)),
        "JSON -> list[Span]": lambda: otlp_json.decode(as_json),
    }
    assert count_spans(full(proto)) == SPANS
    for batch in (otlp_proto.decode(proto), otlp_json.decode(as_json)):
        assert (len(batch.spans), batch.rejected) == (SPANS, 0)
        assert tool_calls(batch) == TOOL_CALLS
    least = measure(ways, rounds)
    base = least["upb FromString alone"]
    print(
        f"{SPANS} spans, {len(proto) / SPANS:.0f} B a span, {len(as_json) / SPANS:.0f} B as JSON"
    )
    for name, seconds in least.items():
        print(f"{name:30} {seconds / SPANS * 1e6:7.2f} us/span {seconds / base:6.2f}x")


if __name__ == "__main__":
    main()
