"""`offrails check`: reports errors and warnings of specs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from collector.cli.arguments import to_path
from collector.cli.inputs import (
    FAILED,
    OK,
    only_task,
    quit_with,
    read_specs,
    recordings,
)

__all__ = ["add", "run"]

NOTES_MAX = 3
"""Number of tasks without `match`, and of references by their ceilings, that are listed by name."""


def add(group: Any) -> None:
    """Adds the verb and its options."""
    check = group.add_parser("check", help="report errors and warnings of specs")
    check.add_argument("paths", nargs="+", type=to_path, metavar="FILE|DIR")
    check.add_argument("--json", action="store_true", help="print one finding per line as JSON")
    check.add_argument(
        "--runs",
        nargs="+",
        type=to_path,
        default=(),
        metavar="RUNS",
        help="recordings of good runs: also report those that a spec rejects",
    )
    check.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails check`, and returns the exit code."""
    for path in options.paths:
        if not path.exists():
            quit_with(f"{path}: no such file or folder")
    loaded = read_specs(options.paths)
    for finding in loaded.findings:
        print(
            json.dumps(finding.as_json())
            if options.json
            else f"{finding}\n    {finding.impact}"
        )
    if not options.json:
        errors = sum(finding.severity == "error" for finding in loaded.findings)
        warnings = len(loaded.findings) - errors
        specs, faults = _counted(len(loaded.specs), "spec"), _counted(errors, "error")
        print(f"{specs} fine, {faults}, {_counted(warnings, 'warning')}")
        for line in (*_unmatched(loaded.specs), *_ceilings(loaded.specs)):
            print(line)
    if loaded.refused:
        return FAILED
    return _check_runs(options, loaded.specs) if options.runs else OK


def _unmatched(specs: Sequence[Any]) -> Iterator[str]:
    """Notes on tasks without `match`: a line for each of the first `NOTES_MAX`, and one for the rest."""
    found = [spec for spec in specs if spec.kind == "task" and not spec.match.rules]
    for spec in found[:NOTES_MAX]:
        yield (
            f"{spec.file}: note: no `match`: only sessions that name the spec are judged "
            f"(the attribute offrails.spec, here {spec.id!r})"
        )
    if len(found) > NOTES_MAX:
        yield f"and {len(found) - NOTES_MAX} more tasks without `match`"


def _ceilings(specs: Sequence[Any]) -> Iterator[str]:
    """Notes on references whose whole runs tell least of their outcome: what their risk cannot see."""
    found = [
        (spec.learnt.ceiling.area, spec)
        for spec in specs
        if spec.learnt is not None
        and spec.learnt.ceiling is not None
        and spec.learnt.ceiling.area is not None
    ]
    found.sort(key=lambda each: (each[0], each[1].file))
    for area, spec in found[:NOTES_MAX]:
        yield (
            f"{spec.file}: note: ceiling {area:.2f}: with the whole run its risk ranks so large a share of failed "
            "above successful runs; the rest cannot be seen in calls"
        )
    if len(found) > NOTES_MAX:
        yield f"and {len(found) - NOTES_MAX} more references with a higher ceiling"


def _check_runs(options: argparse.Namespace, specs: Sequence[Any]) -> int:
    """Reports which good runs are rejected. A run that names no spec is judged by the only task."""
    from collector.offline.good_runs import check_runs
    from collector.offline.replay import replay

    judged = replay(recordings(options.runs), specs, unnamed=only_task(specs))
    found = check_runs.try_runs(judged, specs)
    if options.json:
        for each in found.as_json():
            print(json.dumps(each, ensure_ascii=False))
    else:
        for line in check_runs.lines(found):
            print(line)
    if not found.specs:
        print(f"offrails: {check_runs.untested(found)}", file=sys.stderr)
        return FAILED
    return FAILED if found.rejected else OK


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
