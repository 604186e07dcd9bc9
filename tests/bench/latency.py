"""Latency of the real service under a steady load, open loop, while it is scraped.

    python -m tests.bench.latency

Requests are sent at their scheduled times, whatever the answers do (`tests/bench/load.py`); the
time from the scheduled send to the answer is what a sender sees, the histogram of the service what
a verdict takes from the receipt of its request. Each rate proves its calls and harmful verdicts.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from typing import NamedTuple

from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.load import Loaded
from tests.bench.outcome import Outcome, of_metrics
from tests.bench.service import ROOT, Server, service

RATES: dict[int, int] = {1_000: 8, 10_000: 6}
"""Spans a second -> seconds."""

BATCH = 10
SCRAPE_SECONDS = 1.0
VERDICT_MS_MAX = 2.0
"""p99 from receipt to verdict at the highest rate."""

VERDICTS = 'offrails_verdict_latency_seconds_bucket{transport="http_proto",'


class Row(NamedTuple):
    """Milliseconds at one rate, p50 and p99 of each."""

    spans_a_second: int
    sender: tuple[float, float]
    """How late the load itself was."""
    answer: tuple[float, float]
    """From the scheduled send."""
    verdict: tuple[float, float]
    """From the receipt, of the service's histogram."""


def buckets(text: str, series: str) -> dict[float, int]:
    """A histogram of `/metrics`: upper bound in milliseconds -> observations within it.

    `series` is what stands before the bound: the name of the metric, and its other labels.
    """
    found = re.findall(re.escape(series) + r'le="([^"]+)"\} (\S+)', text)
    return {float(upper) * 1e3: int(float(count)) for upper, count in found}


def quantile(before: dict[float, int], after: dict[float, int], share: float) -> float:
    """A quantile in milliseconds, as Prometheus' histogram_quantile gives it: linear in its bucket."""
    grown = {upper: count - before.get(upper, 0) for upper, count in sorted(after.items())}
    wanted = share * max(grown.values())
    lower, below = 0.0, 0
    for upper, count in grown.items():
        if count >= wanted:
            return lower + (upper - lower) * (wanted - below) / (count - below)
        lower, below = upper, count
    raise AssertionError("the last bucket holds all")


def _scrape(server: Server, stop: threading.Event) -> None:
    while not stop.wait(SCRAPE_SECONDS):
        server.metrics()


def _load(server: Server, rate: int) -> Loaded:
    command = [sys.executable, "-m", "tests.bench.load", str(server.ports["http"])]
    command += [str(number) for number in (rate, BATCH, RATES[rate], rate)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return Loaded(**json.loads(done.stdout))


def measure_rate(server: Server, rate: int) -> Row:
    """One rate, its work checked."""
    before = server.metrics()
    loaded = _load(server, rate)
    after = server.metrics()
    found = of_metrics(after).since(of_metrics(before))
    assert found == Outcome(loaded.calls, loaded.harmful), (found, loaded)
    old, new = buckets(before, VERDICTS), buckets(after, VERDICTS)
    assert max(new.values()) - max(old.values(), default=0) == loaded.requests
    return Row(
        rate,
        (loaded.sender_p50, loaded.sender_p99),
        (loaded.answer_p50, loaded.answer_p99),
        (quantile(old, new, 0.5), quantile(old, new, 0.99)),
    )


def measure() -> list[Row]:
    """All rates, one after the other, of one service that is scraped each second."""
    stop = threading.Event()
    with service() as server:
        scraper = threading.Thread(target=_scrape, args=(server, stop))
        scraper.start()
        try:
            return [measure_rate(server, rate) for rate in RATES]
        finally:
            stop.set()
            scraper.join()


def bounds_of(rows: list[Row]) -> list[Bound]:
    """The bounds at the highest rate.

    A verdict comes after its request was due and before its answer, so the time of the answer is a
    bound on it as well.
    """
    row = max(rows)
    found = min(row.verdict[1], row.answer[1])
    what = f"p99 receipt to verdict, {row.spans_a_second:,} spans a second"
    return [Bound(what, found, VERDICT_MS_MAX, "ms")]


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| ms, p50 / p99 | the load's own lateness | due to answered | receipt to verdict |",
        "|---|---|---|---|",
    ]
    for row in rows:
        sender, answer = (f"{p50:.2f} / {p99:.2f}" for p50, p99 in (row.sender, row.answer))
        verdict = f"{row.verdict[0]:.2f} / {row.verdict[1]:.2f}"
        lines.append(
            f"| {row.spans_a_second:,} spans a second | {sender} | {answer} | {verdict} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    measured = measure()
    print(table(measured))
    print(bounds.lines(bounds_of(measured)))
