"""`offrails tail`: shows the verdicts of a running service."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from collector.cli.arguments import add_token_file
from collector.cli.inputs import FAILED

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    tail = group.add_parser("tail", help="show the verdicts of a running service")
    tail.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="API of the service (default: http://127.0.0.1:4319)",
    )
    tail.add_argument("--agent", default="", help="only verdicts of this agent")
    tail.add_argument("--spec", default="", help="only verdicts under this spec")
    tail.add_argument("--session", default="", help="only verdicts of this session")
    tail.add_argument(
        "--kind",
        action="append",
        choices=(
            "progress",
            "self_loop",
            "harmful",
            "possible",
            "control",
            "cannot_finish",
            "stalled",
            "divergence",
            "prevented",
            "overruled",
        ),
        help="only verdicts of this kind; repeatable",
    )
    tail.add_argument("--json", action="store_true", help="print one verdict per line as JSON")
    tail.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour the output; auto: on a terminal",
    )
    add_token_file(tail)
    tail.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails tail`, and returns the exit code."""
    from collector.client.tail import DEFAULT_URL, Filters, tail

    kinds = frozenset(options.kind or ())
    filters = Filters(options.agent, options.spec, options.session, kinds)
    wanted = options.color == "always"
    if options.color == "auto":
        wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    tail(
        options.url or DEFAULT_URL,
        filters,
        lambda line: print(line, flush=True),
        colour=wanted,
        raw=options.json,
        token_file=options.token_file,
        note=lambda line: print(f"offrails: {line}", file=sys.stderr, flush=True),
    )
    print("offrails: the service has stopped", file=sys.stderr)
    return FAILED
