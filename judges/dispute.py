"""Two models on one session: whether they are too far apart for either score to be taken alone."""

from __future__ import annotations

from typing import Final

from judges.judgement_record import JudgementRecord

__all__ = ["is_disputed"]

APART_MAX: Final = 1
"""Points by which two scores may differ."""


def is_disputed(one: JudgementRecord, other: JudgementRecord) -> bool | None:
    """Whether two scores differ by more than one point; None if there are not two."""
    if one.score is None or other.score is None:
        return None
    return abs(one.score - other.score) > APART_MAX
