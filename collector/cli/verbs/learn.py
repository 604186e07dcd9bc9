"""`offrails learn`: learns a reference from recorded runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from collector.cli.arguments import to_path
from collector.cli.inputs import OK, quit_with, recordings, writing

__all__ = ["add", "run"]

DRAWS_MAX: Final = 1_000


def add(group: Any) -> None:
    """Adds the verb and its options."""
    learn = group.add_parser("learn", help="learn a reference from recorded runs")
    learn.add_argument("files", nargs="+", type=to_path, metavar="FILE|DIR")
    learn.add_argument("--id", help="id of the reference; with --update, the id of OLD")
    learn.add_argument(
        "--out",
        type=to_path,
        metavar="FILE|DIR",
        help="file for the reference; with --risk a folder for those of all tasks",
    )
    across = learn.add_mutually_exclusive_group()
    across.add_argument(
        "--risk",
        action="store_true",
        help="learn a reference of each task, and one risk over all of them (needs offrails[learn])",
    )
    across.add_argument(
        "--evaluate",
        action="store_true",
        help="write nothing: measure risk and pages on runs of other agents and tasks",
    )
    learn.add_argument(
        "--task", default="", metavar="KEY", help="attribute, or key of plain runs, of the task"
    )
    learn.add_argument(
        "--agent",
        default="",
        metavar="KEY",
        help="attribute, or key of plain runs, of the agent",
    )
    learn.add_argument(
        "--record",
        metavar="FILE|archive",
        help="runs, or an archive, of how agents did at other tasks: shown beside the risk",
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
    learn.add_argument(
        "--false-pages",
        type=_per_1000,
        metavar="N",
        help="an alarm pages only if at most N of 1,000 usual runs would raise it (conformal rule)",
    )
    learn.add_argument(
        "--draws",
        type=_draws,
        metavar="N",
        help="with --evaluate: how often references and judged runs are drawn (8)",
    )
    learn.set_defaults(run=run)


def _per_1000(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (found := float(text)) <= 1000:
            return found
    raise argparse.ArgumentTypeError(f"expected a number from 0 to 1000, not {text!r}")


def _draws(text: str) -> int:
    with suppress(ValueError):
        if 1 <= (found := int(text)) <= DRAWS_MAX:
            return found
    raise argparse.ArgumentTypeError(f"expected a number from 1 to {DRAWS_MAX}, not {text!r}")


def run(options: argparse.Namespace) -> int:
    """Runs `offrails learn`, and returns the exit code."""
    _check(options)
    options.files = recordings(options.files)
    for line in _lines(options):
        print(line, flush=True)
    return OK


def _check(options: argparse.Namespace) -> None:
    """Quits if options are missing, or do not go together."""
    many = options.risk or options.evaluate
    if many and (options.update or options.spec):
        quit_with(
            "learn: --update and --spec go with one reference, not with --risk or --evaluate"
        )
    if not options.evaluate and not options.out:
        quit_with("learn: --out is missing")
    if not options.evaluate and not options.id and not options.update:
        quit_with("learn: --id is missing")
    if options.draws is not None and not options.evaluate:
        quit_with("learn: --draws goes with --evaluate")
    if options.false_pages is not None and options.evaluate:
        quit_with("learn: --false-pages goes with what is written, not with --evaluate")
    if not many and (options.task or options.agent or options.record):
        quit_with("learn: --task, --agent and --record go with --risk or --evaluate")


def _lines(options: argparse.Namespace) -> Iterator[str]:
    from collector.offline.learn import Keys, learn_files
    from collector.offline.risk.learn_tasks import evaluate_files, learn_tasks

    given = {
        "writes": options.writes,
        "success": options.success,
        "labels": options.labels,
    }
    keys = Keys(options.task, options.agent)
    if options.evaluate:
        draws = {} if options.draws is None else {"draws": options.draws}
        yield from evaluate_files(
            options.files, keys=keys, record=options.record, **draws, **given
        )
        return
    with writing(options.out):
        if options.risk:
            yield from learn_tasks(
                options.files,
                options.out,
                id_=options.id,
                keys=keys,
                record=options.record,
                false_pages=options.false_pages,
                **given,
            )
            return
        yield from learn_files(
            options.files,
            options.out,
            id_=options.id or "",
            update=options.update,
            spec=options.spec,
            false_pages=options.false_pages,
            **given,
        )
