"""A load from its own process: requests are sent at their scheduled times, whatever the responses.

    python -m tests.bench.load PORT SPANS_A_SECOND SPANS_A_REQUEST SECONDS SEED [AGO_SECONDS]

Everything is generated before it begins. A request that is due goes out on any connection that
awaits no answer; the times it takes count from when it was due. How late this process itself looks
at what is due is told apart, so that nobody is blamed for another. Prints one JSON object.
"""

from __future__ import annotations

import gc
import json
import select
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tests.bench.sender import Sender, prepared
from tests.bench.traffic import SECOND, Traffic, generate

__all__ = ["Loaded", "share"]

CONNECTIONS = 64
AGO_SECONDS = 3_600
"""All of it is over by then: a call from the future would be placed by its receipt."""


class Loaded(NamedTuple):
    """What was sent, and the latencies in milliseconds from when each request was due."""

    calls: int
    harmful: int
    requests: int
    sender_p50: float
    sender_p99: float
    """How late the load itself was."""
    answer_p50: float
    answer_p99: float


def _run(requests: Sequence[bytes], a_second: float, port: int) -> tuple[list[float], ...]:
    """(how late each was looked at, when each was answered), in seconds from when it was due."""
    free = deque(Sender(port) for _ in range(CONNECTIONS))
    busy: dict[Sender, float] = {}
    due: deque[tuple[float, bytes]] = deque()
    late: list[float] = []
    took: list[float] = []
    begin = time.perf_counter() + 0.05
    while len(took) < len(requests):
        now = time.perf_counter()
        while len(late) < len(requests) and begin + len(late) / a_second <= now:
            scheduled = begin + len(late) / a_second
            due.append((scheduled, requests[len(late)]))
            late.append(now - scheduled)
        while due and free:
            sender = free.popleft()
            busy[sender], request = due.popleft()
            sender.send(request)
        following = begin + len(late) / a_second if len(late) < len(requests) else now + 1
        wait = max(0.0, following - time.perf_counter())
        for sender in select.select(list(busy), [], [], wait)[0]:
            sender.answer()
            took.append(time.perf_counter() - busy.pop(sender))
            free.append(sender)
    return late, took


def share(found: list[float], part: float) -> float:
    """A quantile in milliseconds."""
    return sorted(found)[min(len(found) - 1, int(len(found) * part))] * 1e3


def _load(traffic: Traffic, a_second: float, port: int) -> Loaded:
    requests = [prepared(body) for body in traffic.requests]
    traffic.requests.clear()
    gc.collect()
    gc.disable()
    late, took = _run(requests, a_second, port)
    shares = [share(found, part) for found in (late, took) for part in (0.5, 0.99)]
    return Loaded(traffic.calls, traffic.harmful, len(requests), *shares)


def main() -> None:
    """Generates, sends, tells."""
    port, rate, size, seconds, seed, *ago = map(int, sys.argv[1:])
    start_ns = time.time_ns() - (ago or [AGO_SECONDS])[0] * SECOND
    traffic = generate(size, rate * seconds // size, seed=seed, start_ns=start_ns)
    print(json.dumps(_load(traffic, rate / size, port)._asdict()))


if __name__ == "__main__":
    main()
