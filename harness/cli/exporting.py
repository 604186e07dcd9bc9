"""`offrails harness export`: rollouts in another form."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from collector.cli.arguments import to_path
from collector.cli.inputs import writing

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    verb = group.add_parser("export", help="write rollouts in another form")
    verb.add_argument("folders", nargs="+", type=to_path, metavar="DIR", help="of runs")
    verb.add_argument("--form", choices=("prefixguard",), required=True)
    verb.add_argument("--out", type=to_path, required=True, metavar="FILE")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails harness export`, and returns the exit code."""
    from harness.exchange.prefixguard import export_prefixguard

    with writing(options.out):
        found = export_prefixguard(options.folders, options.out)
    print(f"{found.written} trajectories in {options.out}")
    if found.left_out:
        print(f"offrails: {found.left_out} rollouts without a call: left out", file=sys.stderr)
    return 0
