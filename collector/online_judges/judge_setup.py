"""The judges of a service, made from its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

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
from judges.models.budget import NO_PRICE, Price, TokenBudget, dearest
from judges.models.endpoint_key import KEY, SECOND_KEY, BadKeyError, endpoint_key
from judges.models.openai_endpoint import (
    INSTALL,
    BadEndpointError,
    OpenAIEndpoint,
    SamplingOptions,
    is_installed,
)
from judges.models.prices import BadPricesError, price_of
from judges.rubric import BadRubricError, Rubric, load_rubrics
from monitor.engine import Monitor

__all__ = ["feed_of", "thread_of"]


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
    if not is_installed():
        _refuse("endpoint", "openai", INSTALL)
    panel = _panel(given, steady)
    make_case = partial(
        case_of, options=panel.options, sessions=settings.sessions, redaction=redaction
    )
    endpoint = masked_url(given.endpoint, path=True)
    log.info("judging", endpoint=endpoint, model=given.model, second=given.second.model or None)
    bounds = given.queue, given.keep_bytes, given.at_once
    return JudgeThread(panel, make_case, feed, *bounds)


def _panel(given: JudgesSettings, steady: Callable[[], int]) -> JudgePanel:
    models = [given.model, *([given.second.model] if given.second.model else ())]
    prices = [_price(given, model) for model in models]
    budget = TokenBudget(given.budget_tokens, given.budget_money, dearest(prices))
    first = PricedModel(_first(given, budget), prices[0])
    return JudgePanel(
        first,
        PricedModel(_second(given, budget), prices[1]) if len(models) > 1 else None,
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


def _first(given: JudgesSettings, budget: TokenBudget) -> OpenAIEndpoint:
    key = _key(KEY, "endpoint")
    return _model(given, "endpoint", given.endpoint, given.model, budget, key)


def _second(given: JudgesSettings, budget: TokenBudget) -> OpenAIEndpoint:
    second = given.second
    name = SECOND_KEY if second.endpoint else KEY
    key = _key(name, "second.endpoint")
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


def _key(name: str, setting: str) -> str | None:
    try:
        return endpoint_key(name)
    except BadKeyError as problem:
        _refuse(setting, name, str(problem))


def _refuse(setting: str, what: Path | str | None, why: str) -> NoReturn:
    """Refuses a setting.

    Raises:
        UnusableFileError: always.
    """
    raise UnusableFileError(f"judges.{setting}", str(what), why)
