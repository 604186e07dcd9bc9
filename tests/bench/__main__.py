"""All benchmarks, one after the other, or those that are named: `make bench ARGS="latency scrape"`.

What was checked is said again in the end.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = (
    "decode",
    "histories",
    "pipeline",
    "longrun",
    "transport",
    "process",
    "latency",
    "decide",
    "journal",
    "archive",
    "restart",
    "forward",
    "trajectory",
    "startup",
    "memory",
    "live_sessions",
    "scrape",
    "scores",
    "policies",
    "guard",
    "watch",
    "learning",
    "page",
)


def told(name: str) -> list[str]:
    """Runs one part, shows what it says; gives its checks."""
    print(f"\n=== {name}", flush=True)
    command = [sys.executable, "-m", f"tests.bench.{name}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as part:
        assert part.stdout is not None
        checks = []
        for line in part.stdout:
            print(line, end="", flush=True)
            if line.startswith("check: "):
                checks.append(line.rstrip())
    if part.returncode:
        checks.append(f"check: {name}: FAILED")
    return checks


def main() -> int:
    """Runs them; 1 where one could not prove its work or keep to what it asserts."""
    checks = [check for name in sys.argv[1:] or NAMES for check in told(name)]
    print("\n=== all checks", *checks, sep="\n")
    return int(any(check.endswith("FAILED") for check in checks))


if __name__ == "__main__":
    sys.exit(main())
