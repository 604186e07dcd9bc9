"""Records as `offrails judge --json` prints them, made for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def record(
    session: str, judge: str = "LC", score: int | None = 2, **others: Any
) -> dict[str, Any]:
    """A line of a judge: scored, without findings, unless it is said otherwise."""
    return {
        "session": session,
        "judge": judge,
        "judge_version": "1",
        "model": "m",
        "repeat": 1,
        "outcome": "scored",
        "score": score,
        "normalised": None if score is None else score / 3,
        "criteria": "",
        "evidence": "",
        "findings": [],
        "not_in_trace": [],
        "seen": {"calls": 1, "of": 1},
        "tokens_in": 1,
        "tokens_out": 1,
        "cached": False,
        "contradiction": False,
        "validated": True,
        **others,
    }


def finding(
    step: str = "s1", span_id: str = "00000000000000a1", **others: Any
) -> dict[str, Any]:
    """A finding of a judge."""
    return {
        "step": step,
        "span_id": span_id,
        "category": "Goal Deviation",
        "impact": "medium",
        "what": "",
        **others,
    }


def repeats(
    scores: Mapping[str, Sequence[int]], judge: str = "LC", **others: Any
) -> list[dict[str, Any]]:
    """Scores of each session, one a repeat."""
    return [
        record(session, judge, score, repeat=number, **others)
        for session, given in scores.items()
        for number, score in enumerate(given, start=1)
    ]
