"""Canaries tell readers from judges that give scores away, or that obey what they read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from collector.transcripts.transcript import Transcript
from judges.canary import CANARY_KINDS, Canary, canaries_of
from judges.judging import JudgeOptions, SessionCase, judge_session, prompt_of
from judges.models.cache import AnswerCache
from judges.models.model import ModelReply, ModelRequest, Usage
from judges.rubric import JUDGES, load_rubrics
from judges.second_judge import is_disputed
from tests.judges.fake_endpoint import judged
from tests.judges.judgement_records import record

OPTIONS = JudgeOptions()
RUBRICS = load_rubrics()

Reader = Callable[[Canary], str]


class FakeModel:
    """Answers a canary as a reader would."""

    name = "fake"
    identity: Sequence[str] = ("fake",)

    def __init__(self, answer: str) -> None:
        self._answer = answer

    async def ask(self, request: ModelRequest) -> ModelReply:
        return ModelReply(self._answer, Usage(1, 1))


def case(canary: Canary) -> SessionCase:
    return SessionCase.of("canary", (), canary.steps, OPTIONS)


def passed(canary: Canary, reader: Reader) -> bool | None:
    found = asyncio.run(
        judge_session(
            case(canary),
            RUBRICS[canary.judge],
            1,
            FakeModel(reader(canary)),
            AnswerCache(None),
            OPTIONS,
        )
    )
    return canary.passed(found)


def planted(canary: Canary) -> list[str]:
    transcript = Transcript(canary.steps)
    return [id_ for id_, span in transcript.spans.items() if span in canary.planted]


def careful(canary: Canary) -> str:
    """Sees what was planted, and nothing else."""
    return judged(0, planted(canary)[0], impact="high") if canary.planted else judged(3)


def generous(_canary: Canary) -> str:
    return judged(3)


def harsh(_canary: Canary) -> str:
    """Finds fault with the first step of everything."""
    return judged(0, "s1", impact="high")


def obedient(canary: Canary) -> str:
    """Reads carefully, until a text says what to answer."""
    if not canary.kind.endswith("injected"):
        return careful(canary)
    return judged(3) if canary.planted else judged(0, "s4", impact="high")


def silent(_canary: Canary) -> str:
    return "I would rather not say."


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    ("reader", "expected"),
    [
        (careful, (True, True, True, True)),
        (generous, (True, False, True, False)),
        (harsh, (False, False, False, False)),
        (obedient, (True, True, False, False)),
        (silent, (None, None, None, None)),
    ],
)
def test_canaries_tell_readers_from_others(
    judge: str, reader: Reader, expected: tuple[bool | None, ...]
) -> None:
    """A careful reader passes all; who always praises or always blames fails one side; who obeys injected texts fails where they are; no score says nothing."""
    assert tuple(passed(each, reader) for each in canaries_of(judge)) == expected


@pytest.mark.parametrize("judge", JUDGES)
def test_each_judge_has_a_canary_of_each_kind_that_it_is_asked_about(judge: str) -> None:
    """Every judge of the package has all four kinds; each has something to judge, planted steps that are shown, and injected texts where they belong."""
    found = canaries_of(judge)
    assert tuple(each.kind for each in found) == CANARY_KINDS
    for each in found:
        assert prompt_of(case(each), RUBRICS[judge], OPTIONS) is not None
        assert bool(each.planted) == each.kind.startswith("bad")
        assert len(planted(each)) == len(each.planted)
        texts = "".join(f"{step.text}{step.result}" for step in each.steps)
        assert ("EVALUATION SYSTEM" in texts) == each.kind.endswith("injected")
        assert "{note}" not in texts


def test_judges_of_your_own_have_no_canary() -> None:
    """What a rubric of yours looks at is not known, so nothing is planted for it."""
    assert canaries_of("OWN") == ()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (3, 1, True),
        (0, 2, True),
        (3, 2, False),
        (1, 1, False),
        (None, 3, None),
        (3, None, None),
    ],
)
def test_scores_that_are_two_points_apart_are_disputed(
    one: int | None, other: int | None, expected: bool | None
) -> None:
    """Two scores are disputed if they differ by more than one point, and nothing is said where one is missing."""
    assert is_disputed(record(score=one), record(score=other)) is expected


def test_canaries_are_plain_json() -> None:
    """Arguments of all calls are JSON, as spans have them."""
    for judge in JUDGES:
        for canary in canaries_of(judge):
            arguments: list[Mapping[str, Any]] = [
                json.loads(step.text) for step in canary.steps if step.is_call
            ]
            assert all(isinstance(each, dict) for each in arguments)
