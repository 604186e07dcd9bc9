"""The time of a scrape of a large monitor over HTTP, and the delay of verdicts meanwhile.

    python -m tests.bench.scrape [PAIRS]

100,000 live sessions of 200 agents under 50 specs, each pair with finished sessions and harm as
well. The scraper is a process of its own, and reads again and again. While it reads, calls come at a steady rate, on
schedule; how late a verdict is against its schedule is what the scrape did to it, and the machine.
All calls and harmful verdicts are proven in the end.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections import defaultdict
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from collector.metrics.service import Families, MetricsApp
from collector.net.health import Health
from collector.receive.http.asgi_server import WebApp
from collector.receive.listener.listener import Listener
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.read import load_specs
from monitor.spec.spec import Spec
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import Outcome, of_monitor
from tests.bench.traffic import ROVER, harms

__all__ = ["Crowd"]

SESSIONS, AGENTS, SPECS = 100_000, 200, 50
SCRAPES = 5
RENDERED_MS_MAX, HELD_MS_MAX = 250, 50
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
        base = load_specs([ROVER]).specs[0]
        self._specs: list[Spec] = [replace(base, id=f"spec{n}") for n in range(specs)]
        self._named = [{"service.name": "x", "offrails.spec": spec.id} for spec in self._specs]
        self._agents = agents
        self._made: defaultdict[str, list[str]] = defaultdict(list)
        """Session -> its tools."""
        limits = replace(limits or Limits(), history_complete=True, sessions_max=sessions + 1)
        self.monitor = Monitor(self._specs, limits)
        for number in range(1, sessions + 1):
            self.call(number, number)

    def call(self, number: int, now: int, session: str = "") -> None:
        """A call of a session: its own, or another one of the same agent and spec."""
        session, tool = session or f"s{number}", ("unlock_safety", "water")[number % 2]
        self._made[session].append(tool)
        spec = (number * 7 + number // self._agents) % len(self._specs)
        call = ToolCall(
            session=SessionKey("", session),
            agent=f"agent{number % self._agents}",
            tool=tool,
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

    def proven(self) -> bool:
        """True where the monitor counts exactly the calls and harm that were made."""
        calls = sum(map(len, self._made.values()))
        return of_monitor(self.monitor) == Outcome(calls, sum(map(harms, self._made.values())))

    def finish(self, sessions: int) -> None:
        """So many sessions come and end, in all the pairs in turn."""
        for number in range(1, sessions + 1):
            name = f"ended{number}"
            self.call(number, number, name)
            self.monitor.end(SessionKey("", name), number)


class Scraped(NamedTuple):
    """The least time of several scrapes, and the delay of verdicts meanwhile."""

    pairs: int
    series: int
    megabytes: float
    seconds: float
    rendered_ms: float
    """CPU time of the application alone, without a socket."""
    held_ms: float
    """The longest that it holds the loop, by CPU time."""
    alone_ms: float
    """p99 of how late a verdict is without a scrape."""
    scraped_ms: float
    """The same meanwhile."""


async def _rendered(app: MetricsApp) -> tuple[float, float]:
    """CPU seconds of a scrape, and the longest time of them that others had to wait."""
    waits = [0.0]

    async def others() -> None:
        last = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            waits.append(now - last)
            last = now

    async def send(_message: Any) -> None:
        pass

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    task = asyncio.create_task(others())
    began = time.process_time()
    headers = [(b"accept", b"application/openmetrics-text")]
    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": headers}
    await app(scope, receive, send)
    took = time.process_time() - began
    task.cancel()
    return took, max(waits)


async def _verdicts(crowd: Crowd, numbers: count[int], late: list[float]) -> None:
    """Calls on schedule; notes how late each verdict is."""
    due = time.perf_counter()
    while True:
        await asyncio.sleep(max(0, due - time.perf_counter()))
        # Whatever has come by now: a socket that is ready is read in the same turn of the loop.
        while due <= time.perf_counter():
            number = next(numbers)
            crowd.call(number, 10_000_000 + number)
            late.append(time.perf_counter() - due)
            due += 1 / CALLS_A_SECOND


async def _scraped(crowd: Crowd) -> Scraped:
    app = MetricsApp(Families(crowd.monitor, Stats()), Health())
    rendered, held = min([await _rendered(app) for _ in range(SCRAPES)])
    listener = Listener(WebApp(app), "127.0.0.1:0")
    address = await listener.start()
    numbers, alone, late = count(1), list[float](), list[float]()
    calls = asyncio.create_task(_verdicts(crowd, numbers, alone))
    await asyncio.sleep(2)
    calls.cancel()
    calls = asyncio.create_task(_verdicts(crowd, numbers, late))
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READ, address, str(SCRAPES), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await reader.communicate()
    calls.cancel()
    await listener.stop(0)
    series, size, took = min(
        (line.split() for line in out.decode().splitlines()), key=lambda read: float(read[2])
    )
    return Scraped(
        len(crowd.monitor.totals.pairs),
        int(series),
        int(size) / 1e6,
        float(took),
        rendered * 1e3,
        held * 1e3,
        _p99(alone),
        _p99(late),
    )


def _p99(late: list[float]) -> float:
    """In milliseconds."""
    return sorted(late)[len(late) * 99 // 100] * 1e3


def measure(pairs: int = Limits().pairs_max) -> Scraped:
    """Builds the crowd, scrapes it, proves its calls."""
    crowd = Crowd(SESSIONS, AGENTS, SPECS, Limits(pairs_max=pairs))
    crowd.finish(SESSIONS // 2)
    gc.collect()
    gc.freeze()
    found = asyncio.run(_scraped(crowd))
    gc.unfreeze()
    assert crowd.proven()
    return found


def bounds_of(found: Scraped) -> list[Bound]:
    """The bounds."""
    return [
        Bound("a scrape, of CPU time", found.rendered_ms, RENDERED_MS_MAX, "ms"),
        Bound("held by a scrape at a time", found.held_ms, HELD_MS_MAX, "ms"),
    ]


def table(found: Scraped) -> str:
    """The scrape as a Markdown table."""
    return "\n".join(
        [
            f"| a scrape with {SESSIONS:,} live sessions | |",
            "|---|---|",
            f"| pairs of agent and spec | {found.pairs:,} |",
            f"| series | {found.series:,} |",
            f"| size, MB | {found.megabytes:.1f} |",
            f"| rendered in, CPU ms | {found.rendered_ms:.0f} |",
            f"| read in, ms | {found.seconds * 1e3:.0f} |",
            f"| verdicts late alone, p99 ms | {found.alone_ms:.1f} |",
            f"| verdicts late meanwhile, p99 ms | {found.scraped_ms:.1f} |",
        ]
    )


def main() -> None:
    """Measures, prints."""
    found = measure(*map(int, sys.argv[1:]))
    print(table(found))
    print(bounds.lines(bounds_of(found)))


if __name__ == "__main__":
    main()
