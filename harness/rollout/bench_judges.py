"""Models that score rollouts: one loop in a thread of its own asks them for all rollouts, under one budget.

It is imported where judges are asked for: nothing else of the bench loads them or their client.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from collector.decode.span import Span
from collector.transcripts.session_steps import session_steps
from judges.judgement_record import JudgementRecord
from judges.judging import JudgeOptions, SessionCase, judge_session
from judges.models.cache import AnswerCache
from judges.models.model import Model, ModelFailure, ModelReply, ModelRequest
from judges.models.openai_endpoint import OpenAIEndpoint
from judges.rubric import Rubric

__all__ = ["BenchJudges", "RecordedModel", "ShutCache"]

_OPTIONS: Final = JudgeOptions()


class RecordedModel:
    """A model of which only recorded answers are known: what is asked of it anew has none."""

    def __init__(self, model: Model) -> None:
        self.name: Final = model.name
        self.identity: Final = model.identity

    async def ask(self, request: ModelRequest) -> ModelReply:  # noqa: ARG002 - whatever it is
        """Raises ModelFailure."""
        raise ModelFailure("its answer is not recorded")


class ShutCache(AnswerCache):
    """Recorded answers, to which none is added."""

    def put(self, key: str, answer: dict[str, Any]) -> None:
        """Nothing."""


class BenchJudges:
    """Asks the judges of a run. Safe for threads: each waits for its own judgements.

    Args:
        rubrics: of all judges, by id.
        everywhere: ids of those that score each rollout.
        endpoint: who is asked.
        recording: folder of answers; None keeps none.
        offline: whether recorded answers are given in its place: nobody is asked, unless `ask_missing`.
        ask_missing: whether the endpoint is asked for what is not recorded.
    """

    def __init__(
        self,
        rubrics: Mapping[str, Rubric],
        everywhere: Sequence[str],
        endpoint: OpenAIEndpoint,
        *,
        recording: Path | None = None,
        offline: bool = False,
        ask_missing: bool = False,
    ) -> None:
        self._rubrics = rubrics
        self._everywhere = everywhere
        self._endpoint = endpoint
        shut = offline and not ask_missing
        self._model: Model = RecordedModel(endpoint) if shut else endpoint
        self._cache = (ShutCache if offline else AnswerCache)(recording)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="judges", daemon=True
        )
        self._thread.start()

    def judge(
        self,
        session: str,
        judgement: Mapping[str, Any],
        spans: Sequence[Span],
        named: str | None,
    ) -> list[dict[str, Any]]:
        """The judgements of a rollout; see `RolloutJudges`."""
        judged = [judgement]
        case = SessionCase.of(session, judged, session_steps(judged, spans), _OPTIONS)
        ids = dict.fromkeys((*filter(None, (named,)), *self._everywhere))
        asked = self._asked(case, [self._rubrics[id_] for id_ in ids])
        records = asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        return [{**each.as_json(), "why": each.why} for each in records]

    async def _asked(
        self, case: SessionCase, rubrics: Sequence[Rubric]
    ) -> list[JudgementRecord]:
        jobs = [
            judge_session(case, rubric, 1, self._model, self._cache, _OPTIONS)
            for rubric in rubrics
        ]
        return await asyncio.gather(*jobs)

    @property
    def problem(self) -> OSError | None:
        """Why an answer was not kept; None if all were."""
        return self._cache.problem

    def close(self) -> None:
        """Ends the loop and its thread."""
        asyncio.run_coroutine_threadsafe(self._endpoint.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
