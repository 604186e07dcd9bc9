"""The training load of a compiled build: the usual paths of spans, repeated often (`hatch_build.py`).

    python -m tests.bench.training

Spans from bytes to verdicts, in one process and over sockets, as protobuf and as JSON, in requests of
all sizes; with keys never seen together; sessions that end, under tasks and policies; and scrapes. As in
the benchmarks, whose traffic it is, each part proves its work.
"""

from __future__ import annotations

from collector.app import gc_tuning
from tests.bench import decode, histories, longrun, policies
from tests.bench.pipeline import JUDGE, WAYS
from tests.bench.process import TRANSPORTS
from tests.bench.service import COMPILED, service
from tests.bench.traffic import generate

SEED = 1_000
"""Other sessions than those that are measured."""
IN_PROCESS: dict[int, int] = {50: 320, 1: 4_000, 512: 16}
OVER_SOCKETS: dict[int, int] = {1: 1_500, 50: 120, 512: 12}
"""Spans a request -> requests."""
SCRAPES = 3


def main() -> None:
    """Takes them all; an error ends it, and the build."""
    assert COMPILED, "only what is compiled can be trained"
    gc_tuning.settle()
    for size, requests in IN_PROCESS.items():
        WAYS[JUDGE](generate(size, requests, seed=SEED))()
    decode.measure()
    histories.measure()
    longrun.measure()
    policies.main()
    with service() as server:
        for number, (size, requests) in enumerate(OVER_SOCKETS.items(), SEED + 1):
            for transport in TRANSPORTS.values():
                transport(server, generate(size, requests, seed=number))
        for _ in range(SCRAPES):
            server.metrics()


if __name__ == "__main__":
    main()
