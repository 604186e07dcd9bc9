"""The CPU time from bytes to verdict, beside parsing alone, with the work checked.

    python -m tests.bench.pipeline

A row that skips work would win, so each one proves its number of calls and of harmful verdicts.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.app import gc_tuning
from collector.calls.pipeline import Pipeline
from collector.decode.protobuf import otlp_proto
from collector.receive.export import Export
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import of_monitor, sent
from tests.bench.service import COMPILED, PLAIN_PATH
from tests.bench.traffic import ROVER, SECOND, Traffic, generate

ROUNDS = 15
SIZES: dict[int, int] = {50: 160, 1: 4_000, 512: 16}
"""Spans a request -> requests."""

Run = Callable[[], None]
"""The work that is timed, and its check."""


def _parse(traffic: Traffic) -> Run:
    def run() -> None:
        for body in traffic.requests:
            ExportTraceServiceRequest.FromString(body)

    return run


def _decode(traffic: Traffic) -> Run:
    def run() -> None:
        found = sum(len(otlp_proto.decode(body).spans) for body in traffic.requests)
        assert found == traffic.spans

    return run


def _judge(traffic: Traffic) -> Run:
    monitor = Monitor([load_spec(ROVER)], Limits(history_complete=True))
    stats = Stats()
    consume = Pipeline(monitor, stats, lambda _: None).consume
    export = Export(consume, stats, lambda: 1_800_000_000 * SECOND)

    def run() -> None:
        for body in traffic.requests:
            export.ingest_now("traces", body, "proto", "grpc")
        found = of_monitor(monitor)
        assert found == sent(traffic), (found, sent(traffic))

    return run


PARSE = "upb FromString alone"
JUDGE = "bytes -> verdict"
RATIO_MAX = {50: 3.0}
"""Spans a request -> what a verdict may cost, in times of the parse alone."""

WAYS: dict[str, Callable[[Traffic], Run]] = {
    PARSE: _parse,
    "bytes -> Span": _decode,
    JUDGE: _judge,
}


class Row(NamedTuple):
    """The cost of one way per span."""

    way: str
    spans_a_request: int
    cpu_us: float


def measure() -> list[Row]:
    """CPU microseconds a span, the least of several rotating rounds."""
    gc_tuning.settle()
    rows = []
    for size, requests in SIZES.items():
        traffic = generate(size, requests)
        best = dict.fromkeys(WAYS, float("inf"))
        for _ in range(ROUNDS):
            for name, way in WAYS.items():
                run = way(traffic)
                gc.collect()
                begin = time.process_time()
                run()
                best[name] = min(best[name], time.process_time() - begin)
        rows += [Row(name, size, took / traffic.spans * 1e6) for name, took in best.items()]
    return rows


def bounds_of(rows: list[Row]) -> list[Bound]:
    """The bounds."""
    costs = {(row.way, row.spans_a_request): row.cpu_us for row in rows}
    return [
        Bound(
            f"{JUDGE}, {size} spans a request, against the parse alone",
            costs[JUDGE, size] / costs[PARSE, size],
            most,
            "x",
        )
        for size, most in RATIO_MAX.items()
    ]


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table, each beside its ratio to the parse alone."""
    sizes = list(dict.fromkeys(row.spans_a_request for row in rows))
    costs = {(row.way, row.spans_a_request): row.cpu_us for row in rows}
    lines = [
        "| CPU us a span | " + " | ".join(f"{size} a request" for size in sizes) + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for way in WAYS:
        cells = (
            f"{costs[way, size]:.2f} ({costs[way, size] / costs[PARSE, size]:.1f}x)"
            for size in sizes
        )
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plain() -> str:
    """The same table for plain Python, if the benchmarks run the compiled build."""
    command = [sys.executable, "-m", "tests.bench.pipeline", "--table"]
    environment = {**os.environ, **PLAIN_PATH}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    measured = measure()
    if "--table" in sys.argv:
        print(table(measured))
        sys.exit()
    print(table(measured))
    print(bounds.lines(bounds_of(measured)))
    if COMPILED:
        print("\nin plain Python:", plain(), sep="\n")
