"""Writes what was measured here into docs/performance.md, and draws it.

    python -m tests.bench.report [PART ...]

All parts, or the named ones. What stands between two marks is replaced; the text around them is written by hand.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    bounds,
    decode,
    histories,
    latency,
    live_sessions,
    longrun,
    memory,
    pipeline,
    process,
    scrape,
    startup,
    trajectory,
)
from tests.bench.bounds import Bound
from tests.bench.plot import svg
from tests.bench.service import COMPILED

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "performance.svg"


def _process() -> str:
    rows = process.measure()
    PICTURE.write_text(svg(rows))
    return _beside(process.table(rows), process.bounds_of(rows))


def _pipeline() -> str:
    rows = pipeline.measure()
    return _beside(pipeline.table(rows), pipeline.bounds_of(rows))


def _plain() -> str:
    return pipeline.plain() if COMPILED else "(measured above)"


def _latency() -> str:
    rows = latency.measure()
    return _beside(latency.table(rows), latency.bounds_of(rows))


def _memory() -> str:
    rows = memory.measure()
    return _beside(memory.table(rows), memory.bounds_of(rows, memory.later_call()))


def _live_sessions() -> str:
    costs = live_sessions.measure_all()
    kept = [bound for cost in costs for bound in live_sessions.bounds_of(cost)]
    return _beside(live_sessions.table(costs), kept)


def _scrape() -> str:
    found = scrape.measure()
    return _beside(scrape.table(found), scrape.bounds_of(found))


def _trajectory() -> str:
    found = trajectory.measure()
    return _beside(trajectory.table(found), trajectory.bounds_of(found))


def _startup() -> str:
    found, imported = startup.measure(), startup.import_seconds()
    return _beside(startup.table(found, imported), startup.bounds_of(found, imported))


def _beside(table: str, kept: list[Bound]) -> str:
    """A table, and under it what its figures have to keep."""
    return f"{table}\n\n{bounds.table(kept)}" if kept else table


def _machine() -> str:
    """The machine of the measurement."""
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    name = cpu[1] if cpu else platform.machine()
    build = "compiled" if COMPILED else "plain Python"
    return f"{os.cpu_count()} cores of {name}, Python {platform.python_version()}, {build}."


PARTS: dict[str, Callable[[], str]] = {
    "machine": _machine,
    "process": _process,
    "pipeline": _pipeline,
    "plain": _plain,
    "longrun": lambda: longrun.table(longrun.measure()),
    "decode": lambda: decode.table(decode.measure()),
    "histories": lambda: histories.table(histories.measure()),
    "latency": _latency,
    "memory": _memory,
    "live_sessions": _live_sessions,
    "scrape": _scrape,
    "trajectory": _trajectory,
    "startup": _startup,
}


def main() -> None:
    """Measures, and replaces the marked parts of the page."""
    for name in sys.argv[1:] or PARTS:
        part, text = PARTS[name](), PAGE.read_text()
        before, rest = text.split(f"<!-- {name} -->\n")
        _, after = rest.split(f"<!-- /{name} -->")
        PAGE.write_text(f"{before}<!-- {name} -->\n{part}\n<!-- /{name} -->{after}")
        print(f"{name} is written", flush=True)


if __name__ == "__main__":
    main()
