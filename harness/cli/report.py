"""`offrails harness report`: what runs have shown."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
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
    from harness.report.figures import report_of
    from harness.report.page import page
    from harness.report.text import lines

    found = report_of([each for folder in options.folders for each in _rollouts(folder)])
    if options.json:
        print(json.dumps(found.as_json(), ensure_ascii=False))
    elif options.html is not None:
        with writing(options.html):
            options.html.write_text(page(found), encoding="utf-8", errors="backslashreplace")
    else:
        for line in lines(found):
            print(line)
    return 0


def _rollouts(folder: Path) -> list[dict[str, Any]]:
    """The rollouts of a run, each with its calls as `made`; None where they are not known.

    Sessions of offline runs have the same ids in each: calls are looked for in the same folder alone.
    """
    from harness.bench.results_folder import SPANS, calls_of_run, read_rollouts

    calls = calls_of_run(folder) if (folder / SPANS).exists() else {}
    return [{**each, "made": calls.get(each["session"])} for each in read_rollouts(folder)]
