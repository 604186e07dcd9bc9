"""What a next hop costs: CPU of a span that goes on, beside one that does not.

    python -m tests.bench.forward

CPU microseconds of the server a span, the least of several rotating rounds: without a next hop, with one over HTTP, one
over gRPC, one whose spans are annotated, and one with a journal. Where `make deploy-tools` has built a Collector, it
passes the same requests on over gRPC, with a queue in memory and with one in files. The next hop is another service: every row proves that all of its calls, and no
other, have arrived there.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import NOTHING, of_metrics, sent
from tests.bench.process import TRANSPORTS
from tests.bench.service import ROOT, Peer, Server, service, start
from tests.bench.traffic import Traffic, generate

ROUNDS: Final = 2
SIZES: Final[dict[int, int]] = {1: 300, 50: 40}
"""Spans a request -> requests a round, one after the other."""
WAIT_SECONDS: Final = 30.0
MOST: Final[Mapping[tuple[str, int], float]] = {
    ("HTTP", 50): 2.0,
    ("gRPC", 50): 1.5,
}
"""(next hop, spans a request) -> CPU of a span, in times of that without one."""
NONE: Final = "none"
COLLECTOR: Final = "Collector, otlp to otlp"
COLLECTOR_WITH_FILES: Final = "Collector, queue in files"
PROGRAM: Final = ROOT / ".tools" / "otelcol"
CONFIG: Final = """\
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{grpc}", max_recv_msg_size_mib: 64}}
      http: {{endpoint: "127.0.0.1:{http}", max_request_body_size: 67108864}}
extensions:
  file_storage: {{directory: "%(folder)s", create_directory: true}}
exporters:
  otlp:
    endpoint: 127.0.0.1:%(port)d
    compression: none
    tls: {{insecure: true}}
    sending_queue: {{%(queue)s}}
service:
  extensions: [file_storage]
  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlp]}}
"""
QUEUES: Final = {COLLECTOR: "", COLLECTOR_WITH_FILES: "storage: file_storage"}
"""Collector -> the setting of its queue."""


class Cost(NamedTuple):
    """The cost of a span, in microseconds."""

    hop: str
    transport: str
    spans_a_request: int
    cpu: float


class Pair(NamedTuple):
    """A server, and the service to which it sends; None for none."""

    server: Server
    hop: Server | None


@contextlib.contextmanager
def _pairs() -> Iterator[dict[str, Pair]]:
    """All that is compared. Each has a next hop of its own, which counts what arrives."""
    with contextlib.ExitStack() as stack:
        found = {NONE: Pair(stack.enter_context(service()), None)}
        for name, more in _hops().items():
            hop = stack.enter_context(service(name=f"next hop of {name}"))
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix=".bench-", dir=ROOT))
            )
            config = folder / "settings.yaml"
            config.write_text(yaml.safe_dump(_settings(hop, folder, more)))
            server = stack.enter_context(service("--config", str(config), name=name))
            found[name] = Pair(server, hop)
        for name, queue in QUEUES.items() if PROGRAM.exists() else ():
            hop = stack.enter_context(service(name=f"next hop of {name}"))
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix=".bench-", dir=ROOT))
            given = {"folder": f"{place}/queue", "port": hop.ports["grpc"], "queue": queue}
            peer = Peer(name, (str(PROGRAM), "--config", "{config}"), CONFIG % given)
            found[name] = Pair(stack.enter_context(start(peer)), hop)
        yield found


def _hops() -> dict[str, dict[str, Any]]:
    return {
        "HTTP": {"protocol": "http"},
        "gRPC": {"protocol": "grpc"},
        "HTTP, annotated": {"protocol": "http", "annotate": True},
        "HTTP, journal": {"protocol": "http", "journal": True},
    }


def _settings(hop: Server, folder: Path, more: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in more.items() if key != "journal"}
    url = f"http://127.0.0.1:{hop.ports[given['protocol']]}"
    found: dict[str, Any] = {"forward": [{"endpoint": url, **given}]}
    if more.get("journal"):
        found["state"] = {"dir": str(folder / "state"), "bytes_max": 1_000_000_000}
    return found


def _measure(name: str, pair: Pair, transport: str, traffic: Traffic) -> float:
    """CPU microseconds a span, up to when all has arrived."""
    server, hop = pair
    is_ours = name not in QUEUES
    here = of_metrics(server.metrics()) if is_ours else NOTHING
    there = of_metrics(hop.metrics()) if hop is not None else NOTHING
    true, begun = sent(traffic), server.cpu_ns()
    TRANSPORTS[transport](server, traffic)
    if hop is not None:
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := of_metrics(hop.metrics()).since(there)) != true:
            assert time.monotonic() < deadline, (name, found, true)
            time.sleep(0.05)
    cost = (server.cpu_ns() - begun) / traffic.spans / 1e3
    if is_ours:
        judged = of_metrics(server.metrics()).since(here)
        assert judged == true, (name, judged, true)
    return cost


def costs() -> list[Cost]:
    """All next hops, transports and sizes; in each round another one is the first."""
    best: dict[tuple[str, str, int], float] = {}
    with _pairs() as pairs:
        seed = 0
        names = list(pairs)
        for transport in TRANSPORTS:  # connects, and loads what the first request needs
            for name in names:
                seed += 1
                _measure(name, pairs[name], transport, generate(1, 10, seed=seed))
        for turn in range(ROUNDS):
            first = turn % len(names)
            for transport in TRANSPORTS:
                for size, requests in SIZES.items():
                    seed += 1
                    traffic = generate(size, requests, seed=seed)
                    for name in names[first:] + names[:first]:
                        cost = _measure(name, pairs[name], transport, traffic)
                        key = name, transport, size
                        best[key] = min(best.get(key, cost), cost)
    return [Cost(*key, cost) for key, cost in best.items()]


def bounds_of(rows: list[Cost]) -> list[Bound]:
    """What a span that goes on may cost, in times of one that does not."""
    cpu = {row[:3]: row.cpu for row in rows}
    return [
        Bound(
            f"{transport} {size}, next hop over {name}", cost / cpu[NONE, transport, size], most
        )
        for (name, transport, size), cost in cpu.items()
        if (most := MOST.get((name, size))) is not None
    ]


def main() -> None:
    """Measures all of it and says what was found."""
    rows = costs()
    print("next hop                   transport  spans/request  cpu us/span")
    for row in sorted(rows, key=lambda row: (row.transport, row.spans_a_request)):
        print(f"{row.hop:26s} {row.transport:10s} {row.spans_a_request:13d} {row.cpu:12.1f}")
    print(bounds.lines(bounds_of(rows)))
    print("check: every row's calls and harmful verdicts were counted by its next hop: kept")


if __name__ == "__main__":
    main()
