"""`offrails learn`: learns a reference from recorded runs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from collector.cli.arguments import to_path
from collector.cli.inputs import FAILED, OK, quit_with, recordings, writing

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    learn = group.add_parser("learn", help="learn a reference from recorded runs")
    learn.add_argument("files", nargs="+", type=to_path, metavar="FILE|DIR")
    learn.add_argument("--id", help="id of the reference; with --update, the id of OLD")
    learn.add_argument(
        "--out", type=to_path, required=True, metavar="FILE", help="file for the reference"
    )
    learn.add_argument(
        "--writes", metavar="TOOL,...", help="tools that change something, comma separated"
    )
    outcomes = learn.add_mutually_exclusive_group()
    outcomes.add_argument(
        "--success", metavar="ATTR=VALUE", help="attribute and value that mark a successful run"
    )
    outcomes.add_argument(
        "--labels",
        type=to_path,
        metavar="FILE",
        help="file with a session and its outcome per line",
    )
    learn.add_argument(
        "--update",
        type=to_path,
        metavar="OLD",
        help="reference whose next version is proposed",
    )
    learn.add_argument(
        "--spec",
        type=to_path,
        metavar="OUT",
        help="also draft a task spec for review (ALERGIA; needs offrails[learn])",
    )
    learn.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails learn`, and returns the exit code."""
    from collector.offline.drafts.draft_spec import NoLearner
    from collector.offline.learn import BadLabels, learn_files
    from collector.offline.replay import BadInput

    if not options.id and not options.update:
        quit_with("learn: --id is missing")
    options.files = recordings(options.files)
    try:
        with writing(options.out):
            for line in learn_files(
                options.files,
                options.out,
                id_=options.id or "",
                writes=options.writes,
                success=options.success,
                labels=options.labels,
                update=options.update,
                spec=options.spec,
            ):
                print(line)
    except NoLearner as problem:
        quit_with(str(problem))
    except (BadInput, BadLabels) as problem:
        print(f"offrails: {problem}", file=sys.stderr)
        return FAILED
    return OK
