"""The program's entry. A hook is a process for each call: if a helper answers for it, nothing else is loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from offrails_guard.cli.main import helped

        code = helped(given)
    except ModuleNotFoundError as problem:
        if problem.name != "offrails_guard":
            raise
        code = _without_guard(given)
    if code is not None:
        return code
    from collector.cli.program import main as run

    return run(given)


def _without_guard(given: list[str]) -> int | None:
    """The exit code of a verb of the guard's, which is gone; None for all others, which need none."""
    if given[:1] not in (["hook"], ["mcp-proxy"]):
        return None
    print(
        f"offrails: {given[0]} needs the package offrails_guard, which is gone: the distribution offrails-guard was "
        "uninstalled, and holds the same files. Install it again, or offrails.",
        file=sys.stderr,
    )
    return 1
