"""`offrails harness VERB`: parses the command line, runs the verb, and returns the exit code.

Exit codes: 0 fine, 1 infrastructure failures, 2 usage or configuration.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from collector.cli.arguments import CommandParser
from harness.agents.scripted import ScriptError
from harness.bench.results_folder import ResultsError
from harness.bench.token_cost import PriceError
from harness.cli import check, exporting, importing, listing, report, run
from harness.sandbox.process import NoSandboxError
from harness.snapshots.toolbox import SnapshotError
from harness.tasks.read import TaskError

__all__ = ["main"]

VERBS: Final = (run, report, check, listing, importing, exporting)

USAGE: Final = 2


def main(arguments: Sequence[str]) -> int:
    """Runs one verb and returns the exit code."""
    parser = CommandParser(
        prog="offrails harness", description="A bench for agents, and for the monitor."
    )
    group = parser.add_subparsers(metavar="VERB", required=True)
    for verb in VERBS:
        verb.add(group)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except (TaskError, ScriptError, SnapshotError, ResultsError, PriceError) as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return USAGE
    except NoSandboxError as problem:
        print(
            f"offrails: no sandbox works here ({problem}). Install bubblewrap, allow user namespaces, or say "
            "--no-sandbox: tools then run as you do.",
            file=sys.stderr,
        )
        return USAGE
    return code
