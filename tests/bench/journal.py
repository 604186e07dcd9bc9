"""What the journal costs: a record beside other stores, and a span of the service.

    python -m tests.bench.journal

Stores: CPU and wall microseconds of one record of 30 KB, the least of several rounds. Service: CPU
microseconds of the server a span without a journal, with `process` and with `power`, the least of several
rotating rounds, and the p99 of the answer at 1,000 spans a second. Every row proves its calls and harmful verdicts.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from collector.receive.request import Request
from collector.state.journal import Journal, JournalRules
from tests.bench import bounds, latency
from tests.bench.bounds import Bound
from tests.bench.outcome import of_metrics, sent
from tests.bench.process import TRANSPORTS
from tests.bench.service import Server, service
from tests.bench.traffic import generate

BODY: Final = os.urandom(30_000)
RECORDS: Final = 500
STORE_ROUNDS: Final = 5
ROUNDS: Final = 10
SIZES: Final[dict[int, int]] = {1: 1_000, 50: 100}
"""Spans a request -> requests a round, one after the other."""
RATE: Final = 1_000
RATIO_MAX: Final = 1.25
"""CPU of a span with `process`, in times of that without a journal."""
ANSWER_MS_MAX: Final = 20.0
"""p99 of an answer with `power`."""

Put = Callable[[], None]


class Store(NamedTuple):
    """The cost of a record, in microseconds."""

    store: str
    cpu: float
    wall: float


class Cost(NamedTuple):
    """The cost of a span of the service, in microseconds."""

    durability: str
    transport: str
    spans_a_request: int
    cpu: float


class Answer(NamedTuple):
    """Milliseconds to the answer, from when a request was due."""

    durability: str
    p50: float
    p99: float
    verdict_p99: float


# --- stores --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _files(folder: Path, *, sync: bool) -> Iterator[Put]:
    journal = Journal(folder, JournalRules(bytes_max=1 << 30), time.time_ns)
    journal.open()
    journal.begin()

    def put() -> None:
        journal.keep(time.time_ns(), Request("traces", BODY, "proto", "grpc"))
        if sync:
            assert journal.file is not None
            os.fdatasync(journal.file.fd)

    yield put
    journal.release()


@contextlib.contextmanager
def _sqlite(folder: Path, *, sync: bool) -> Iterator[Put]:
    with contextlib.closing(
        sqlite3.connect(folder / "log.db", isolation_level=None)
    ) as database:
        database.execute("pragma journal_mode=wal")
        database.execute(f"pragma synchronous={'full' if sync else 'off'}")
        database.execute("create table log (at integer primary key, body blob)")
        at = time.time_ns()

        def put() -> None:
            nonlocal at
            at += 1
            database.execute("insert into log values (?, ?)", (at, BODY))

        yield put


STORES: Final = {
    "own files": (_files, False),
    "SQLite, WAL, synchronous off": (_sqlite, False),
    "own files, fdatasync": (_files, True),
    "SQLite, WAL, synchronous full": (_sqlite, True),
}


def stores() -> list[Store]:
    """All stores, in turn."""
    best: dict[str, Store] = {}
    for _ in range(STORE_ROUNDS):
        for name, (made, sync) in STORES.items():
            with (
                tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder,
                made(Path(folder), sync=sync) as put,
            ):
                cpu, wall = time.process_time(), time.perf_counter()
                for _ in range(RECORDS):
                    put()
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            found = Store(name, cpu / RECORDS * 1e6, wall / RECORDS * 1e6)
            known = best.get(name, found)
            best[name] = Store(name, min(known.cpu, found.cpu), min(known.wall, found.wall))
    return list(best.values())


# --- the service ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _services(*durabilities: str) -> Iterator[dict[str, Server]]:
    with contextlib.ExitStack() as stack:
        found = {}
        for durability in durabilities:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd())
            )
            found[durability] = stack.enter_context(_kept(Path(folder), durability))
        yield found


@contextlib.contextmanager
def _kept(folder: Path, durability: str) -> Iterator[Server]:
    """A service with a journal; `off` has none."""
    config = folder / "settings.yaml"
    config.write_text(f"state: {{durability: {durability}, bytes_max: 1000000000}}\n")
    options = ["--config", str(config)]
    with service(*options, "--state", str(folder / "state")) as server:
        yield server


def costs() -> list[Cost]:
    """All durabilities, transports and sizes; in each round another server is the first."""
    best: dict[tuple[str, str, int], float] = {}
    with _services("off", "process", "power") as servers:
        seed = 0
        for turn in range(ROUNDS):
            names = list(servers)
            first = turn % len(names)
            for transport, run in TRANSPORTS.items():
                for size, requests in SIZES.items():
                    seed += 1
                    traffic = generate(size, requests, seed=seed)
                    for name in names[first:] + names[:first]:
                        server = servers[name]
                        before, begun = of_metrics(server.metrics()), server.cpu_ns()
                        run(server, traffic)
                        cost = (server.cpu_ns() - begun) / traffic.spans / 1e3
                        found = of_metrics(server.metrics()).since(before)
                        assert found == sent(traffic), (found, sent(traffic))
                        key = name, transport, size
                        best[key] = min(best.get(key, cost), cost)
    return [Cost(*key, cost) for key, cost in best.items()]


def answers() -> list[Answer]:
    """The latencies at a steady rate."""
    found = []
    for name in ("off", "process", "power"):
        with _services(name) as servers:
            row = latency.measure_rate(servers[name], RATE)
            found.append(Answer(name, *row.answer, row.verdict[1]))
    return found


def bounds_of(rows: list[Cost], waits: list[Answer]) -> list[Bound]:
    """CPU with `process`, and the answer with `power`."""
    cpu = {row[:3]: row.cpu for row in rows}
    found = [
        Bound(
            f"{transport} {size}, `process` against none",
            cost / cpu["off", transport, size],
            RATIO_MAX,
        )
        for (name, transport, size), cost in cpu.items()
        if name == "process"
    ]
    p99 = next(each.p99 for each in waits if each.durability == "power")
    return [*found, Bound("p99 of an answer with `power`", p99, ANSWER_MS_MAX, "ms")]


def main() -> None:
    """Measures all of it and says what was found."""
    print("store                          cpu us  wall us")
    for each in stores():
        print(f"{each.store:30s} {each.cpu:6.0f}  {each.wall:7.0f}")
    rows = costs()
    print("\njournal  transport  spans/request  cpu us/span")
    for row in sorted(rows, key=lambda row: (row.transport, row.spans_a_request)):
        print(
            f"{row.durability:8s} {row.transport:10s} {row.spans_a_request:13d} {row.cpu:12.1f}"
        )
    waits = answers()
    print(f"\nanswers at {RATE:,} spans/s: ms  p50    p99   verdict p99")
    for wait in waits:
        print(f"{wait.durability:26s} {wait.p50:7.2f} {wait.p99:6.2f} {wait.verdict_p99:8.2f}")
    print(bounds.lines(bounds_of(rows, waits)))


if __name__ == "__main__":
    main()
