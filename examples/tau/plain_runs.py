"""Runs of tau-bench's tasks as plain runs, which `offrails replay` and `offrails check --runs` read.

    python examples/tau/plain_runs.py AIRLINE_RUNS.jsonl.gz > AIRLINE.jsonl
    offrails replay AIRLINE.jsonl --specs examples/tau/airline --table

A line of the input is a run: `domain`, `task_id`, `trial`, `reward`, and `steps` in order: `{user}`, `{agent}`, and
`{tool, arguments, result, error}`.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["entries", "plain_run", "runs_of"]


def runs_of(file: Path) -> Iterator[dict[str, Any]]:
    """The runs of a file."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def entries(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The calls of a run with their results, and the messages of its user, in their order."""
    for step in run["steps"]:
        if "user" in step:
            yield {"user": step["user"]}
        elif "tool" in step:
            yield {
                "name": step["tool"],
                "arguments": step["arguments"],
                "result": step["result"],
                "error": bool(step["error"]),
            }


def plain_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """The plain form of a run."""
    name = f"{run['domain']} {run['task_id']}, trial {run['trial']}"
    return {"run": name, "reward": run["reward"], "calls": list(entries(run))}


def main() -> None:
    """Prints the plain runs of the files that are named."""
    for file in map(Path, sys.argv[1:]):
        for run in runs_of(file):
            sys.stdout.write(json.dumps(plain_run(run)) + "\n")


if __name__ == "__main__":
    main()
