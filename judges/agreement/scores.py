"""Which records have a score that counts, and which score that is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["Record", "counted", "scores_by_session"]

Record = Mapping[str, Any]
"""A line of `offrails judge --json`."""


def counted(record: Record) -> bool:
    """Whether a score counts: it was given for the whole session, and does not contradict its findings."""
    return record["outcome"] == "scored" and not record.get("contradiction")


def scores_by_session(records: Iterable[Record]) -> dict[str, list[int]]:
    """Session -> scores that count, one a repeat."""
    found: dict[str, list[int]] = defaultdict(list)
    for record in records:
        if counted(record):
            found[record["session"]].append(record["score"])
    return dict(found)
