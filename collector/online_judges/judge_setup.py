"""The judges of a service, made from its settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.calls.pipeline import Pipeline
from collector.config.masking import masked_url
from collector.config.settings.judges import JudgesSettings
from collector.config.settings.settings import Settings
from collector.net.watched_files import UnusableFileError
from collector.online_judges.judge_feed import JudgeFeed
from collector.online_judges.judge_job import case_of
from collector.online_judges.judge_panel import BudgetPeriod, JudgePanel, PricedModel
from collector.online_judges.judge_thread import JudgeThread
from collector.online_judges.session_choice import SessionChoice
from collector.online_judges.span_keeper import SpanKeeper
from collector.telemetry.logs import log
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

__all__ = ["KEY", "SECOND_KEY", "feed_of", "thread_of"]

KEY: Final = "OPENAI_API_KEY"
"""Environment variable with the key of the endpoint."""

SECOND_KEY: Final = "OPENAI_API_KEY_SECOND"
"""The same of another endpoint of the second model."""


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
    endpoint = masked_url(given.endpoint, path=True)
    log.info("judging", endpoint=endpoint, model=given.model, second=given.second.model or None)
    bounds = given.queue, given.keep_bytes, given.at_once
    return JudgeThread(panel, make_case, feed, *bounds)


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
    models = [given.model, *([given.second.model] if given.second.model else ())]
    prices = [_price(given, model) for model in models]
    budget = TokenBudget(given.budget_tokens, given.budget_money, _dearest(prices))
    first = PricedModel(_first(given, budget, environ), prices[0])
    return JudgePanel(
        first,
        PricedModel(_second(given, budget, environ), prices[1]) if len(models) > 1 else None,
        _rubrics(given),
        JudgeOptions(
            transcript_tokens=given.transcript_tokens,
            seen_share=given.seen_share,
            enum_ids=given.enum_ids,
            evidence=given.evidence,
            instructions=_instructions(given),
        ),
        BudgetPeriod(budget, given.budget_seconds, steady),
        given.canaries,
    )


def _dearest(prices: Sequence[Price]) -> Price:
    """What tokens cost at the most: both models have one budget."""
    return Price(
        max(each.tokens_in for each in prices), max(each.tokens_out for each in prices)
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


def _first(
    given: JudgesSettings, budget: TokenBudget, environ: Mapping[str, str]
) -> OpenAIEndpoint:
    key = _key(environ, KEY, "endpoint")
    return _model(given, "endpoint", given.endpoint, given.model, budget, key)


def _second(
    given: JudgesSettings, budget: TokenBudget, environ: Mapping[str, str]
) -> OpenAIEndpoint:
    second = given.second
    name = SECOND_KEY if second.endpoint else KEY
    key = _key(environ, name, "second.endpoint")
    endpoint = second.endpoint or given.endpoint
    return _model(given, "second.endpoint", endpoint, second.model, budget, key)


def _model(
    given: JudgesSettings,
    setting: str,
    endpoint: str,
    model: str,
    budget: TokenBudget,
    key: str | None,
) -> OpenAIEndpoint:
    try:
        return OpenAIEndpoint(
            endpoint,
            model,
            key=key,
            timeout=given.timeout_seconds,
            sampling=SamplingOptions(given.temperature, given.seed, given.answer_tokens),
            budget=budget,
        )
    except BadEndpointError as problem:
        _refuse(setting, endpoint, str(problem))


def _key(environ: Mapping[str, str], name: str, setting: str) -> str | None:
    """The key of an endpoint; None if there is none."""
    key = environ.get(name, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        _refuse(setting, name, "expected printable ASCII characters")
    return key or None


def _refuse(setting: str, what: Path | str | None, why: str) -> NoReturn:
    """Refuses a setting.

    Raises:
        UnusableFileError: always.
    """
    raise UnusableFileError(f"judges.{setting}", str(what), why)
