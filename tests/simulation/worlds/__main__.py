"""Plays worlds of the catalogue: `python -m tests.simulation.worlds [--fault NAME]... [--worlds N] [--pairs]`.

Prints the table, and of each entry that breaks a law the smallest world that shows it. Several `--fault` are played
together; with `--pairs`, one is played with each other entry.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.worlds import table
from tests.simulation.worlds.catalogue import FAULTS
from tests.simulation.worlds.play import (
    Faults,
    Played,
    is_held,
    pairs,
    play_many,
    shown,
    shrunk,
    singles,
)
from tests.simulation.worlds.world import Plan


def main() -> int:
    """Ends with 1 where an entry that is said to hold breaks a law."""
    given = _options().parse_args()
    if given.list:
        for each in FAULTS.values():
            print(f"{each.name} ({each.item}; hides {each.hides.name.lower()}): {each.story}")
        return 0
    chosen = _chosen(given.fault, with_others=given.pairs)
    if given.seed is not None and given.worlds == 1:
        for faults in chosen:
            print(shown(Plan(given.seed, faults)))
        return 0
    results = []
    for faults in chosen:
        played = play_many(faults, given.worlds, given.seed)
        results.append((faults, played))
        if played.broken and not given.quiet:
            _show_smallest(played)
    print("\n".join(table.rows(results)))
    return int(any(bool(played.broken) and is_held(faults) for faults, played in results))


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.worlds", description=__doc__
    )
    parser.add_argument(
        "--fault", action="append", default=[], choices=sorted(FAULTS), metavar="NAME"
    )
    parser.add_argument("--pairs", action="store_true", help="two entries at once")
    parser.add_argument("--worlds", type=int, default=50, help="of each entry or pair")
    parser.add_argument(
        "--seed", type=int, help="of the first world; with --worlds 1 the world is shown"
    )
    parser.add_argument("--quiet", action="store_true", help="the table alone")
    parser.add_argument("--list", action="store_true", help="the entries, and their stories")
    return parser


def _chosen(names: list[str], *, with_others: bool) -> list[Faults]:
    if not names:
        return pairs() if with_others else singles()
    if with_others:
        return [each for each in pairs() if each[0].name in names or each[1].name in names]
    return [tuple(FAULTS[name] for name in names)]


def _show_smallest(played: Played) -> None:
    for law, plans in played.broken.items():
        smallest = min(
            (shrunk(plan) for plan in plans[:5]), key=lambda plan: len(plan.kept or ())
        )
        print(f"--- {law}\n{shown(smallest)}\n")


if __name__ == "__main__":
    sys.exit(main())
