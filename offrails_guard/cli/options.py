"""What the verbs that ask before a tool runs have in common: their options, their guard, and how they end.

Exit codes: 0 fine, 1 it did not work, 2 usage or configuration.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

__all__ = ["FAILED", "OK", "USAGE", "VerbParser", "add_guard", "guard_of", "quit_with"]

OK, FAILED, USAGE = 0, 1, 2

DEADLINE_SECONDS = 5.0
"""Time of the service. The agent itself waits for much longer, and many hooks or proxies may start at once."""

Made = TypeVar("Made")


class VerbParser(argparse.ArgumentParser):
    """The parser of a program with these verbs. No option may be cut short: another one may begin so some day."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)


def add_guard(verb: Any) -> None:
    """Adds the options of a guard."""
    verb.add_argument(
        "--url",
        default="",
        help="service that decides: http://HOST:PORT, https://HOST:PORT or unix:PATH "
        "(default: http://127.0.0.1:4320)",
    )
    verb.add_argument(
        "--on-unavailable",
        choices=("allow", "deny"),
        default="allow",
        help="calls that nobody could be asked about in time (default: allow)",
    )
    verb.add_argument(
        "--on-unknown",
        choices=("allow", "deny"),
        default="allow",
        help="calls of which the monitor does not know whether they are harmful (default: allow)",
    )
    verb.add_argument(
        "--on-no-spec",
        choices=("allow", "deny"),
        default="allow",
        help="calls of an agent that no spec matches: its --service may be wrong (default: allow)",
    )
    verb.add_argument(
        "--deadline",
        type=_seconds,
        default=DEADLINE_SECONDS,
        metavar="SECONDS",
        help="how long a decision is waited for (default: %(default)s)",
    )
    verb.add_argument("--session", default="", help="the conversation, as its spans name it")
    verb.add_argument("--agent", default="", help="who makes the calls")
    verb.add_argument("--service", default="", help="the agent's service.name")
    verb.add_argument(
        "--ca-file",
        type=_path,
        metavar="FILE",
        help="trusted authorities of the service, PEM",
    )
    verb.add_argument(
        "--token-file",
        type=_path,
        metavar="FILE",
        help="file with the token that the service requires (admin_auth)",
    )


def guard_of(options: argparse.Namespace, kind: Callable[..., Made], session: str = "") -> Made:
    """A guard of the options; what cannot be used ends the program."""
    from offrails_guard.transport.wire import URL

    try:
        token = options.token_file.read_text().strip() if options.token_file else None
        return kind(
            options.url or URL,
            session=options.session or session,
            agent=options.agent,
            service=options.service,
            on_unavailable=options.on_unavailable,
            on_unknown=options.on_unknown,
            on_no_spec=options.on_no_spec,
            deadline_seconds=options.deadline,
            token=token,
            ca=str(options.ca_file) if options.ca_file else None,
        )
    except (OSError, ValueError) as problem:
        quit_with(str(problem))


def quit_with(message: str) -> NoReturn:
    """Prints a message, if anybody reads it, and ends the program."""
    with suppress(OSError, ValueError):
        print(f"offrails: {message}", file=sys.stderr, flush=True)
    raise SystemExit(USAGE)


def _path(text: str) -> Path:
    if (
        not text.strip()
    ):  # as of an unset shell variable; `Path("")` would be the working directory
        raise argparse.ArgumentTypeError("expected a path, found an empty text")
    return Path(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < 3600:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, found {text!r}")
    return found
