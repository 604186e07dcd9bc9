"""`offrails accept`: writes into a spec that a harmful call is accepted until a day."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from collector.cli.arguments import add_specs, add_token_file, to_path
from collector.cli.inputs import (
    OK,
    load_specs_or_quit,
    only_task,
    quit_with,
    recordings,
)

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    accept = group.add_parser(
        "accept", help="write into a spec that a harmful call is accepted until a day"
    )
    accept.add_argument(
        "verdict",
        metavar="VERDICT",
        help="SESSION#STEP, a span id, or the verdict as JSON (- reads standard input)",
    )
    add_specs(accept)
    accept.add_argument(
        "--why", required=True, metavar="TEXT", help="the reason, kept in the spec"
    )
    accept.add_argument(
        "--until", required=True, metavar="DAY", help="last day (UTC), such as 2026-12-31"
    )
    accept.add_argument(
        "--who", metavar="NAME", help="who accepts it (default: the user's name)"
    )
    accept.add_argument(
        "--spec", default="", metavar="ID", help="the spec that judged it, if there are several"
    )
    place = accept.add_mutually_exclusive_group()
    place.add_argument(
        "--from",
        dest="url",
        default="127.0.0.1:4319",
        metavar="URL",
        help="admin address of a running service (default: 127.0.0.1:4319)",
    )
    place.add_argument(
        "--runs",
        nargs="+",
        type=to_path,
        metavar="RUNS",
        help="recordings that hold the call, in place of a service",
    )
    add_token_file(accept)
    accept.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails accept`, and returns the exit code."""
    from datetime import date
    from getpass import getuser

    from collector.offline.accept import accept
    from collector.telemetry.clock import now_ns
    from monitor.spec.acceptance import day_of

    specs = load_specs_or_quit(options.specs or ())
    try:
        until = date.fromisoformat(options.until)
    except ValueError:
        quit_with(f"--until: {options.until!r} is no day; write it as 2026-12-31")
    if until < day_of(now_ns()):
        quit_with(f"--until: {until} is over; expected the last day on which it is accepted")
    found = _verdicts(options, specs)
    file, entry = accept(found, specs, options.who or getuser(), options.why, until)
    where = f" of {entry.constraint}" if entry.constraint else ""
    print(f"{file}: {entry.symbol} in {entry.state}{where} is accepted until {entry.until}")
    return OK


def _verdicts(options: argparse.Namespace, specs: Sequence[Any]) -> Sequence[Any]:
    """The harmful calls that match the given name, one for each spec."""
    from collector.offline.accept import HarmfulCall, NotAccepted, by_service, harmful_calls
    from collector.offline.replay import replay

    text = sys.stdin.read() if options.verdict == "-" else options.verdict
    if text.lstrip().startswith("{"):
        try:
            return [HarmfulCall.of(json.loads(text))]
        except ValueError as problem:
            raise NotAccepted(f"the verdict is no JSON: {problem}") from None
    if options.runs is None:
        return harmful_calls(
            by_service(options.url, text, options.token_file), text, options.spec
        )
    judged = replay(recordings(options.runs), specs, unnamed=only_task(specs))
    return harmful_calls(judged, text, options.spec)
