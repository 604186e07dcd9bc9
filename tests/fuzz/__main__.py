"""Fuzzes the decoders for a bounded time; what they do not survive becomes a test.

python -m tests.fuzz [--seconds 60] [--seed N] [TARGET ...]
"""

from __future__ import annotations

import argparse
import hashlib
import sys

from tests.fuzz.mutate import fuzz
from tests.fuzz.targets import CRASHES, TARGETS, seeds


def main() -> int:
    """Returns 1 where something crashed; its input is in `crashes/` then."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chosen = options.targets or list(TARGETS)
    code = 0
    for name in chosen:
        seconds = options.seconds / len(chosen)
        tried, lines, crash = fuzz(TARGETS[name], seeds()[name], seconds, options.seed)
        print(f"{name}: {tried} inputs, {lines} lines reached", flush=True)
        if crash is not None:
            file = CRASHES / f"{name}-{hashlib.sha256(crash.body).hexdigest()[:12]}"
            file.write_bytes(crash.body)
            print(f"  {type(crash.error).__name__}: {crash.error}\n  input: {file}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
