"""`offrails journal`: looks into a journal."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from collector.cli.arguments import to_path
from collector.cli.inputs import FAILED, OK, quit_with

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    journal = group.add_parser("journal", help="look into the journal of a service (--state)")
    verbs = journal.add_subparsers(metavar="inspect|verify|export", required=True)
    inspect = verbs.add_parser("inspect", help="list its files and what is in them")
    inspect.add_argument("--json", action="store_true", help="print one file per line, as JSON")
    verify = verbs.add_parser("verify", help="read all of it; exit code 1 if it is damaged")
    export = verbs.add_parser("export", help="print its requests as OTLP/JSON lines")
    for verb, name in ((inspect, "inspect"), (verify, "verify"), (export, "export")):
        verb.add_argument("folder", type=to_path, metavar="DIR")
        verb.set_defaults(run=run, what=name)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails journal`, and returns the exit code."""
    folder: Path = options.folder
    if not folder.is_dir():
        quit_with(f"{folder}: no such folder")
    try:
        if options.what == "export":
            return _export(folder)
        if options.what == "verify":
            return _verify(folder)
        return _inspect(folder, as_json=options.json)
    except PermissionError as problem:
        quit_with(f"{problem.filename or folder}: {problem.strerror}")


def _inspect(folder: Path, *, as_json: bool) -> int:
    from collector.offline.journal import contents, short_cuts, shown, shown_short
    from collector.state.journal_files import other_files

    is_empty = True
    for content in contents(folder):
        is_empty = False
        print(json.dumps(content.as_json()) if as_json else "\n".join(shown(content)))
    for short in short_cuts(folder):
        is_empty = False
        print(json.dumps(short.as_json()) if as_json else "\n".join(shown_short(short)))
    for other in other_files(folder):
        print(json.dumps(other._asdict()) if as_json else f"{other}  not of the journal")
    if is_empty:
        quit_with(f"{folder}: no journal in this folder")
    return OK


def _verify(folder: Path) -> int:
    from collector.offline.journal import contents, short_cuts, shown, shown_short

    files = records = damaged = others = 0
    for content in contents(folder):
        files += 1
        records += sum(content.kinds.values())
        damaged += content.is_damaged
        others += content.is_newer and not content.is_damaged
        if content.is_damaged or content.is_newer:
            print("\n".join(shown(content)))
    for short in short_cuts(folder):
        files += 1
        damaged += bool(short.problem) and not short.is_other
        others += short.is_other
        if short.problem:
            print("\n".join(shown_short(short)))
    of_others = f", {others} of another version" if others else ""
    if not files:
        quit_with(f"{folder}: no journal in this folder")
    print(f"{files} files, {records} records, {damaged} files damaged{of_others}")
    return FAILED if damaged else OK


def _export(folder: Path) -> int:
    from collector.offline.journal import exported
    from collector.state.journal_files import found_in

    if not found_in(folder):
        quit_with(f"{folder}: no journal in this folder")
    for each in exported(folder):
        sys.stdout.write(each.decode())
    return OK
