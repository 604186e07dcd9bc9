"""Bytes to verdict, against parsing alone: CPU time, the work checked.

    python -m tests.bench.pipeline

A row that skips work would win, so each one proves its number of calls and of harmful verdicts.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode import otlp_proto
from collector.pipeline import Pipeline
from collector.receivers.export import Export
from collector.stats import Stats
from monitor import Limits, Monitor, load_spec
from monitor.records import Kind
from tests.bench.traffic import Traffic, generate

ROUNDS = 5
ROVER = Path(__file__).parents[2] / "dfa_specs" / "farm_rover.yaml"


def _parse(traffic: Traffic) -> None:
    for body in traffic.requests:
        ExportTraceServiceRequest.FromString(body)


def _decode(traffic: Traffic) -> None:
    found = sum(len(otlp_proto.decode(body).spans) for body in traffic.requests)
    assert found == traffic.spans


def _judge(traffic: Traffic) -> None:
    now = 1_800_000_000 * 1_000_000_000
    monitor = Monitor([load_spec(ROVER)], Limits(history_complete=True))
    stats = Stats()
    export = Export(Pipeline(monitor, stats, lambda _: None).consume, stats, lambda: now)
    for body in traffic.requests:
        export.traces(body, "proto", "grpc")
    calls: dict[Kind, int] = dict.fromkeys(Kind, 0)
    for pair in monitor.totals.pairs.values():
        for kind, count in pair.calls.items():
            calls[kind] += count
    assert sum(calls.values()) == traffic.calls, (calls, traffic.calls)
    assert calls[Kind.HARMFUL] == traffic.harmful, (calls, traffic.harmful)


WAYS: dict[str, Callable[[Traffic], None]] = {
    "upb FromString alone": _parse,
    "bytes -> Span": _decode,
    "bytes -> verdict": _judge,
}


def main() -> None:
    """Prints CPU microseconds a span, the least of several rotating rounds, and the ratios."""
    for size, requests in ((50, 200), (1, 4_000), (512, 24)):
        traffic = generate(size, requests)
        best = dict.fromkeys(WAYS, float("inf"))
        for _ in range(ROUNDS):
            for name, way in WAYS.items():
                gc.collect()
                begin = time.process_time()
                way(traffic)
                best[name] = min(best[name], time.process_time() - begin)
        base = best["upb FromString alone"]
        print(
            f"{size} spans a request: {traffic.spans} spans, {traffic.calls} calls, {traffic.harmful} harmful"
        )
        for name, seconds in best.items():
            micros = seconds / traffic.spans * 1e6
            print(f"  {name:22} {micros:8.2f} us a span  {seconds / base:5.2f} x")


if __name__ == "__main__":
    main()
