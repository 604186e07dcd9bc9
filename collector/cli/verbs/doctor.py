"""`offrails doctor`: sends a test span and reports what is missing."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from collector.cli.arguments import add_token_file
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
    doctor.add_argument(
        "--admin",
        metavar="URL",
        help="API of the service, asked whether tool calls were read, and until when sessions may have begun before its start (default: port 4319, if ENDPOINT is this machine)",
    )
    add_token_file(doctor)
    doctor.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails doctor`, and returns the exit code."""
    from collector.client.doctor import api_beside, run, sender
    from collector.client.first_calls import missing_calls
    from collector.client.first_minutes import limitation

    try:
        found = run(options.endpoint)
        url = options.admin or api_beside(sender(options.endpoint, os.environ))
    except ValueError as problem:
        quit_with(str(problem))
    if not found:
        return FAILED
    for line in missing_calls(url, os.environ, options.token_file):
        print(f"note  {line}")
    if said := limitation(url, options.token_file):
        print(said, file=sys.stderr)
    return OK
