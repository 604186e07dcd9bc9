"""The cost of a span for the whole process, over gRPC and HTTP, beside its peers.

    python -m tests.bench.process

CPU microseconds of the server a span, the least of several rotating rounds. Of ours every row
proves that exactly the calls and harmful verdicts that were sent came of it; of the Collector, that
its metrics count exactly the spans that were sent. Whoever else answers, takes every span.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from typing import NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import NOTHING, Outcome, of_metrics, sent
from tests.bench.sender import Sender, prepared
from tests.bench.service import COLLECTOR, COMPILED, OURS, PLAIN, Server, peers, service, start
from tests.bench.traffic import Traffic, generate

ROUNDS = 10
SIZES: dict[int, int] = {1: 1_500, 50: 120, 512: 12}
"""Spans a request -> requests a round, one after the other."""

Ratios = dict[tuple[str, int], float]
"""(transport, spans a request) -> what a span may cost, in times of the Collector's."""
COMPILED_MAX: Ratios = {
    ("HTTP", 50): 0.4,
    ("gRPC", 50): 0.7,
    ("gRPC", 512): 0.9,
    ("HTTP", 1): 0.5,
    ("gRPC", 1): 0.5,
}
PLAIN_MAX: Ratios = {("HTTP", 50): 1.6, ("gRPC", 50): 1.6}

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
COUNTED = re.compile(r"^traces_span_metrics_calls_total\{.*\} (\S+)$", re.MULTILINE)
FLUSH_SECONDS = 30.0


class Row(NamedTuple):
    """The cost of one server per span."""

    server: str
    transport: str
    spans_a_request: int
    cpu_us: float


def _over_http(server: Server, traffic: Traffic) -> None:
    requests = [prepared(body) for body in traffic.requests]
    with contextlib.closing(Sender(server.ports["http"])) as sender:
        for request in requests:
            sender.post(request)


def _over_grpc(server: Server, traffic: Traffic) -> None:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}", options) as channel:
        export = channel.unary_unary(
            EXPORT,
            request_serializer=bytes,
            response_deserializer=ExportTraceServiceResponse.FromString,
        )
        for request in traffic.requests:
            assert not export(request).partial_success.rejected_spans


TRANSPORTS: dict[str, Callable[[Server, Traffic], None]] = {
    "gRPC": _over_grpc,
    "HTTP": _over_http,
}


def _measure(server: Server, transport: str, traffic: Traffic) -> float:
    """CPU microseconds a span of one round, its work checked."""
    before, begun = _outcome(server), server.cpu_ns()
    TRANSPORTS[transport](server, traffic)
    spent = server.cpu_ns() - begun
    if server.name in (OURS, PLAIN):
        found = _outcome(server).since(before)
        assert found == sent(traffic), (found, sent(traffic))
    return spent / traffic.spans / 1e3


def _outcome(server: Server) -> Outcome:
    return of_metrics(server.metrics()) if server.name in (OURS, PLAIN) else NOTHING


def _counted(server: Server, spans: int) -> None:
    """Waits until a Collector has counted exactly this many spans."""
    deadline, found = time.monotonic() + FLUSH_SECONDS, 0
    while found != spans:
        assert time.monotonic() < deadline, f"{server.name} counts {found} of {spans} spans"
        time.sleep(0.2)
        found = sum(int(float(count)) for count in COUNTED.findall(server.metrics()))
    print(f"{server.name}: counts all of {spans} spans")


def measure() -> list[Row]:
    """All servers, transports and sizes; in each round another server is the first."""
    best: dict[tuple[str, str, int], float] = {}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(service())]
        if COMPILED:
            servers.append(stack.enter_context(service(name=PLAIN, plain=True)))
        servers += [stack.enter_context(start(peer)) for peer in peers()]
        spans = seed = 0
        for turn in range(ROUNDS):
            # Who comes first after the traffic was made finds a machine that has slept, or forgotten.
            first = turn % len(servers)
            in_turn = servers[first:] + servers[:first]
            for transport in TRANSPORTS:
                for size, requests in SIZES.items():
                    seed += 1
                    traffic = generate(size, requests, seed=seed)
                    spans += traffic.spans
                    for server in in_turn:
                        cost = _measure(server, transport, traffic)
                        key = server.name, transport, size
                        best[key] = min(best.get(key, cost), cost)
        for server in servers:
            if server.counts:
                _counted(server, spans)
    return [Row(*key, cost) for key, cost in best.items()]


def bounds_of(rows: list[Row]) -> list[Bound]:
    """The bounds, if the Collector is installed."""
    costs = {row[:3]: row.cpu_us for row in rows}
    builds = {OURS: COMPILED_MAX, PLAIN: PLAIN_MAX} if COMPILED else {OURS: PLAIN_MAX}
    return [
        Bound(
            f"{name}, {transport} {size}, against the Collector",
            costs[name, transport, size] / costs[COLLECTOR, transport, size],
            most,
            "x",
        )
        for name, at_most in builds.items()
        for (transport, size), most in at_most.items()
        if (COLLECTOR, transport, size) in costs
    ]


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    names = list(dict.fromkeys(row.server for row in rows))
    columns = list(dict.fromkeys((row.transport, row.spans_a_request) for row in rows))
    costs = {(row.server, row.transport, row.spans_a_request): row.cpu_us for row in rows}
    lines = [
        "| CPU us a span | " + " | ".join(f"{kind} {size}" for kind, size in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for name in names:
        cells = " | ".join(f"{costs[name, kind, size]:.1f}" for kind, size in columns)
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    measured = measure()
    print(table(measured))
    print(bounds.lines(bounds_of(measured)))
