"""A scrape of a large monitor over HTTP, and what it costs those whose calls are judged meanwhile.

    python -m tests.bench.scrape [PAIRS]

100,000 live sessions of 200 agents under 50 specs, each pair with finished sessions and harm as
well. The scraper is a process of its own. While it reads, calls come at a steady rate, on
schedule; how late a verdict is against its schedule is what the scrape did to it, and the machine.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from dataclasses import replace
from pathlib import Path

from collector.health import Health
from collector.metrics import Families, MetricsApp
from collector.receivers.listener import Listener
from collector.receivers.web import WebApp
from collector.stats import Stats
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.read import load_specs
from monitor.spec.spec import Spec

__all__ = ["Crowd"]

SPECS = Path(__file__).parents[2] / "dfa_specs"
SCRAPES = 5
CALLS_A_SECOND = 1_000
READ = """
import http.client, sys, time
connection = http.client.HTTPConnection(sys.argv[1], timeout=60)
accept = {"accept": "application/openmetrics-text"}
for _ in range(int(sys.argv[2])):
    began, lines, size = time.perf_counter(), 0, 0
    connection.request("GET", "/metrics", headers=accept)
    answer = connection.getresponse()
    while part := answer.read(1 << 20):
        lines, size = lines + part.count(b"\\n") - part.count(b"\\n#"), size + len(part)
    print(lines, size, time.perf_counter() - began, flush=True)
    time.sleep(0.2)
"""


class Crowd:
    """Sessions of many agents under many specs, half of them with harm.

    Args:
        sessions: live ones, a call each.
        agents: so many; a session's is told by its number.
        specs: so many, all of them the rover's task.
        limits: the monitor's.
    """

    def __init__(
        self, sessions: int, agents: int, specs: int, limits: Limits | None = None
    ) -> None:
        base = load_specs([SPECS / "farm_rover.yaml"]).specs[0]
        self._specs: list[Spec] = [replace(base, id=f"spec{n}") for n in range(specs)]
        self._named = [{"service.name": "x", "offrails.spec": spec.id} for spec in self._specs]
        self._agents = agents
        limits = replace(limits or Limits(), history_complete=True, sessions_max=sessions + 1)
        self.monitor = Monitor(self._specs, limits)
        for number in range(1, sessions + 1):
            self.call(number, number)

    def call(self, number: int, now: int, session: str = "") -> None:
        """A call of a session: its own, or another one of the same agent and spec."""
        spec = (number * 7 + number // self._agents) % len(self._specs)
        call = ToolCall(
            session=SessionKey("", session or f"s{number}"),
            agent=f"agent{number % self._agents}",
            tool=("unlock_safety", "water")[number % 2],
            arguments={},
            error=False,
            start_ns=now,
            end_ns=now,
            trace_id=number.to_bytes(16, "big"),
            span_id=now.to_bytes(8, "big"),
            parent_span_id=b"",
            call_id="",
            evidence=Evidence.EXECUTED,
            attributes=self._named[spec],
        )
        self.monitor.observe(call, now)

    def finish(self, sessions: int) -> None:
        """So many sessions come and end, in all the pairs in turn."""
        for number in range(1, sessions + 1):
            name = f"ended{number}"
            self.call(number, number, name)
            self.monitor.end(SessionKey("", name), number)


async def _verdicts(crowd: Crowd, late: list[float]) -> None:
    """Calls on schedule; notes how late each verdict is."""
    due, number = time.perf_counter(), 0
    while True:
        await asyncio.sleep(max(0, due - time.perf_counter()))
        # Whatever has come by now: a socket that is ready is read in the same turn of the loop.
        while due <= time.perf_counter():
            number += 1
            crowd.call(number, 10_000_000 + number)
            late.append(time.perf_counter() - due)
            due += 1 / CALLS_A_SECOND


async def _measure(crowd: Crowd) -> None:
    app = MetricsApp(Families(crowd.monitor, Stats()), Health())
    listener = Listener(WebApp(app), "127.0.0.1:0")
    address = await listener.start()
    alone: list[float] = []
    calls = asyncio.create_task(_verdicts(crowd, alone))
    await asyncio.sleep(2)
    calls.cancel()
    late: list[float] = []
    calls = asyncio.create_task(_verdicts(crowd, late))
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READ, address, str(SCRAPES), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await reader.communicate()
    calls.cancel()
    for line in out.decode().splitlines():
        series, size, took = line.split()
        print(f"{series} series, {int(size) / 1e6:.1f} MB, read in {float(took) * 1e3:.0f} ms")
    for name, found in (("alone", sorted(alone)), ("while scraped", sorted(late))):
        p99 = found[len(found) * 99 // 100]
        print(f"verdicts late, {name}: p99 {p99 * 1e3:.1f} ms, most {found[-1] * 1e3:.1f} ms")
    await listener.stop(0)


def main() -> None:
    """Builds the crowd, scrapes it, prints what it took."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else Limits().pairs_max
    crowd = Crowd(100_000, 200, 50, Limits(pairs_max=pairs))
    crowd.finish(50_000)
    gc.collect()
    gc.freeze()
    print(f"{crowd.monitor.sessions} live sessions, {len(crowd.monitor.totals.pairs)} pairs")
    asyncio.run(_measure(crowd))


if __name__ == "__main__":
    main()
