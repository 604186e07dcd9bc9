"""Who judges: a model, the rubrics, and a budget that begins anew with each period."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from judges.judgement_record import JudgementRecord
from judges.judging import JudgeOptions, SessionCase, judge_session
from judges.models.budget import Price, TokenBudget
from judges.models.cache import AnswerCache
from judges.models.model import Usage
from judges.models.openai_endpoint import OpenAIEndpoint
from judges.rubric import Rubric

__all__ = ["BudgetPeriod", "JudgePanel", "PricedModel"]


@dataclass(frozen=True, slots=True)
class PricedModel:
    """A model, and what its tokens cost."""

    model: OpenAIEndpoint
    price: Price

    def cost(self, record: JudgementRecord) -> float:
        """Money that a judgement has cost."""
        return self.price.of(Usage(record.tokens_in, record.tokens_out))


class BudgetPeriod:
    """A budget that is whole again after each period.

    Args:
        budget: what may be used in one.
        seconds: length of a period.
        steady: nanoseconds of a clock that nobody sets.
    """

    def __init__(self, budget: TokenBudget, seconds: float, steady: Callable[[], int]) -> None:
        self._budget = budget
        self._length_ns = int(seconds * 1e9)
        self._steady = steady
        self._began_ns = steady()

    def look(self) -> None:
        """Begins the period anew, if it is over."""
        now = self._steady()
        if now - self._began_ns >= self._length_ns:
            self._began_ns = now
            self._budget.renew()


class JudgePanel:
    """Judges one session after the other, by all judges.

    Args:
        first: the model that judges.
        rubrics: the judges.
        options: how it is judged.
        period: of the budget.
    """

    def __init__(
        self,
        first: PricedModel,
        rubrics: Sequence[Rubric],
        options: JudgeOptions,
        period: BudgetPeriod,
    ) -> None:
        self.options = options
        self._first = first
        self._rubrics = rubrics
        self._period = period
        self._nothing_kept = AnswerCache(None)

    async def judge(self, case: SessionCase) -> AsyncIterator[tuple[JudgementRecord, float]]:
        """The judgements of a session, each with its cost."""
        for rubric in self._rubrics:
            self._period.look()
            yield await self._one(case, rubric, self._first)

    async def _one(
        self, case: SessionCase, rubric: Rubric, by: PricedModel
    ) -> tuple[JudgementRecord, float]:
        found = await judge_session(case, rubric, 1, by.model, self._nothing_kept, self.options)
        return found, by.cost(found)

    async def close(self) -> None:
        """Closes the connections."""
        await self._first.model.close()
