"""`offrails harness`: hands its arguments to the package `harness`, which the process does not import."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from collector.cli.arguments import CommandParser
from collector.cli.inputs import quit_with

__all__ = ["add", "run"]

_PROGRAM = "harness.cli.program"


class _HandedOn(CommandParser):
    """Takes all arguments as they are: the package has a parser of its own."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, Any]:
        """Keeps the arguments for `run`."""
        found = argparse.Namespace() if namespace is None else namespace
        found.rest, found.run = list(args or ()), run
        return found, []


def add(group: Any) -> None:
    """Adds the verb."""
    group._parser_class = _HandedOn  # noqa: SLF001 - the one verb whose options are not known here
    group.add_parser(
        "harness", help="run agents on tasks in a sandbox, and judge them", add_help=False
    )
    group._parser_class = CommandParser  # noqa: SLF001


def run(options: argparse.Namespace) -> int:
    """Runs `offrails harness`, and returns the exit code."""
    try:
        program = import_module(_PROGRAM)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in ("harness", "opentelemetry"):
            raise
        quit_with(f"harness needs {problem.name}: pip install 'offrails[harness]'")
    code: int = program.main(options.rest)
    return code
