"""The cost of a span in the long run, while sessions begin, become final and end.

    python -m tests.bench.longrun

A verdict is not all that a span costs: once no earlier call can come any more it is counted as final,
and once the session has ended its scores are worked out and go to the means. Traffic without end, at
a steady rate of the clock that the service is given; what is measured begins when as many sessions end
as begin. Every row proves its calls and harmful verdicts, and how many sessions ended meanwhile.
"""

from __future__ import annotations

import gc
import time
from typing import Final, NamedTuple

from collector.app import gc_tuning
from collector.app.ticker import TICK_SECONDS
from collector.calls.pipeline import Pipeline
from collector.receive.export import Export
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from tests.bench.outcome import of_monitor, sent
from tests.bench.service import COMPILED
from tests.bench.traffic import ROVER, SECOND, Traffic, generate

__all__ = ["Row", "measure", "table"]

SIZE: Final = 50
"""Spans a request."""
REQUESTS: Final = 420
BEFORE: Final = 260
"""Requests that are not measured: by then sessions end."""
APART_NS: Final = SECOND // 40
"""Between two requests: 2,000 spans a second, some 120 sessions."""
START: Final = 1_700_000_000 * SECOND
AGO_SECONDS: Final = 60
"""When the first session began: no span may end after it is received, and sessions take most of a minute."""
LIMITS: Final = Limits(window_ns=2 * SECOND, idle_ns=4 * SECOND, history_complete=True)
ROUNDS: Final = 5


class Row(NamedTuple):
    """CPU microseconds a span."""

    judged: float
    """From bytes to the verdict."""
    final: float
    """What time brings: verdicts that are final, sessions that end."""
    ended: float
    """Sessions that ended meanwhile, for each that began."""


def measure() -> Row:
    """The round that took least, of several."""
    gc_tuning.settle()
    traffic = generate(SIZE, REQUESTS, start_ns=START - AGO_SECONDS * SECOND)
    return min((_round(traffic) for _ in range(ROUNDS)), key=lambda row: row.judged + row.final)


def _round(traffic: Traffic) -> Row:
    monitor, stats = Monitor([load_spec(ROVER)], LIMITS), Stats()
    clock = [START]
    export = Export(Pipeline(monitor, stats, lambda _: None).consume, stats, lambda: clock[0])
    spent, due, begun, ended = [0.0, 0.0], START, 0, 0
    gc.collect()
    for number, body in enumerate(traffic.requests):
        if number == BEFORE:
            spent, begun, ended = [0.0, 0.0], -monitor.sessions, 0
        first = time.process_time()
        export.ingest_now("traces", body, "proto", "grpc")
        then = time.process_time()
        if clock[0] >= due:
            due += int(TICK_SECONDS * SECOND)
            ended += len(monitor.tick(clock[0]))
        spent[0] += then - first
        spent[1] += time.process_time() - then
        clock[0] += APART_NS
    assert of_monitor(monitor) == sent(traffic), (of_monitor(monitor), sent(traffic))
    begun += monitor.sessions + ended
    assert ended > begun / 2, (ended, begun)
    judged, final = (seconds / (REQUESTS - BEFORE) / SIZE * 1e6 for seconds in spent)
    return Row(judged, final, ended / begun)


def table(row: Row) -> str:
    """The row as a Markdown table."""
    return "\n".join(
        (
            "| CPU us a span, in the long run | |",
            "|---|---|",
            f"| bytes to verdict | {row.judged:.2f} |",
            f"| final verdicts, ends of sessions | {row.final:.2f} |",
            f"| sessions that ended, for each that began | {row.ended:.2f} |",
        )
    )


if __name__ == "__main__":
    print("compiled" if COMPILED else "plain")
    print(table(measure()))
