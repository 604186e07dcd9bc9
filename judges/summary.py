"""The figures of a run, a judge each: how often it was asked, what became of it, and its mean score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from judges.judgement_record import OUTCOMES

__all__ = ["summary"]


def summary(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Judge -> its figures.

    Args:
        records: the objects of the JSON lines.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["judge"], []).append(record)
    return {judge: _figures(group) for judge, group in groups.items()}


def _figures(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counts = Counter(record["outcome"] for record in records)
    scores = [
        record["score"]
        for record in records
        if record["outcome"] == "scored" and not record["contradiction"]
    ]
    return {
        "asked": len(records),
        "n": counts["scored"],
        "mean": fmean(scores) if scores else None,
        "validated": records[0]["validated"],
        "outcomes": {outcome: counts[outcome] for outcome in OUTCOMES},
    }
