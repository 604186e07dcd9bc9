"""Many judgements: every session by every judge, as often as wanted, some at once, in a fixed order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence

from judges.judgement_record import JudgementRecord
from judges.judging import JudgeOptions, SessionCase
from judges.models.cache import AnswerCache
from judges.models.model import Model
from judges.rubric import Rubric
from judges.second_judge import judge_by_two

__all__ = ["judge_all"]


async def judge_all(
    cases: Iterable[SessionCase],
    rubrics: Sequence[Rubric],
    repeats: int,
    model: Model,
    second: Model | None,
    cache: AnswerCache,
    options: JudgeOptions,
    at_once: int,
) -> AsyncGenerator[JudgementRecord, None]:
    """The records, session by session, judge by judge, repetition by repetition.

    Args:
        cases: the sessions; taken one by one, as they are needed.
        rubrics: the judges.
        repeats: how often each judge judges a session.
        model: who is asked.
        second: who is asked of what the first has given a score; None for nobody.
        cache: answers that stand.
        options: how it is judged.
        at_once: judgements that are on their way together, at most.
    """
    waiting: deque[asyncio.Task[list[JudgementRecord]]] = deque()
    try:
        for case, rubric, repeat in _jobs(cases, rubrics, repeats):
            judging = judge_by_two(case, rubric, repeat, model, second, cache, options)
            waiting.append(asyncio.create_task(judging))
            if len(waiting) >= at_once:
                for record in await waiting.popleft():
                    yield record
        while waiting:
            for record in await waiting.popleft():
                yield record
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _jobs(
    cases: Iterable[SessionCase], rubrics: Sequence[Rubric], repeats: int
) -> Iterator[tuple[SessionCase, Rubric, int]]:
    for case in cases:
        for rubric in rubrics:
            for repeat in range(1, repeats + 1):
                yield case, rubric, repeat
