"""What the options of all verbs share: how they are parsed, and how their help is shown."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Arguments", "add_specs", "add_token_file", "to_path"]


class Arguments(argparse.ArgumentParser):
    """The parser of a verb, or of them all."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Formatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, Any]:
        """As ever, but what nobody knows is refused by its verb, with the verb's own usage."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


class _Formatter(argparse.HelpFormatter):
    """As wide as the terminal; argparse's own way to find that loads three compressors."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    with suppress(KeyError, ValueError):
        return int(os.environ["COLUMNS"]) or 80
    with suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


def to_path(text: str) -> Path:
    """A path; an empty text, as of a variable that is not set, is not the working directory."""
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a path, found an empty text")
    return Path(text)


def add_specs(verb: Any) -> None:
    """Adds `--specs`."""
    verb.add_argument(
        "--specs",
        action="append",
        type=to_path,
        metavar="DIR",
        help="spec file or folder; repeatable",
    )


def add_token_file(verb: Any) -> None:
    """Adds `--token-file`."""
    verb.add_argument(
        "--token-file",
        type=to_path,
        metavar="FILE",
        help="file with the token that the service asks for (admin_auth)",
    )
