"""How soon the service is ready, and what it holds then.

python -m tests.bench.startup
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.service import ROOT, ROVER, service

SPECS = 100
ROUNDS = 5
WITH_GRPC, WITHOUT_GRPC = f"{SPECS} specs", f"{SPECS} specs, --grpc off"
IDLE, IDLE_WITHOUT_GRPC = "one spec", "one spec, --grpc off"

READY_SECONDS_MAX = 1.0
IMPORT_SECONDS_MAX = 0.1
RESIDENT_MB_MAX = {IDLE: 60.0, IDLE_WITHOUT_GRPC: 55.0}


class Start(NamedTuple):
    """The least of several starts."""

    ready_seconds: float
    cpu_seconds: float
    resident_mb: float


def _specs(folder: Path) -> None:
    """A hundred specs: the bundled ones under other names, again and again."""
    files = sorted((ROOT / "dfa_specs").rglob("*.yaml"))
    for number in range(SPECS):
        text = files[number % len(files)].read_text()
        name = re.sub(r"(?m)^id: *(\S+)", rf"id: \1_{number}", text, count=1)
        (folder / f"{number}.yaml").write_text(name)


def start(folder: Path, *arguments: str) -> Start:
    """Starts the service some times."""
    best = Start(float("inf"), float("inf"), float("inf"))
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        with service(*arguments, specs=folder) as server:
            ready = time.perf_counter() - begin
            cpu, memory = server.cpu_ns() / 1e9, server.resident_bytes() / 2**20
        best = Start(*map(min, best, (ready, cpu, memory)))
    return best


def import_seconds() -> float:
    """The time of `import monitor`, less that of an interpreter that imports nothing."""

    def least(code: str) -> float:
        found = float("inf")
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
            found = min(found, time.perf_counter() - begin)
        return found

    return least("import monitor") - least("pass")


def measure() -> dict[str, Start]:
    """Way of starting -> what it took."""
    with tempfile.TemporaryDirectory() as name:
        _specs(Path(name))
        return {
            WITH_GRPC: start(Path(name)),
            WITHOUT_GRPC: start(Path(name), "--grpc", "off"),
            IDLE: start(ROVER),
            IDLE_WITHOUT_GRPC: start(ROVER, "--grpc", "off"),
        }


def bounds_of(found: dict[str, Start], imported: float) -> list[Bound]:
    """The bounds."""
    return [
        Bound(
            f"ready with {WITH_GRPC}", found[WITH_GRPC].ready_seconds, READY_SECONDS_MAX, "s"
        ),
        *(
            Bound(f"resident when idle, {way}", found[way].resident_mb, most, "MB")
            for way, most in RESIDENT_MB_MAX.items()
        ),
        Bound("`import monitor`", imported, IMPORT_SECONDS_MAX, "s"),
    ]


def table(found: dict[str, Start], imported: float) -> str:
    """The starts as a Markdown table."""
    lines = ["| start | ready, s | CPU, s | resident, MB |", "|---|---|---|---|"]
    for way, (ready, cpu, memory) in found.items():
        lines.append(f"| {way} | {ready:.2f} | {cpu:.2f} | {memory:.0f} |")
    lines.append(f"| `import monitor`, beside the interpreter | {imported:.3f} | | |")
    return "\n".join(lines)


if __name__ == "__main__":
    measured, imported = measure(), import_seconds()
    print(table(measured, imported))
    print(bounds.lines(bounds_of(measured, imported)))
