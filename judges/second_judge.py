"""A second model on a session that the first has given a score: two that are too far apart are disputed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from judges.judgement_record import JudgementRecord
from judges.judging import JudgeOptions, SessionCase, judge_session
from judges.models.cache import AnswerCache
from judges.models.model import Model
from judges.rubric import Rubric

__all__ = ["is_disputed", "judge_by_two"]

APART_MAX: Final = 1
"""Points by which two scores may differ."""


def is_disputed(one: JudgementRecord, other: JudgementRecord) -> bool | None:
    """Whether two scores differ by more than one point; None if there are not two."""
    if one.score is None or other.score is None:
        return None
    return abs(one.score - other.score) > APART_MAX


async def judge_by_two(
    case: SessionCase,
    rubric: Rubric,
    repeat: int,
    first: Model,
    second: Model | None,
    cache: AnswerCache,
    options: JudgeOptions,
) -> list[JudgementRecord]:
    """The judgement of the first model; behind it that of the second, if the first has given a score."""
    found = await judge_session(case, rubric, repeat, first, cache, options)
    if second is None or found.score is None:
        return [found]
    other = await judge_session(case, rubric, repeat, second, cache, options)
    disputed = is_disputed(found, other)
    return [replace(each, disputed=disputed) for each in (found, other)]
