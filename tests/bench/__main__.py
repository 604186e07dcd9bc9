"""All benchmarks, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "decode",
    "pipeline",
    "transport",
    "process",
    "trajectory",
    "scores",
    "policies",
    "watch",
    "latency",
    "scrape",
    "startup",
    "memory",
    "learning",
    "page",
)

for name in NAMES:
    print(f"\n=== {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"tests.bench.{name}"], check=True)
