"""Parsing and help formatting that all verbs share."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from collector.cli.inputs import USAGE
from collector.telemetry.log_writer import FLUSH_SECONDS, print_in_thread
from monitor.spec.suggestions import closest

__all__ = ["CommandParser", "add_specs", "add_token_file", "to_path", "to_whole"]


class CommandParser(argparse.ArgumentParser):
    """The parser of the program or of one verb."""

    def __init__(self, **options: Any) -> None:
        # An option that is cut short would change its meaning when another one that begins so is added.
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, Any]:
        """Like argparse, but unknown arguments are refused with the usage of the verb, not of the program."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}{self._hint(rest[0])}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Like argparse, but the program ends where nobody reads why: the exit code says it, too."""
        text = f"{self.format_usage()}{self.prog}: error: {message}"
        print_in_thread(text, sys.stderr).join(FLUSH_SECONDS)
        raise SystemExit(USAGE)

    def _hint(self, unknown: str) -> str:
        """Names the option that was probably meant."""
        if not unknown.startswith("--"):
            return ""
        meant = closest(unknown.partition("=")[0], self._option_string_actions)
        return f"; did you mean {meant}?" if meant else ""


class _Formatter(argparse.HelpFormatter):
    """As wide as the terminal. argparse's own lookup imports `shutil`, which loads three compressors."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    with suppress(KeyError, ValueError):
        return int(os.environ["COLUMNS"]) or 80
    with suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


def to_path(text: str) -> Path:
    """Converts an argument to a path.

    Raises:
        argparse.ArgumentTypeError: the text is empty, as of an unset shell variable. `Path("")` would be
            the working directory.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a path, found an empty text")
    return Path(text)


def to_whole(text: str) -> int:
    """Converts an argument to a whole number from 1.

    Raises:
        argparse.ArgumentTypeError: the text is none.
    """
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**53:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, found {text!r}")
    return int(text)


def add_specs(verb: Any) -> None:
    """Adds `--specs`."""
    verb.add_argument(
        "--specs",
        action="append",
        type=to_path,
        metavar="DIR",
        help="spec file or folder, read recursively; repeatable",
    )


def add_token_file(verb: Any) -> None:
    """Adds `--token-file`."""
    verb.add_argument(
        "--token-file",
        type=to_path,
        metavar="FILE",
        help="file with the token that the service requires (admin_auth)",
    )
