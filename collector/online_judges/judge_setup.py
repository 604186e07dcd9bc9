"""The judges of a service, made from its settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.calls.pipeline import Pipeline
from collector.config.settings.judges import JudgesSettings
from collector.config.settings.settings import Settings
from collector.net.watched_files import UnusableFileError
from collector.online_judges.judge_feed import JudgeFeed
from collector.online_judges.judge_job import case_of
from collector.online_judges.judge_panel import BudgetPeriod, JudgePanel, PricedModel
from collector.online_judges.judge_thread import JudgeThread
from collector.online_judges.session_choice import SessionChoice
from collector.online_judges.span_keeper import SpanKeeper
from collector.telemetry.redaction import Redaction
from judges.instructions import (
    NO_INSTRUCTIONS,
    BadInstructionsError,
    Instructions,
    read_instructions,
)
from judges.judging import JudgeOptions
from judges.models.budget import NO_PRICE, Price, TokenBudget
from judges.models.openai_endpoint import BadEndpointError, OpenAIEndpoint, SamplingOptions
from judges.models.prices import BadPricesError, price_of
from judges.rubric import BadRubricError, Rubric, load_rubrics
from monitor.engine import Monitor

__all__ = ["KEY", "feed_of", "thread_of"]

KEY: Final = "OPENAI_API_KEY"
"""Environment variable with the key of the endpoint."""


def feed_of(
    settings: Settings,
    monitor: Monitor,
    pipeline: Pipeline,
    redaction: Redaction,
    denied: PreventedCalls,
    clock: Callable[[], int],
) -> JudgeFeed:
    """What takes the ends of sessions; it begins with `thread_of`."""
    choice = SessionChoice(settings.judges, monitor)
    keeper = SpanKeeper(settings.judges, pipeline, redaction, choice.may_be_judged)
    return JudgeFeed(monitor, pipeline, redaction, denied, choice, keeper, clock)


def thread_of(
    settings: Settings, feed: JudgeFeed, redaction: Redaction, steady: Callable[[], int]
) -> JudgeThread:
    """The judges, in their thread, who tell `feed` what they say.

    Raises:
        UnusableFileError: a setting cannot be used, or the extra is not installed.
    """
    given = settings.judges
    _check_installed()
    panel = _panel(given, os.environ, steady)
    make_case = partial(
        case_of, options=panel.options, sessions=settings.sessions, redaction=redaction
    )
    return JudgeThread(panel, make_case, feed, given.queue, given.at_once)


def _check_installed() -> None:
    try:
        import json_repair
        import openai

        _ = json_repair, openai
    except ImportError:
        _refuse(
            "endpoint", "openai", "install offrails[judges], which has the client of models"
        )


def _panel(
    given: JudgesSettings, environ: Mapping[str, str], steady: Callable[[], int]
) -> JudgePanel:
    price = _price(given, given.model)
    budget = TokenBudget(given.budget_tokens, given.budget_money, price)
    first = PricedModel(_model(given, budget, _key(environ)), price)
    return JudgePanel(
        first,
        _rubrics(given),
        JudgeOptions(
            transcript_tokens=given.transcript_tokens,
            seen_share=given.seen_share,
            enum_ids=given.enum_ids,
            evidence=given.evidence,
            instructions=_instructions(given),
        ),
        BudgetPeriod(budget, given.budget_seconds, steady),
    )


def _rubrics(given: JudgesSettings) -> Sequence[Rubric]:
    try:
        known = load_rubrics(given.rubrics)
    except BadRubricError as problem:
        _refuse("rubrics", given.rubrics, str(problem))
    names = list(dict.fromkeys(name.upper() for name in given.judges)) or list(known)
    for name in names:
        if name not in known:
            _refuse("judges", name, f"there is no such judge; there are {', '.join(known)}")
    return [known[name] for name in names]


def _instructions(given: JudgesSettings) -> Instructions:
    if given.instructions is None:
        return NO_INSTRUCTIONS
    try:
        return read_instructions(given.instructions)
    except BadInstructionsError as problem:
        _refuse("instructions", given.instructions, str(problem))


def _price(given: JudgesSettings, model: str) -> Price:
    if given.prices is None:
        return NO_PRICE
    try:
        return price_of(given.prices, model)
    except BadPricesError as problem:
        _refuse("prices", given.prices, str(problem))


def _model(given: JudgesSettings, budget: TokenBudget, key: str | None) -> OpenAIEndpoint:
    try:
        return OpenAIEndpoint(
            given.endpoint,
            given.model,
            key=key,
            timeout=given.timeout_seconds,
            sampling=SamplingOptions(given.temperature, given.seed, given.answer_tokens),
            budget=budget,
        )
    except BadEndpointError as problem:
        _refuse("endpoint", given.endpoint, str(problem))


def _key(environ: Mapping[str, str]) -> str | None:
    """The key of the endpoint; None if there is none."""
    key = environ.get(KEY, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        _refuse("endpoint", KEY, "expected printable ASCII characters")
    return key or None


def _refuse(setting: str, what: Path | str | None, why: str) -> NoReturn:
    """Refuses a setting.

    Raises:
        UnusableFileError: always.
    """
    raise UnusableFileError(f"judges.{setting}", str(what), why)
