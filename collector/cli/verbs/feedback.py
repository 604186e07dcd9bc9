"""`offrails feedback`: says whether the verdict on a session is right."""

from __future__ import annotations

import argparse
from typing import Any, Final
from urllib.parse import quote, urlencode

from collector.cli.arguments import add_token_file
from collector.cli.inputs import OK

__all__ = ["add", "run"]

_NO_LABEL: Final = "none"


def add(group: Any) -> None:
    """Adds the verb and its options."""
    feedback = group.add_parser(
        "feedback", help="say that the verdict on a session is right or wrong"
    )
    feedback.add_argument("session", metavar="SESSION", help="its id, as the API shows it")
    feedback.add_argument(
        "label", choices=("right", "wrong", _NO_LABEL), help="none takes the label back"
    )
    feedback.add_argument(
        "--url",
        default="http://127.0.0.1:4319",
        help="API of the service, which needs an archive (default: http://127.0.0.1:4319)",
    )
    feedback.add_argument("--note", default="", help="why, for who reads it later")
    feedback.add_argument("--spec", help="only of the verdicts under this spec")
    feedback.add_argument("--namespace", help="of the session (default: of the latest)")
    feedback.add_argument(
        "--begun",
        metavar="NS",
        help="`started` of the session, if it is not the latest of this id",
    )
    add_token_file(feedback)
    feedback.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails feedback`, and returns the exit code."""
    from collector.client.api_client import post
    from collector.sinks.printable_text import printable

    label = None if options.label == _NO_LABEL else options.label
    body = {"label": label, "note": options.note}
    if options.spec is not None:
        body["spec"] = options.spec
    found = post(options.url, _path(options), body, options.token_file)
    under = f" under {printable(options.spec)}" if options.spec is not None else ""
    said = f"is labelled {label}" if label else "has no label"
    print(f"{printable(options.session)} {said}{under}, by {printable(str(found['who']))}")
    return OK


def _path(options: argparse.Namespace) -> str:
    named = {"namespace": options.namespace, "begun": options.begun}
    given = {key: value for key, value in named.items() if value is not None}
    query = urlencode(given, errors="surrogateescape")
    path = f"/api/v1/sessions/{quote(options.session, safe='', errors='surrogateescape')}/label"
    return f"{path}?{query}" if query else path
