"""`offrails doctor`: sends a test span and reports what is missing."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from collector.cli.inputs import FAILED, OK, quit_with

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    doctor = group.add_parser("doctor", help="send a test span and report what is missing")
    doctor.add_argument(
        "endpoint",
        nargs="?",
        metavar="ENDPOINT",
        help="[http[s]://]HOST[:PORT] or unix:PATH (default: OTEL_EXPORTER_OTLP_ENDPOINT, else 127.0.0.1)",
    )
    doctor.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails doctor`, and returns the exit code."""
    from collector.client.doctor import run
    from collector.config.first_minutes import USUALLY, first_minutes

    try:
        found = run(options.endpoint)
    except ValueError as problem:
        quit_with(str(problem))
    if found:
        print(first_minutes(USUALLY), file=sys.stderr)
    return OK if found else FAILED
