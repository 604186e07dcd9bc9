"""One judgement: the prompt, at most two requests, and what became of it.

An answer of another form, or one that contradicts itself, is sent back once, with the reason. What stands is kept in
the cache; what does not is asked again the next time.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from collector.transcripts.fence import NONCE_LETTERS, PLACEHOLDER, nonce_outside
from collector.transcripts.step import TranscriptStep
from collector.transcripts.transcript import Transcript
from judges.answer import (
    ENUM_IDS,
    BadAnswerError,
    CitedFinding,
    JudgeAnswer,
    read_answer,
    schema,
)
from judges.evidence import facts_of
from judges.instructions import NO_INSTRUCTIONS, Instructions
from judges.judgement_record import CallsSeen, JudgementRecord, Outcome, PlacedFinding
from judges.models.cache import AnswerCache
from judges.models.model import Model, ModelFailure, ModelRequest, Usage
from judges.plans import plans_of
from judges.prompt import Prompt
from judges.rubric import Rubric

__all__ = ["JudgeOptions", "SessionCase", "judge_session", "prompt_of"]

SEEN_SHARE: Final = 0.8
TRANSCRIPT_TOKENS: Final = 64_000
_ANSWER_SHOWN: Final = 20_000
"""Characters of a bad answer that are sent back with the reason."""


def _draw() -> str:
    return secrets.token_hex(NONCE_LETTERS // 2)


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How sessions are judged."""

    transcript_tokens: int = TRANSCRIPT_TOKENS
    seen_share: float = SEEN_SHARE
    enum_ids: int = ENUM_IDS
    evidence: bool = True
    instructions: Instructions = NO_INSTRUCTIONS
    draw: Callable[[], str] = _draw
    """Draws a nonce."""


@dataclass(frozen=True, slots=True)
class SessionCase:
    """A session that is to be judged."""

    session: str
    judged: Sequence[Mapping[str, Any]]
    """Judgement objects of the session."""
    transcript: Transcript
    facts: Sequence[str] | None

    @classmethod
    def of(
        cls,
        session: str,
        judged: Sequence[Mapping[str, Any]],
        steps: Sequence[TranscriptStep],
        options: JudgeOptions,
    ) -> SessionCase:
        """The case of a session's steps, cut to the budget of tokens.

        Calls that are counted and of which there are no steps any more count as not shown.
        """
        known = sum(step.is_call for step in steps)
        counted = max((int(each.get("calls") or 0) for each in judged), default=0)
        transcript = Transcript(steps, options.transcript_tokens, max(0, counted - known))
        return cls(session, judged, transcript, facts_of(judged, transcript))


@dataclass(slots=True)
class _Asked:
    """What the requests of a judgement came to."""

    outcome: Outcome = "scored"
    answer: JudgeAnswer | None = None
    usage: Usage = field(default_factory=Usage)
    why: str = ""


def prompt_of(case: SessionCase, rubric: Rubric, options: JudgeOptions) -> Prompt | None:
    """The prompt of a judge; None if it needs a plan, and the session states none."""
    plans = plans_of(case.transcript.steps) if rubric.needs_plan else []
    if rubric.needs_plan and not plans:
        return None
    agents = {step.agent for step in case.transcript.steps.values()}
    return Prompt(
        rubric,
        case.transcript,
        plans,
        case.facts,
        with_facts=options.evidence,
        instructions=options.instructions.text(rubric.id, agents),
    )


async def judge_session(
    case: SessionCase,
    rubric: Rubric,
    repeat: int,
    model: Model,
    cache: AnswerCache,
    options: JudgeOptions,
) -> JudgementRecord:
    """Judges a session once. Never raises for what a model or an endpoint does."""
    seen = CallsSeen(case.transcript.calls_shown, case.transcript.calls)
    blank = JudgementRecord(
        session=case.session,
        judge=rubric.id,
        judge_version=rubric.version,
        model=model.name,
        repeat=repeat,
        outcome="not_applicable",
        seen=seen,
        validated=rubric.validated,
    )
    prompt = prompt_of(case, rubric, options)
    if prompt is None:
        return replace(blank, why="no step states a plan")
    form = schema(rubric, list(case.transcript.shown), options.enum_ids)
    key = _key(prompt, form, model, repeat)
    if kept := _kept(cache.get(key)):
        return _with_answer(replace(blank, cached=True), kept, case, options)
    nonce = nonce_outside(prompt.texts(), options.draw)
    asked = await _ask(model, rubric, prompt.messages(nonce), form, repeat)
    spent = replace(
        blank, tokens_in=asked.usage.tokens_in, tokens_out=asked.usage.tokens_out, why=asked.why
    )
    if asked.answer is None:
        return replace(spent, outcome=asked.outcome)
    cache.put(key, asdict(asked.answer))
    return _with_answer(spent, asked.answer, case, options)


def _key(prompt: Prompt, form: Mapping[str, Any], model: Model, repeat: int) -> str:
    """The key of an answer: all that it depends on, but the nonce."""
    contents = [message["content"] for message in prompt.messages(PLACEHOLDER)]
    return AnswerCache.key([*contents, json.dumps(form), *model.identity, str(repeat)])


def _kept(found: Mapping[str, Any] | None) -> JudgeAnswer | None:
    """An answer as the cache keeps it; None if there is none of this form."""
    try:
        if found is None:
            return None
        findings = tuple(CitedFinding(**each) for each in found["findings"])
        return JudgeAnswer(**{**found, "findings": findings})
    except (LookupError, TypeError):
        return None


async def _ask(
    model: Model,
    rubric: Rubric,
    messages: list[dict[str, str]],
    form: Mapping[str, Any],
    repeat: int,
) -> _Asked:
    """The first request, and the one that says what was wrong, if anything was."""
    asked = _Asked()
    for _ in range(2):
        asked.answer = None
        try:
            answer = await model.ask(ModelRequest(messages, form, repeat))
        except ModelFailure as problem:
            asked.outcome = "over_budget" if problem.over_budget else "failed"
            asked.why = str(problem)
            return asked
        asked.usage += answer.usage
        if answer.refused or answer.truncated:
            asked.outcome = "refused" if answer.refused else "truncated"
            return asked
        try:
            asked.answer = read_answer(answer.text, rubric)
            asked.outcome, asked.why = "scored", asked.answer.contradiction
        except BadAnswerError as problem:
            asked.outcome, asked.why = "unparsable", str(problem)
        if not asked.why:
            break
        messages = [*messages, *_repair(answer.text, asked.why)]
    return asked


def _repair(text: str, why: str) -> list[dict[str, str]]:
    said = f"Your answer cannot be used: {why}. Answer again, with one JSON object of the form that was asked for, and nothing else."
    # Half a surrogate pair, which JSON can hold, cannot be sent.
    shown = text[:_ANSWER_SHOWN].encode(errors="replace").decode()
    return [
        {"role": "assistant", "content": shown},
        {"role": "user", "content": said},
    ]


def _with_answer(
    record: JudgementRecord, answer: JudgeAnswer, case: SessionCase, options: JudgeOptions
) -> JudgementRecord:
    """The record with what the judge said; findings lead to spans, or are not in the trace."""
    if not answer.applicable:
        return replace(record, outcome="not_applicable", evidence=answer.evidence)
    spans = case.transcript.spans
    placed = [PlacedFinding.of(each, spans.get(each.step)) for each in answer.findings]
    seen = record.seen
    whole = not seen.of or seen.calls / seen.of >= options.seen_share
    return replace(
        record,
        outcome="scored" if whole else "partial",
        score=answer.score,
        criteria=answer.criteria,
        evidence=answer.evidence,
        findings=[each for each in placed if each.span_id is not None],
        not_in_trace=[each for each in placed if each.span_id is None],
        contradiction=bool(answer.contradiction),
    )
