"""`offrails harness check`: is a task sound? Its ways, reads and traps are made in its world, and judged."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from harness.cli.judge_options import add_rubrics, known_judges, unknown_judges

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    verb = group.add_parser("check", help="check task documents, their worlds and specs")
    verb.add_argument("tasks", nargs="*", metavar="TASK|FILE|DIR")
    verb.add_argument(
        "--no-sandbox", action="store_true", help="load the world's module as you are"
    )
    verb.add_argument(
        "--schema", action="store_true", help="print the schema of a task document"
    )
    add_rubrics(verb)
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails harness check`, and returns the exit code."""
    import json

    from harness.bench.soundness import faults_of
    from harness.sandbox.process import Sandbox, kind_here
    from harness.tasks.catalogue import find_tasks
    from harness.tasks.document import schema

    if options.schema:
        print(json.dumps(schema(), indent=2))
        return 0
    tasks = find_tasks(options.tasks)
    first: Path = tasks[0].module
    packages = any(task.document.environment.packages for task in tasks)
    kind = "none" if options.no_sandbox else kind_here(packages=packages)
    sandbox = Sandbox(kind, first.parent)
    named = [task for task in tasks if task.document.evaluation.judge is not None]
    judges = unknown_judges(named, known_judges(options.rubrics)) if named else []
    try:
        faults = judges + [fault for task in tasks for fault in faults_of(task, sandbox)]
    finally:
        sandbox.close()
    for fault in faults:
        print(fault)
    print(f"{len(tasks)} task{'s' * (len(tasks) != 1)}, {len(faults)} faults")
    return 2 if faults else 0
