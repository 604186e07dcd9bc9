"""The cost of a request in the transports: the real receivers, with a pipeline that only counts.

    python -m tests.bench.transport

CPU microseconds of the server a request, the least of several rotating rounds, and how much of it
the kernel took; beside it what Export takes of that where it has the whole body at once, which is
decoding. What is left is the cost of receiving: sockets, frames, and cutting large bodies into slices.
Every row proves that exactly the requests and spans that were sent were taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import uvloop

from collector.app.listening.listeners import build_admission, build_receivers
from collector.config.settings.receiver import ReceiverSettings
from collector.decode.span import Span
from collector.receive.export import Export
from collector.telemetry.counters import Stats
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.process import TRANSPORTS
from tests.bench.service import ROOT, Server
from tests.bench.traffic import Traffic, generate

ROUNDS = 5
SIZES: dict[int, int] = {1: 1_000, 50: 120, 512: 12}
"""Spans a request -> requests a round."""
LARGE = 512
"""Spans of a request of 1.5 MB with one resource and one scope, as the SDK of one agent sends."""
ONE_SCOPE = f"{LARGE}, one scope"
RECEIVING_US_MAX = 2.0
"""What receiving a large request may take a span."""


class Row(NamedTuple):
    """The cost of a request, in microseconds."""

    transport: str
    kind: str
    """Of the requests: how many spans each has."""
    cpu: float
    kernel: float
    """Of `cpu`."""
    export: float
    """Of `cpu`: the same bodies, given to Export without a transport, each at once."""


class State(NamedTuple):
    """The work and the time of a server; times in seconds."""

    requests: float
    spans: float
    cpu: float
    user: float
    kernel: float

    def since(self, other: State) -> State:
        """The difference."""
        return State(*(now - then for now, then in zip(self, other, strict=True)))


class Counted:
    """An Export whose pipeline only counts."""

    def __init__(self) -> None:
        self.spans = 0
        self.stats = Stats()
        self.export = Export(self._consume, self.stats, time.time_ns)

    def _consume(self, spans: list[Span], _now_ns: int, _transport: str) -> None:
        self.spans += len(spans)


async def serve() -> None:
    """Listens, and answers each line on standard input with its state."""
    counted = Counted()
    settings = ReceiverSettings(grpc="127.0.0.1:0", http="127.0.0.1:0")
    admission = build_admission(settings, counted.stats)
    servers = build_receivers(settings, counted.export, admission, settings.max_connections)

    def tell() -> None:
        sys.stdin.readline()
        used = os.times()
        requests = sum(counted.stats.requests.values())
        cpu = time.process_time()
        print(json.dumps([requests, counted.spans, cpu, used.user, used.system]), flush=True)

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), tell)
    print(json.dumps({name: await server.start() for name, server in servers.items()}))
    sys.stdout.flush()
    await asyncio.Event().wait()


class Probe:
    """The server, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        addresses = json.loads(process.stdout.readline())
        ports = {name: int(place.rpartition(":")[2]) for name, place in addresses.items()}
        self.server = Server("transports", process.pid, ports)

    def state(self) -> State:
        """The work and the time so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return State(*json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def probe() -> Iterator[Probe]:
    """A server, ready."""
    command = [sys.executable, "-m", "tests.bench.transport", "serve"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            yield Probe(process)
        finally:
            process.kill()


def _round(running: Probe, transport: str, traffic: Traffic) -> State:
    """The cost of one round, with its work checked."""
    before = running.state()
    TRANSPORTS[transport](running.server, traffic)
    spent = running.state().since(before)
    assert (spent.requests, spent.spans) == (len(traffic.requests), traffic.spans), spent
    return spent


def _export_us(traffic: Traffic) -> float:
    """Export alone."""
    counted = Counted()
    begun = time.process_time()
    for body in traffic.requests:
        counted.export.ingest_now("traces", body, "proto", "grpc")
    spent = time.process_time() - begun
    assert counted.spans == traffic.spans
    return spent / len(traffic.requests) * 1e6


def measure() -> list[Row]:
    """All transports and sizes, in rotating rounds."""
    best: dict[tuple[str, str], Row] = {}
    traffic = {str(size): generate(size, count) for size, count in SIZES.items()}
    traffic[ONE_SCOPE] = generate(LARGE, SIZES[LARGE], speakers=1)
    alone = dict.fromkeys(traffic, float("inf"))
    with probe() as running:
        for _ in range(ROUNDS):
            for kind, requests in traffic.items():
                alone[kind] = min(alone[kind], _export_us(requests))
                for transport in TRANSPORTS:
                    spent = _round(running, transport, requests)
                    share = spent.kernel / max(spent.user + spent.kernel, 1e-9)
                    cpu = spent.cpu / spent.requests * 1e6
                    row = Row(transport, kind, cpu, cpu * share, 0.0)
                    best[transport, kind] = min(best.get((transport, kind), row), row)
    return [row._replace(export=alone[row.kind]) for row in best.values()]


def bounds_of(rows: list[Row]) -> list[Bound]:
    """The bounds."""
    return [
        Bound(
            f"receiving a span of a large request, {row.transport}",
            (row.cpu - row.export) / LARGE,
            RECEIVING_US_MAX,
            "us",
        )
        for row in rows
        if row.kind == ONE_SCOPE
    ]


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| CPU us a request | all | of it the kernel | of it Export |",
        "|---|---|---|---|",
    ]
    for row in rows:
        name = f"{row.transport} {row.kind}"
        lines.append(f"| {name} | {row.cpu:.0f} | {row.kernel:.0f} | {row.export:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        uvloop.run(serve())
    else:
        measured = measure()
        print(table(measured))
        print(bounds.lines(bounds_of(measured)))
