"""What plain records of each kind hold, and under which version: snapshots that were written stay readable.

When a kind changes, it gets an entry in its `changes`; `GOLDEN=write pytest tests/golden` then writes the file anew.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from collector.restart.snapshot_layout import KINDS

FILE: Final = Path(__file__).with_name("kinds.txt")


def lines() -> list[str]:
    """A line for each kind: name, version, fields."""
    return sorted(
        f"{each.name}, {each.version}: {' '.join(each.fields)}".rstrip() for each in KINDS.all
    )


def by_version(texts: list[str]) -> dict[str, str]:
    """Fields by name and version."""
    return {head: fields for head, _, fields in (each.partition(":") for each in texts)}


def test_a_kind_that_changes_gets_another_version() -> None:
    """Under one version a kind has the same fields for ever: what an earlier program wrote is never read as something else."""
    before, today = by_version(FILE.read_text().splitlines()), by_version(lines())
    changed = [head for head in before.keys() & today.keys() if before[head] != today[head]]
    assert not changed, "a `KindChange` is missing that makes another version of it"


def test_the_kinds_are_those_of_the_file() -> None:
    """A kind that comes, goes or changes is seen in a review."""
    if os.environ.get("GOLDEN") == "write":
        FILE.write_text("\n".join(lines()) + "\n")
    assert FILE.read_text().splitlines() == lines()
