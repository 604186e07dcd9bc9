"""CPU per span of decoding and reading, protobuf and JSON, in ratios to the protobuf runtime alone.

    python -m tests.bench.decode [--rounds N]

Requests of 50 spans in four dialects are decoded again and again, the ways taking turns; the least
time of each way counts. Every way proves its number of spans, and where calls are read, of calls.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.app import gc_tuning
from collector.decode.json import otlp_json
from collector.decode.protobuf import otlp_proto
from collector.decode.span import SpanBatch
from collector.dialects.choose import SESSION_KEYS, Plans
from collector.dialects.read import read
from monitor import load_spec
from monitor.session.spec_binding import SpecBinder
from tests.bench.traffic import ROVER, Traffic, generate

SPANS = 50
REQUESTS = 10
ROUNDS = 30
PARSE = "upb FromString alone"

Decode = Callable[[bytes], SpanBatch]
Way = Callable[[], None]


class Row(NamedTuple):
    """The cost of one way per span."""

    way: str
    cpu_us: float


def _to_json(body: bytes) -> bytes:
    """The same request as OTLP/JSON."""
    message = ExportTraceServiceRequest.FromString(body)
    document = json_format.MessageToDict(message, use_integers_for_enums=True)
    spans = (s for g in message.resource_spans for scope in g.scope_spans for s in scope.spans)
    items: list[dict[str, Any]] = [
        item
        for group in document["resourceSpans"]
        for scope in group["scopeSpans"]
        for item in scope["spans"]
    ]
    for item, span in zip(items, spans, strict=True):
        item["traceId"], item["spanId"] = span.trace_id.hex(), span.span_id.hex()
        if span.parent_span_id:
            item["parentSpanId"] = span.parent_span_id.hex()
    return json.dumps(document).encode()


def _parsed(traffic: Traffic) -> Way:
    def run() -> None:
        for body in traffic.requests:
            ExportTraceServiceRequest.FromString(body)

    return run


def _decoded(traffic: Traffic, bodies: list[bytes], decode: Decode) -> Way:
    def run() -> None:
        assert sum(len(decode(body).spans) for body in bodies) == traffic.spans

    return run


def _read(traffic: Traffic, bodies: list[bytes], decode: Decode) -> Way:
    """Reads tool calls and other spans as the dialects do."""
    plans = Plans(SESSION_KEYS, SpecBinder([load_spec(ROVER)]).keys())

    def run() -> None:
        calls = 0
        for body in bodies:
            for span in decode(body).spans:
                plan = plans.of(span)
                calls += bool(plan.calls) and read(span, plan) is not None
        assert calls == traffic.calls, (calls, traffic.calls)

    return run


def measure(rounds: int = ROUNDS) -> list[Row]:
    """CPU microseconds a span; the ways take turns, so noise meets all alike."""
    traffic = generate(SPANS, REQUESTS)
    as_json = [_to_json(body) for body in traffic.requests]
    ways = {
        PARSE: _parsed(traffic),
        "protobuf -> Span": _decoded(traffic, traffic.requests, otlp_proto.decode),
        "protobuf -> calls read": _read(traffic, traffic.requests, otlp_proto.decode),
        "JSON -> Span": _decoded(traffic, as_json, otlp_json.decode),
        "JSON -> calls read": _read(traffic, as_json, otlp_json.decode),
    }
    gc_tuning.settle()  # as the service does
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            least[name] = min(least[name], time.process_time() - begin)
    return [Row(name, seconds / traffic.spans * 1e6) for name, seconds in least.items()]


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table, each beside its ratio to the parse alone."""
    base = rows[0].cpu_us
    lines = [f"| way, {SPANS} spans a request | CPU us a span |", "|---|---|"]
    lines += [f"| {way} | {cost:.2f} ({cost / base:.1f}x) |" for way, cost in rows]
    return "\n".join(lines)


def main() -> None:
    """Measures, prints."""
    parser = argparse.ArgumentParser(description="What decoding costs.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    print(table(measure(parser.parse_args().rounds)))


if __name__ == "__main__":
    main()
