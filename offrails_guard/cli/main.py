"""`offrails-guard`: the program of whoever installs the guard alone. `offrails` has the same verbs.

A hook is a process for each call: if a helper answers for it, nothing else is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["PROGRAM", "helped", "main"]

PROGRAM = "offrails-guard"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    code = helped(given)
    return _run(given) if code is None else code


def helped(given: list[str]) -> int | None:
    """The exit code of a hook for which a helper has answered; None for all else."""
    if given[:1] != ["hook"] or {"--serve", "-h", "--help"} & set(given):
        return None
    from offrails_guard.cli.helped_hook import answered

    return answered(given)


def _run(given: list[str]) -> int:
    from offrails_guard import __version__
    from offrails_guard.cli import hook, mcp_proxy
    from offrails_guard.cli.options import VerbParser

    _open_streams()
    parser = VerbParser(prog=PROGRAM, description="Asks before a tool runs.")
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    hook.add(verbs, PROGRAM)
    mcp_proxy.add(verbs, PROGRAM)
    options = parser.parse_args(given)
    try:
        code: int = options.run(options)
    except KeyboardInterrupt:
        return 130
    return code


def _open_streams() -> None:
    """Opens what whoever started us has closed; and half a surrogate pair of an agent's text ends no program."""
    import os
    from io import TextIOWrapper

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
