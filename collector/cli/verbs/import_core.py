"""`offrails import`: writes specs from published automata."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collector.cli.arguments import to_path
from collector.cli.inputs import FAILED, OK, quit_with, writing

__all__ = ["add", "run", "write_specs"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    bring = group.add_parser("import", help="write specs from published automata")
    bring.add_argument(
        "source", choices=("core",), help="core: the automata of the CORE authors"
    )
    bring.add_argument(
        "files",
        nargs="+",
        type=to_path,
        metavar="FILE.json",
        help="a data set or one automaton",
    )
    bring.add_argument(
        "--out", type=to_path, required=True, metavar="DIR", help="folder for the specs"
    )
    bring.add_argument(
        "--no-repair",
        action="store_true",
        help="refuse defective tasks instead of repairing them",
    )
    bring.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails import`, and returns the exit code."""
    return write_specs(options.files, options.out, mend=not options.no_repair)


def write_specs(files: Sequence[Path], out: Path, *, mend: bool) -> int:
    """Writes the specs of files of automata, prints what became of them, and returns the exit code."""
    from collector.offline.drafts.import_core import import_core, report

    for file in files:
        if not file.exists():
            quit_with(f"{file}: no such file")
    code = OK
    with writing(out):
        for refused, line in report(import_core(files, out, mend=mend), out):
            print(line, file=sys.stderr if refused else sys.stdout)
            code = FAILED if refused else code
    return code
