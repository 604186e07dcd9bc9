"""Judgements of sessions by models."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from collector.config.field_types import Duration, File, Names, Number, Switch, Url, Whole
from collector.config.section import SettingsSection

__all__ = ["JudgesSettings", "SecondJudgeSettings"]

DAY: int = 24 * 3_600

Share = Annotated[Number, Field(ge=0, le=1)]
Amount = Annotated[Number, Field(ge=0)]


class SecondJudgeSettings(SettingsSection):
    """A second model, which judges what the first has scored."""

    model: Annotated[
        str,
        Field(
            description="Second model, which judges each session that the first has given a score. Scores that differ by more than one point are `disputed`. If empty, there is none."
        ),
    ] = ""
    endpoint: Annotated[
        Url,
        Field(
            description="Its endpoint. If empty, that of the first, with its key. The key of another one is read from `OPENAI_API_KEY_SECOND`."
        ),
    ] = ""


class JudgesSettings(SettingsSection):
    """Sessions that have ended, judged by models (docs/judges.md#a-running-service)."""

    endpoint: Annotated[
        Url,
        Field(
            description="OpenAI-compatible endpoint, such as `http://127.0.0.1:8000/v1`. Transcripts of sessions go there. Its key is read from `OPENAI_API_KEY`. If empty, no session is judged by a model. Needs `offrails[judges]`."
        ),
    ] = ""
    model: Annotated[str, Field(description="Model that judges.")] = ""
    judges: Annotated[
        Names, Field(description="Judges that are asked, by their ids. If empty, all.")
    ] = ()
    rubrics: Annotated[
        File | None,
        Field(description="Folder of rubrics that override and add judges."),
    ] = None
    instructions: Annotated[
        File | None,
        Field(description="Markdown on your agents, which the judges are given."),
    ] = None
    harmful: Annotated[
        Switch, Field(description="Judges sessions with a harmful call, at their end.")
    ] = True
    diverged: Annotated[
        Switch, Field(description="Judges sessions that left their learnt reference.")
    ] = True
    risk: Annotated[
        Share | None,
        Field(
            description="Judges sessions whose risk under a learnt reference is at least this at their end. Unset: risk is no reason."
        ),
    ] = None
    share: Annotated[
        Share,
        Field(
            description="Share of all other sessions that are judged. A session is chosen by its id, so every process chooses the same ones."
        ),
    ] = 0.0
    evidence: Annotated[Switch, Field(description="Gives the judges what the specs find.")] = (
        True
    )
    keep_seconds: Annotated[
        Duration,
        Field(
            gt=0,
            description="How long spans are kept for transcripts after the last span of their trace: seconds, or a text as in `2h`. Set it above `sessions.idle_seconds`.",
        ),
    ] = 7_200.0
    keep_bytes: Annotated[
        Whole,
        Field(
            ge=1 << 16,
            description="Bytes of these spans, compressed. Beyond it, those of the trace that was quiet the longest go first.",
        ),
    ] = 64 << 20
    transcript_tokens: Annotated[
        Whole,
        Field(ge=1, description="Longest transcript; the middle of longer ones is cut."),
    ] = 64_000
    seen_share: Annotated[
        Share,
        Field(
            description="Share of the tool calls that a transcript has to show. With less, a judgement is `partial`."
        ),
    ] = 0.8
    enum_ids: Annotated[
        Whole,
        Field(
            ge=0,
            description="Most steps that the schema of an answer lists. With more, citations are checked afterwards.",
        ),
    ] = 500
    answer_tokens: Annotated[Whole, Field(ge=1, description="Longest answer.")] = 4_096
    temperature: Annotated[
        Amount | None, Field(description="Sampling temperature. Unset: the endpoint's own.")
    ] = None
    seed: Annotated[
        Whole | None, Field(description="Seed of each request. Unset: none is sent.")
    ] = None
    timeout_seconds: Annotated[
        Number, Field(gt=0, description="Time for one whole answer.")
    ] = 120.0
    budget_tokens: Annotated[
        Annotated[Whole, Field(ge=1)] | None,
        Field(description="Tokens of one period of the budget. Unset: no bound."),
    ] = None
    budget_money: Annotated[
        Amount | None,
        Field(
            description="Money of one period of the budget; needs `judges.prices`. Unset: no bound."
        ),
    ] = None
    budget_seconds: Annotated[
        Duration,
        Field(
            gt=0,
            description="Length of a period of the budget, from the start: seconds, or a text as in `1d`.",
        ),
    ] = float(DAY)
    prices: Annotated[
        File | None,
        Field(
            description="File with the prices of the models for a million tokens: `{MODEL: {input: 0.15, output: 0.60}}`."
        ),
    ] = None
    canaries: Annotated[
        Whole,
        Field(
            ge=0,
            description="With the first of each so many judgements of a judge comes a canary: a session of which it is known how it went. 0: none comes.",
        ),
    ] = 50
    second: Annotated[
        SecondJudgeSettings, Field(description="A second model, to be asked as well.")
    ] = SecondJudgeSettings()
    at_once: Annotated[
        Whole, Field(ge=1, le=64, description="Sessions that are judged together.")
    ] = 2
    queue: Annotated[
        Whole,
        Field(
            ge=1,
            description="Ended sessions that may wait. Beyond it, a session is not judged, which is counted.",
        ),
    ] = 200

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.endpoint and not self.model:
            raise ValueError("judges.endpoint needs judges.model")
        if self.budget_money is not None and self.prices is None:
            raise ValueError("judges.budget_money needs judges.prices")
        if self.second.endpoint and not self.second.model:
            raise ValueError("judges.second.endpoint needs judges.second.model")
        if self.model and self.second.model == self.model:
            raise ValueError("judges.second.model: expected another model than judges.model")
        return self

    @property
    def is_on(self) -> bool:
        """True if sessions are judged."""
        return bool(self.endpoint)
