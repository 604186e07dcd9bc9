"""The cost of live sessions: bytes by length, many at once, and the time of a late call.

    python -m tests.bench.memory

Bytes are what the process allocates for sessions of one task with one golden path of 16 symbols,
measured over many sessions, everything that the monitor keeps for them included. The whole pipeline
is measured with generated traffic: what it remembers of the traces of the last minutes comes on top.
Each row proves its calls and harmful verdicts.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from collector.calls.pipeline import Pipeline
from collector.receive.export import Export
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, SessionKey, Spec, ToolCall, load_spec
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.spec.compiler.compile import compile_text
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import Outcome, of_monitor, sent
from tests.bench.traffic import ROVER, Traffic, generate

__all__ = ["LIMITS_BYTES", "Cost", "bytes_a_session", "later_call", "spec"]

LIMITS_BYTES = {5: 1_536, 64: 4_096, 10_000: 6_144}
"""By length of a session in calls, what it may cost."""

LATE_MAX = 1.5
"""What a late call of a session may cost, in times of an early one."""

_SESSIONS = {5: 2_000, 64: 200, 10_000: 10}
EARLY, LATE, EACH = 100, 10_000, 250
ROUNDS = 3

WITH_IDS = "the same with call ids of 29 bytes"
START = 1_700_000_000 * SECOND
GOLDEN = 16
MANY = 100_000
ATTRIBUTES = {"service.name": "bench"}


class Row(NamedTuple):
    """Bytes a live session."""

    what: str
    sessions: int
    calls: float
    bytes_each: float


class Cost(NamedTuple):
    """Microseconds a call."""

    early: float
    late: float


def spec() -> Spec:
    """A task with one golden path of 16 symbols, and a read."""
    names = [f"step{number}" for number in range(GOLDEN)]
    alphabet = "\n".join(f"  {name}: {{tool: {name}}}" for name in [*names, "look"])
    text = (
        f"id: bench\nkind: task\nmatch: {{service.name: bench}}\nalphabet:\n{alphabet}\n"
        f"golden: [[{', '.join(names)}]]\nreads: [look]\n"
    )
    found, findings = compile_text(text, "bench.yaml")
    assert found is not None, findings
    return found


def _call(session: int, number: int, start_ns: int, *, ids: bool = False) -> ToolCall:
    tool = f"step{number}" if number < GOLDEN else "look"
    serial = session * 20_000 + number + 1
    return ToolCall(
        session=SessionKey("", f"session-{session}"),
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=start_ns,
        end_ns=start_ns + 1000,
        trace_id=(session + 1).to_bytes(16, "big"),
        span_id=serial.to_bytes(8, "big"),
        parent_span_id=b"parents!",
        call_id=f"call_{serial:024}" if ids else "",
        evidence=Evidence.EXECUTED,
        attributes=ATTRIBUTES,
    )


def _play(monitor: Monitor, sessions: int, calls: int, *, ids: bool = False) -> None:
    """Every session makes a call a second, with time going on."""
    for number in range(calls):
        now = START + number * SECOND
        for session in range(sessions):
            monitor.observe(_call(session, number, now, ids=ids), now + 1000, quiet=True)
        monitor.tick(now + SECOND // 2)


def _allocated(make: Callable[[], Monitor]) -> tuple[int, Monitor]:
    """Bytes that are held once a monitor is filled."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    monitor = make()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before, monitor


def _filled(monitor: Monitor, sessions: int, calls: int, *, ids: bool = False) -> Monitor:
    _play(monitor, sessions, calls, ids=ids)
    assert monitor.sessions >= sessions
    assert of_monitor(monitor) == Outcome(sessions * calls + 1, 0)
    return monitor


def _begun(sessions: int) -> Monitor:
    """A monitor that has what all sessions share."""
    monitor = Monitor([spec()], Limits(history_complete=True))
    monitor.observe(_call(sessions, 0, START), START, quiet=True)
    monitor.tick(START + 1)
    return monitor


def bytes_a_session(sessions: int, calls: int, *, ids: bool = False) -> float:
    """Bytes of each of some live sessions with so many calls, with or without ids of models."""
    monitor = _begun(sessions)
    return _allocated(lambda: _filled(monitor, sessions, calls, ids=ids))[0] / sessions


def resident_a_session(sessions: int = MANY, calls: int = 5) -> float:
    """Resident bytes per session, for very many sessions; best in a process of its own."""
    monitor = _begun(sessions)
    gc.collect()
    before = _resident()
    _filled(monitor, sessions, calls)
    return (_resident() - before) / sessions


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


def _in_a_process_of_its_own() -> float:
    code = "from tests.bench.memory import resident_a_session as found; print(found())"
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def _piped(traffic: Traffic) -> Monitor:
    """A monitor behind the whole pipeline; what that remembers lives as long as the monitor."""
    monitor, stats = Monitor([load_spec(ROVER)], Limits(history_complete=True)), Stats()
    pipeline = Pipeline(monitor, stats, lambda _: None)
    export = Export(pipeline.consume, stats, lambda: 1_800_000_000 * SECOND)
    for body in traffic.requests:
        export.ingest_now("traces", body, "proto", "grpc")
    assert of_monitor(monitor) == sent(traffic)
    KEPT.append(export)
    return monitor


KEPT: list[Export] = []
"""What is measured is not to be freed."""


def later_call() -> Cost:
    """The least time of a call early in a session, and of one late in it."""
    return Cost(*map(min, zip(*(_later_call() for _ in range(ROUNDS)), strict=True)))


def _later_call() -> Cost:
    monitor = Monitor([spec()], Limits(history_complete=True))
    spent = {EARLY: 9e9, LATE: 9e9}
    for number in range(LATE + EACH):
        now = START + number * SECOND
        call = _call(0, number, now)
        begun = time.perf_counter()
        monitor.observe(call, now + 1000, quiet=True)
        monitor.tick(now + SECOND // 2)
        took = time.perf_counter() - begun
        for place, best in spent.items():
            if place <= number < place + EACH:
                spent[place] = min(best, took)
    assert of_monitor(monitor) == Outcome(LATE + EACH, 0)
    return Cost(spent[EARLY] * 1e6, spent[LATE] * 1e6)


def measure() -> list[Row]:
    """Bytes a session, by lengths and in all."""
    rows = [
        Row(what, sessions, calls, bytes_a_session(sessions, calls, ids=what == WITH_IDS))
        for what in ("monitor, as allocated", WITH_IDS)
        for calls, sessions in _SESSIONS.items()
    ]
    rows.append(Row("monitor, resident", MANY, 5, _in_a_process_of_its_own()))
    return [*rows, _with_traces()]


def _with_traces() -> Row:
    """The bytes of one more session of generated traffic, with its calls' spans and the other spans."""
    some, more = generate(512, 12), generate(512, 40)
    size, few = _allocated(partial(_piped, some))
    larger, many = _allocated(partial(_piped, more))
    sessions = many.sessions - few.sessions
    calls = (more.calls - some.calls) / sessions
    return Row(
        "pipeline, with its memory of traces", many.sessions, calls, (larger - size) / sessions
    )


def bounds_of(rows: list[Row], cost: Cost) -> list[Bound]:
    """The bounds on what the monitor keeps of a session."""
    found = {(row.sessions, row.calls): row.bytes_each for row in rows if row.what != WITH_IDS}
    kept = [
        Bound(
            f"a live session of {calls:,} calls", found[_SESSIONS[calls], calls], most, "bytes"
        )
        for calls, most in LIMITS_BYTES.items()
    ]
    what = f"a live session of 5 calls, one of {MANY:,}, resident"
    kept.append(Bound(what, found[MANY, 5], LIMITS_BYTES[5], "bytes"))
    what = f"a session's {LATE:,}th call against its {EARLY}th"
    return [*kept, Bound(what, cost.late / cost.early, LATE_MAX, "x")]


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| bytes a live session | sessions | calls each | bytes |", "|---|---|---|---|"]
    lines += [
        f"| {row.what} | {row.sessions:,} | {row.calls:,.0f} | {row.bytes_each:,.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Prints all, and fails where more is allocated than may be."""
    rows, cost = measure(), later_call()
    print(table(rows))
    print(f"a call and a tick: early {cost.early:.1f} us, late {cost.late:.1f} us")
    kept = bounds_of(rows, cost)
    print(bounds.lines(kept))
    assert all(each.is_kept for each in kept[: len(LIMITS_BYTES)])


if __name__ == "__main__":
    main()
