"""What a span costs the whole process, over gRPC and HTTP, beside its peers.

    python -m tests.bench.process

CPU microseconds of the server a span, the least of several rotating rounds. Of ours every row
proves that exactly the calls and harmful verdicts that were sent came of it.
"""

from __future__ import annotations

import contextlib
import http.client
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import grpc

from tests.bench.service import Server, peers, service, start
from tests.bench.traffic import Traffic, generate

ROUNDS = 4
SIZES: dict[int, int] = {1: 1_500, 50: 120, 512: 12}
"""Spans a request -> requests a round."""

WORKERS = 1
"""Requests in flight: with more of them the order of arrival, and so the work, would be chance."""

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Row(NamedTuple):
    """What one server needs for a span."""

    server: str
    transport: str
    spans_a_request: int
    cpu_us: float


def _over_http(server: Server, traffic: Traffic) -> None:
    def send(bodies: list[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"])
        for body in bodies:
            headers = {"Content-Type": "application/x-protobuf"}
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
        connection.close()

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(send, [traffic.requests[n::WORKERS] for n in range(WORKERS)]))


def _over_grpc(server: Server, traffic: Traffic) -> None:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}", options) as channel:
        export = channel.unary_unary(
            EXPORT, request_serializer=bytes, response_deserializer=bytes
        )
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(export, traffic.requests))


TRANSPORTS: dict[str, Callable[[Server, Traffic], None]] = {
    "gRPC": _over_grpc,
    "HTTP": _over_http,
}


def _counts(server: Server) -> tuple[int, int]:
    """(calls judged, harmful ones) as the service's own metrics say; zeros for a peer."""
    if server.name != "offrails":
        return 0, 0
    calls = harmful = 0
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['metrics']}/metrics") as page:
        for line in page.read().decode().splitlines():
            count = int(float(line.rsplit(" ", 1)[1])) if line[0] != "#" else 0
            if line.startswith("offrails_calls_total{"):
                calls += count
                harmful += count if 'verdict="harmful"' in line else 0
            elif line.startswith("offrails_verdict_revisions_total{"):
                harmful += count if 'to="harmful"' in line else 0
                harmful -= count if 'from="harmful"' in line else 0
    return calls, harmful


def _measure(server: Server, transport: str, size: int, seed: int) -> float:
    """CPU microseconds a span of one round, its work checked."""
    traffic = generate(size, SIZES[size], seed=seed)
    calls, harmful = _counts(server)
    before = server.cpu_ns()
    TRANSPORTS[transport](server, traffic)
    spent = server.cpu_ns() - before
    if server.name == "offrails":
        now = _counts(server)
        done = now[0] - calls, now[1] - harmful
        assert done == (traffic.calls, traffic.harmful), (done, traffic.calls, traffic.harmful)
    return spent / traffic.spans / 1e3


def measure() -> list[Row]:
    """All servers, transports and sizes, in rotating rounds."""
    best: dict[tuple[str, str, int], float] = {}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(service())]
        servers += [stack.enter_context(start(peer)) for peer in peers()]
        seed = 0
        for _ in range(ROUNDS):
            for transport in TRANSPORTS:
                for size in SIZES:
                    seed += 1
                    for server in servers:
                        key = server.name, transport, size
                        cost = _measure(server, transport, size, seed)
                        best[key] = min(best.get(key, cost), cost)
    return [Row(*key, cost) for key, cost in best.items()]


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
    print(table(measure()))
