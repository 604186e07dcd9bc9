"""What live sessions cost: bytes each by their length, many at once, and the price of a late call.

    python -m tests.bench.memory

Bytes are what the process allocates for sessions of one task with one golden path of 16 symbols,
measured over many sessions, everything that the monitor keeps for them included.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import NamedTuple

from monitor import Limits, Monitor, SessionKey, Spec, ToolCall
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.spec.compile import compile_text

__all__ = ["LIMITS_BYTES", "Cost", "bytes_a_session", "later_call", "spec"]

LIMITS_BYTES = {5: 1_536, 64: 4_096, 10_000: 6_144}
"""By length of a session in calls, what it may cost."""

_SESSIONS = {5: 2_000, 64: 400, 10_000: 20}

START = 1_700_000_000 * SECOND
GOLDEN = 16
MANY = 100_000
ATTRIBUTES = {"service.name": "bench"}


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


def _call(session: int, number: int, start_ns: int) -> ToolCall:
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
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes=ATTRIBUTES,
    )


def _play(monitor: Monitor, sessions: int, calls: int) -> None:
    """Every session makes a call a second, with time going on."""
    for number in range(calls):
        now = START + number * SECOND
        for session in range(sessions):
            monitor.observe(_call(session, number, now), now + 1000, quiet=True)
        monitor.tick(now + SECOND // 2)


def bytes_a_session(sessions: int, calls: int) -> float:
    """Bytes of each of some live sessions with so many calls."""
    monitor = Monitor([spec()], Limits(history_complete=True))
    # What all sessions share is there before.
    monitor.observe(_call(sessions, 0, START), START, quiet=True)
    monitor.tick(START + 1)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    _play(monitor, sessions, calls)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert monitor.sessions >= sessions
    return (after - before) / sessions


def later_call(early: int = 100, late: int = 10_000, each: int = 50) -> Cost:
    """What a call costs around the `early`th of a session, and around the `late`th."""
    monitor = Monitor([spec()], Limits(history_complete=True))
    spent = {early: 9e9, late: 9e9}
    for number in range(late + 5 * each):
        now = START + number * SECOND
        call = _call(0, number, now)
        begun = time.perf_counter()
        monitor.observe(call, now + 1000, quiet=True)
        monitor.tick(now + SECOND // 2)
        took = time.perf_counter() - begun
        for place, best in spent.items():
            if place <= number < place + 5 * each:
                spent[place] = min(best, took)
    return Cost(spent[early] * 1e6, spent[late] * 1e6)


def main() -> None:
    """Prints all, and fails where a limit is not kept."""
    for calls, limit in LIMITS_BYTES.items():
        found = bytes_a_session(_SESSIONS[calls], calls)
        print(f"{calls:>6} calls: {found:7.0f} bytes a session (limit {limit})")
        assert found <= limit
    begun = time.perf_counter()
    found = bytes_a_session(MANY, 5)
    took = time.perf_counter() - begun
    print(f"{MANY} live sessions of 5 calls: {found * MANY / 1e6:.0f} MB, {took:.0f} s")
    cost = later_call()
    print(f"a call and a tick: the 100th {cost.early:.1f} us, the 10,000th {cost.late:.1f} us")
    assert cost.late <= 1.5 * cost.early


if __name__ == "__main__":
    main()
