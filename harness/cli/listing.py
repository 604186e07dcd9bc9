"""`offrails harness list`: the bundled tasks."""

from __future__ import annotations

import argparse
import json
from typing import Any

__all__ = ["add", "run"]


def add(group: Any) -> None:
    """Adds the verb and its options."""
    verb = group.add_parser("list", help="the bundled tasks")
    verb.add_argument("--json", action="store_true", help="one JSON object a task")
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails harness list`, and returns the exit code."""
    from harness.tasks.catalogue import bundled

    for task in bundled():
        document = task.document
        found = {
            "task": task.name,
            "world": document.world,
            "spec": str(task.spec_file.resolve()),
            "tags": document.tags,
        }
        if options.json:
            print(json.dumps(found))
        else:
            tags = f" [{', '.join(document.tags)}]" if document.tags else ""
            print(f"{task.name:<32} {' '.join(document.instruction.split())[:80]}{tags}")
    return 0
