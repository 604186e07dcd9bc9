"""Who judges: a model and perhaps a second one, the rubrics, canaries, and a budget that begins anew with each period."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from judges.canary import Canary, canaries_of
from judges.judgement_record import JudgementRecord
from judges.judging import JudgeOptions, SessionCase, judge_session
from judges.models.budget import Price, TokenBudget
from judges.models.cache import AnswerCache
from judges.models.model import Usage
from judges.models.openai_endpoint import OpenAIEndpoint
from judges.rubric import Rubric
from judges.second_judge import judge_by_two

__all__ = ["BudgetPeriod", "JudgePanel", "PanelAnswer", "PricedModel"]


@dataclass(frozen=True, slots=True)
class PricedModel:
    """A model, and what its tokens cost."""

    model: OpenAIEndpoint
    price: Price

    def cost(self, record: JudgementRecord) -> float:
        """Money that a judgement has cost."""
        return self.price.of(Usage(record.tokens_in, record.tokens_out))


@dataclass(frozen=True, slots=True)
class PanelAnswer:
    """One judgement, of a session or of a canary."""

    record: JudgementRecord
    cost: float
    is_second: bool = False
    """True if it is the second model's."""
    canary: Canary | None = None
    """None for a session."""


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
        second: the model that judges what the first has scored; None if there is none.
        rubrics: the judges.
        options: how it is judged.
        period: of the budget.
        canaries: a canary comes with each so many judgements of a judge; 0: none come.
    """

    def __init__(
        self,
        first: PricedModel,
        second: PricedModel | None,
        rubrics: Sequence[Rubric],
        options: JudgeOptions,
        period: BudgetPeriod,
        canaries: int,
    ) -> None:
        self.options = options
        self._first = first
        self._second = second
        self._rubrics = rubrics
        self._period = period
        self._canaries = canaries
        self._judged: Counter[str] = Counter()
        """Judgements of each judge so far."""
        self._nothing_kept = AnswerCache(None)

    async def judge(self, case: SessionCase) -> AsyncIterator[PanelAnswer]:
        """The judgements of a session; before those of a judge its canary, if one is due."""
        for rubric in self._rubrics:
            self._period.look()
            canary = self._due(rubric)
            if canary is not None:
                async for each in self._tried(canary, rubric):
                    yield each
            async for each in self._of_session(case, rubric):
                yield each

    async def _of_session(
        self, case: SessionCase, rubric: Rubric
    ) -> AsyncIterator[PanelAnswer]:
        second = None if self._second is None else self._second.model
        found = await judge_by_two(
            case, rubric, 1, self._first.model, second, self._nothing_kept, self.options
        )
        for record, by in zip(found, (self._first, self._second), strict=False):
            if by is not None:
                yield PanelAnswer(record, by.cost(record), is_second=by is not self._first)

    def _due(self, rubric: Rubric) -> Canary | None:
        """The canary that comes before this judgement; kind after kind."""
        number = self._judged[rubric.id]
        self._judged[rubric.id] += 1
        known = canaries_of(rubric.id)
        if not known or not self._canaries or number % self._canaries:
            return None
        return known[number // self._canaries % len(known)]

    async def _tried(self, canary: Canary, rubric: Rubric) -> AsyncIterator[PanelAnswer]:
        case = SessionCase.of("canary", (), canary.steps, self.options)
        for by in (self._first, self._second):
            if by is not None:
                found = await judge_session(
                    case, rubric, 1, by.model, self._nothing_kept, self.options
                )
                is_second = by is not self._first
                yield PanelAnswer(found, by.cost(found), is_second, canary=canary)

    async def close(self) -> None:
        """Closes the connections."""
        for each in (self._first, self._second):
            if each is not None:
                await each.model.close()
