"""`offrails harness report`: what runs have shown."""

from __future__ import annotations

import argparse
import json
from typing import Any

from collector.cli.arguments import to_path
from collector.cli.inputs import writing

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    verb = group.add_parser("report", help="what runs have shown")
    verb.add_argument("folders", nargs="+", type=to_path, metavar="DIR")
    form = verb.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object")
    form.add_argument(
        "--html", type=to_path, metavar="FILE", help="one page that loads nothing"
    )
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails harness report`, and returns the exit code."""
    from harness.bench.results import SPANS, calls_of_run, read_rollouts
    from harness.report.figures import report_of
    from harness.report.page import page
    from harness.report.text import lines

    rollouts = [each for folder in options.folders for each in read_rollouts(folder)]
    calls: dict[str, list[dict[str, Any]]] = {}
    for folder in options.folders:
        if (folder / SPANS).exists():
            calls.update(calls_of_run(folder))
    found = report_of(rollouts, calls)
    if options.json:
        print(json.dumps(found.as_json(), ensure_ascii=False))
    elif options.html is not None:
        with writing(options.html):
            options.html.write_text(page(found), encoding="utf-8", errors="backslashreplace")
    else:
        for line in lines(found):
            print(line)
    return 0
