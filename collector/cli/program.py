"""`offrails VERB`: parses the command line, runs the verb, and returns the exit code."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Final

from collector import __version__
from collector.cli.arguments import CommandParser
from collector.cli.inputs import FAILED, OK
from collector.cli.pydantic_plugins import skip_plugins
from collector.client.verb_error import VerbError
from collector.telemetry.build import BUILD
from collector.telemetry.log_writer import FLUSH_SECONDS, print_in_thread

__all__ = ["main"]

VERBS: Final = {
    "serve": "serve",
    "replay": "replay",
    "judge": "judge",
    "import": "import_core",
    "learn": "learn",
    "init": "init",
    "doctor": "doctor",
    "check": "check",
    "accept": "accept",
    "draw": "draw",
    "tail": "tail",
    "export": "export",
    "feedback": "feedback",
    "hook": "hook",
    "mcp-proxy": "mcp_proxy",
    "journal": "journal",
    "harness": "harness",
}
"""Verbs with their modules below `collector.cli.verbs`, in the order of the help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    _open_streams()
    skip_plugins()
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser(given).parse_args(given)
    if isinstance(sys.stdout, TextIOWrapper):
        # What agents say may hold half a surrogate pair; showing it must not end the program.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has left; that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130
    except OSError as problem:
        if problem.errno != errno.ENOSPC or problem.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"offrails: standard output: {problem.strerror}", file=sys.stderr)
        return FAILED
    return code


def _run(options: argparse.Namespace) -> int:
    """Runs the verb, and returns its exit code."""
    try:
        code: int = options.run(options)
    except VerbError as problem:
        # Whether anybody reads it or not, the exit code shows it as well.
        print_in_thread(f"offrails: {problem}", sys.stderr).join(FLUSH_SECONDS)
        return problem.code
    return code


def _open_streams() -> None:
    """Opens /dev/null for each standard stream that whoever started us has closed.

    Else the next file or socket gets its number: libraries would write to it, and uvloop aborts.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest number that is free is that of the stream.
            stream = Path(os.devnull).open(mode, errors="backslashreplace")  # noqa: SIM115
            setattr(sys, name, stream)


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of what is given: the verb's alone, which is loaded alone, or all verbs' for the help."""
    found = CommandParser(
        prog="offrails", description="Online monitor for AI agents' tool calls."
    )
    found.add_argument(
        "--version", action="version", version=f"offrails {__version__} ({BUILD})"
    )
    group = found.add_subparsers(metavar="VERB", required=True)
    named = given[0] if given else ""
    for name in (named,) if named in VERBS else VERBS:
        import_module(f"collector.cli.verbs.{VERBS[name]}").add(group)
    return found
