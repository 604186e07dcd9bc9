"""The program's entry. A hook is a process for each call: if a helper answers for it, nothing else is loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["hook"] and not {"--serve", "-h", "--help"} & set(given):
        from collector.cli.helped_hook import answered

        code = answered(given)
        if code is not None:
            return code
    from collector.cli.program import main as run

    return run(given)
