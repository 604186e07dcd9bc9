"""`offrails export`: past sessions as JSON lines, CSV or Parquet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from collector.cli.arguments import add_token_file, to_path
from collector.cli.inputs import FAILED, OK, USAGE, writing

__all__ = ["add", "run"]

_FORMATS: Final = ("jsonl", "csv", "parquet")


def add(group: Any) -> None:
    """Adds the verb and its options."""
    export = group.add_parser(
        "export", help="write past sessions as JSON lines, CSV or Parquet"
    )
    export.add_argument(
        "--from",
        dest="place",
        metavar="DIR|URL",
        required=True,
        help="folder of an archive (archive.dir), its database (archive.url), or API of a running service",
    )
    export.add_argument(
        "--since",
        default="",
        metavar="AGE|DATE",
        help="sessions with a call since then: 7d, 12h, or 2026-11-20 (default: all)",
    )
    export.add_argument("--format", choices=_FORMATS, default="jsonl", help="default: jsonl")
    rows = export.add_mutually_exclusive_group()
    rows.add_argument(
        "--steps", action="store_true", help="a row for each call, not for each judgement"
    )
    rows.add_argument(
        "--labels",
        action="store_true",
        help="JSON lines of the labels that people gave, as `learn --labels` reads them",
    )
    export.add_argument(
        "--out", type=to_path, metavar="FILE", help="default: standard output, but for parquet"
    )
    add_token_file(export)
    export.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails export`, and returns the exit code."""
    from collector.archive.connection import FAULTS
    from collector.archive.reader import TooSlowError
    from collector.archive.schema import NewerSchemaError, OlderSchemaError
    from collector.offline.past_sessions.export import (
        ExportError,
        place_told,
        read_sessions,
        since_ns,
    )
    from collector.offline.past_sessions.labels import read_labels

    try:
        since = since_ns(options.since) if options.since else 0
    except ExportError as problem:
        return _failed(str(problem), USAGE)
    if options.format == "parquet" and options.out is None:
        return _failed("--format parquet needs --out FILE", USAGE)
    if options.labels and options.format != "jsonl":
        return _failed("--labels are JSON lines: leave --format out", USAGE)
    read = read_labels if options.labels else read_sessions
    found = read(options.place, since, options.token_file)
    try:
        count = _write(found, options)
    except (*FAULTS, NewerSchemaError, OlderSchemaError, TooSlowError) as problem:
        place = place_told(options.place)
        return _failed(f"{place}: the archive cannot be read: {problem}", FAILED)
    rows = "calls" if options.steps else "labels" if options.labels else "judgements"
    print(f"offrails: {count} {rows}", file=sys.stderr)
    return OK


def _write(found: Any, options: argparse.Namespace) -> int:
    from collector.offline.past_sessions.export import write_csv, write_jsonl, write_parquet

    out: Path | None = options.out
    if out is None:
        if options.format == "csv":
            return write_csv(found, sys.stdout, steps=options.steps)
        return write_jsonl(found, sys.stdout.buffer, steps=options.steps)
    with writing(out):
        if options.format == "parquet":
            return write_parquet(found, out, steps=options.steps)
        if options.format == "csv":
            with out.open("w", encoding="utf-8", newline="") as file:
                return write_csv(found, file, steps=options.steps)
        with out.open("wb") as lines:
            return write_jsonl(found, lines, steps=options.steps)


def _failed(message: str, code: int) -> int:
    print(f"offrails: {message}", file=sys.stderr)
    return code
