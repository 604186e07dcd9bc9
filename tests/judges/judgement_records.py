"""Judgements, as tests have them."""

from __future__ import annotations

from typing import Any

from judges.judgement_record import CallsSeen, JudgementRecord, Outcome


def record(outcome: Outcome = "scored", score: int | None = 2, **more: Any) -> JudgementRecord:
    """A judgement of session `s` by TC."""
    return JudgementRecord(
        session="s",
        judge="TC",
        judge_version="1",
        model="m",
        repeat=1,
        outcome=outcome,
        seen=CallsSeen(1, 1),
        validated=True,
        score=score,
        **more,
    )
