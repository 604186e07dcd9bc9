"""All benchmarks, one after the other: `make bench`."""

from __future__ import annotations

import subprocess
import sys

for name in ("decode", "pipeline", "scores", "latency", "scrape", "memory"):
    print(f"\n=== {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"tests.bench.{name}"], check=True)
