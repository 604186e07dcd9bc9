"""Rounds of the simulation, until the time is over: `python -m tests.simulation --seed 1`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.laws import ROUNDS, Broken


def main() -> int:
    """Plays rounds; the first broken law ends it, with the seed that shows it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=None, help="so many, whatever the time")
    given = parser.parse_args()
    until = time.monotonic() + 60 * given.minutes
    seed = given.seed
    played: Counter[str] = Counter()
    while (
        time.monotonic() < until if given.rounds is None else seed < given.seed + given.rounds
    ):
        for name, law in ROUNDS.items():
            try:
                law(seed)
            except Exception as error:  # noqa: BLE001 - whatever it is, the seed is what matters
                kind = "broken" if isinstance(error, Broken) else type(error).__name__
                print(f"seed {seed}: {name}: {kind}: {error}"[:1500])
                print(f"again with: python -m tests.simulation --seed {seed} --rounds 1")
                return 1
            played[name] += 1
        seed += 1
    print(", ".join(f"{count} rounds of {name}" for name, count in played.items()))
    print(f"seeds {given.seed} to {seed - 1}: every law holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
