"""`offrails judge`: has models judge what automata cannot see."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from collector.cli.arguments import add_specs, add_token_file, to_path, to_whole
from collector.cli.inputs import (
    FAILED,
    OK,
    load_specs_or_quit,
    only_task,
    quit_with,
    recordings,
)
from judges.models.endpoint_key import KEY, SECOND_KEY, BadKeyError, endpoint_key

if TYPE_CHECKING:
    from collector.offline.judge.judge_sessions import JudgeRun
    from judges.agreement import Labels
    from judges.judgement_record import JudgementRecord
    from judges.models.budget import TokenBudget
    from judges.models.openai_endpoint import OpenAIEndpoint

__all__ = ["add", "run"]

_TIMEOUT: Final = 120.0


def add(group: Any) -> None:
    """Adds the verb and its options."""
    judge = group.add_parser(
        "judge",
        help="have models judge recorded sessions, by rubrics (extra: offrails[judges])",
    )
    judge.add_argument("files", nargs="*", type=to_path, metavar="FILE|DIR")
    judge.add_argument(
        "--from", dest="url", metavar="URL", help="judge the sessions of a running service"
    )
    add_token_file(judge)
    add_specs(judge)
    _add_judges(judge)
    _add_model(judge)
    judge.add_argument(
        "--labels",
        type=to_path,
        metavar="FILE",
        help="scores and errors that people found: how far the judges can be trusted",
    )
    judge.add_argument(
        "--compare",
        type=to_path,
        action="append",
        default=[],
        metavar="FILE",
        help="judgements of another run (--json): judges and models against each other, also without sessions to judge",
    )
    judge.add_argument(
        "--dry-run", action="store_true", help="print the prompts, and ask nobody"
    )
    form = judge.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a judgement a line as JSON")
    form.add_argument("--table", action="store_true", help="print a table (default)")
    judge.set_defaults(run=run)


def _add_judges(judge: Any) -> None:
    judge.add_argument(
        "--judges", metavar="LC,EE,...", help="judges to ask (default: all of them)"
    )
    judge.add_argument(
        "--rubrics", type=to_path, metavar="DIR", help="rubrics that override and add judges"
    )
    judge.add_argument(
        "--repeat", type=to_whole, default=1, metavar="N", help="judge each session N times"
    )
    judge.add_argument(
        "--instructions",
        type=to_path,
        metavar="FILE",
        help="Markdown on your agents, given to the judges",
    )
    judge.add_argument(
        "--evidence",
        choices=("on", "off"),
        default="on",
        help="give the judges what the specs find (default: on)",
    )
    judge.add_argument(
        "--transcript-tokens",
        type=to_whole,
        metavar="N",
        help="longest transcript; the middle of longer ones is cut (default: 64000)",
    )


def _add_model(judge: Any) -> None:
    judge.add_argument("--model", metavar="NAME", help="model that judges")
    judge.add_argument(
        "--endpoint",
        metavar="URL/v1",
        help=f"OpenAI-compatible endpoint; its key is read from {KEY}",
    )
    judge.add_argument(
        "--second-model",
        metavar="NAME",
        help="model that judges what the first has given a score; scores two points apart are disputed",
    )
    judge.add_argument(
        "--second-endpoint",
        metavar="URL/v1",
        help=f"its endpoint (default: --endpoint); its key is read from {SECOND_KEY}",
    )
    judge.add_argument("--temperature", type=_amount, metavar="T", help="sampling temperature")
    judge.add_argument(
        "--seed", type=int, metavar="N", help="seed of the first repetition; the next has N + 1"
    )
    judge.add_argument(
        "--answer-tokens",
        type=to_whole,
        default=4_096,
        metavar="N",
        help="longest answer (default: 4096)",
    )
    judge.add_argument(
        "--budget-tokens", type=to_whole, metavar="N", help="tokens that may be used in all"
    )
    judge.add_argument(
        "--budget-money",
        type=_amount,
        metavar="X",
        help="money that may be spent; needs --prices",
    )
    judge.add_argument(
        "--prices", type=to_path, metavar="FILE", help="prices of models, by a million tokens"
    )
    judge.add_argument(
        "--timeout",
        type=_seconds,
        default=_TIMEOUT,
        metavar="S",
        help="seconds for one whole answer (default: 120)",
    )
    judge.add_argument(
        "--at-once",
        type=to_whole,
        default=4,
        metavar="N",
        help="judgements together (default: 4)",
    )
    judge.add_argument(
        "--cache",
        type=to_path,
        metavar="DIR",
        help="folder of answers (default: the user's cache)",
    )
    judge.add_argument("--no-cache", action="store_true", help="ask again, and keep nothing")


def _amount(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number from 0, found {text!r}")
    return found


def _seconds(text: str) -> float:
    found = _amount(text)
    if not found:
        raise argparse.ArgumentTypeError("expected seconds above 0")
    return found


def run(options: argparse.Namespace) -> int:
    """Runs `offrails judge`, and returns the exit code."""
    kept = _kept(options.compare)
    if kept and not options.files and not options.url:
        return _compared_alone(kept, as_json=options.json)
    if bool(options.files) == bool(options.url):
        quit_with("judge: name recordings, or a service with --from URL")
    if not options.dry_run:
        _check_asked(options)
    labels = _labels(options.labels)
    judging = _run_of(options)
    models = None if options.dry_run else _models(options)
    from collector.offline.judge.judge_sessions import cases, dry_lines

    found = cases(judging)
    if not found:
        print(
            "offrails: no session to judge: no tool calls, and no model's words",
            file=sys.stderr,
        )
    if models is None:
        for line in dry_lines(found, judging):
            print(line)
        return OK
    return _judged(options, judging, found, models, labels, kept)


def _kept(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The judgements of other runs, read before anybody is asked."""
    if not files:
        return []
    from collector.offline.judge.kept_judgements import kept_judgements
    from collector.offline.replay import BadInput

    try:
        found = [each for file in files for each in kept_judgements(file)]
    except BadInput as problem:
        quit_with(str(problem))
    if not found:
        quit_with("--compare: expected judgements, as `offrails judge --json` prints them")
    return found


def _compared_alone(kept: Sequence[Mapping[str, Any]], *, as_json: bool) -> int:
    """Prints how judges and models of other runs do against each other."""
    for line in _compared(kept, as_json=as_json):
        print(line)
    return OK


def _compared(records: Sequence[Mapping[str, Any]], *, as_json: bool) -> Iterator[str]:
    from collector.offline.judge.comparison_table import comparison_table_lines
    from collector.offline.judge.judge_sessions import json_line
    from judges.agreement import comparisons

    found = comparisons(records)
    if as_json:
        yield json_line({"comparisons": found})
    else:
        yield from comparison_table_lines(found)


def _labels(file: Path | None) -> Labels | None:
    """The labels of a file, read before anybody is asked."""
    if file is None:
        return None
    from judges.agreement import BadLabelError, read_labels

    try:
        return read_labels(file)
    except BadLabelError as problem:
        quit_with(str(problem))


def _check_asked(options: argparse.Namespace) -> None:
    """Quits where nobody can be asked."""
    for name in ("model", "endpoint"):
        if not getattr(options, name):
            quit_with(f"judge: --{name} is needed; --dry-run prints the prompts without one")
    for name in (KEY, SECOND_KEY):
        try:
            endpoint_key(name)
        except BadKeyError as problem:
            quit_with(f"{name}: {problem}")
    for name in ("endpoint", "second_endpoint"):
        url = getattr(options, name)
        if url and not url.startswith(("http://", "https://")):
            option = name.replace("_", "-")
            quit_with(f"--{option}: expected http:// or https://, found {url!r}")
    if options.second_endpoint and not options.second_model:
        quit_with("--second-endpoint needs --second-model")
    if options.second_model == options.model:
        quit_with("--second-model: expected another model than --model")
    if options.budget_money is not None and options.prices is None:
        quit_with("--budget-money needs --prices FILE")
    from judges.models.openai_endpoint import INSTALL, is_installed

    if not is_installed():
        quit_with(f"judge: {INSTALL}")


def _run_of(options: argparse.Namespace) -> JudgeRun:
    from collector.offline.judge.judge_sessions import JudgeRun
    from collector.offline.judge.trajectory_files import TRAJECTORIES
    from judges.instructions import NO_INSTRUCTIONS, BadInstructionsError, read_instructions
    from judges.judging import TRANSCRIPT_TOKENS, JudgeOptions
    from judges.rubric import BadRubricError, load_rubrics

    try:
        known = load_rubrics(options.rubrics)
        instructions = (
            read_instructions(options.instructions) if options.instructions else NO_INSTRUCTIONS
        )
    except (BadRubricError, BadInstructionsError) as problem:
        quit_with(str(problem))
    asked = list(known) if options.judges is None else options.judges.split(",")
    names = list(dict.fromkeys(name.strip().upper() for name in asked))
    for name in names:
        if name not in known:
            quit_with(f"--judges: there is no judge {name!r}; there are {', '.join(known)}")
    specs = load_specs_or_quit(options.specs or ())
    return JudgeRun(
        files=recordings(options.files, TRAJECTORIES),
        url=options.url or "",
        token_file=options.token_file,
        specs=specs,
        unnamed=only_task(specs),
        rubrics=[known[name] for name in names],
        repeats=options.repeat,
        options=JudgeOptions(
            transcript_tokens=options.transcript_tokens or TRANSCRIPT_TOKENS,
            evidence=options.evidence == "on",
            instructions=instructions,
        ),
        at_once=options.at_once,
    )


def _judged(
    options: argparse.Namespace,
    judging: JudgeRun,
    found: Any,
    models: tuple[OpenAIEndpoint, OpenAIEndpoint | None],
    labels: Labels | None,
    before: Sequence[Mapping[str, Any]],
) -> int:
    """Asks, prints, and returns the exit code."""
    import asyncio

    from collector.offline.judge.judge_sessions import json_line, records
    from judges.judgement_record import FINE
    from judges.models.cache import AnswerCache

    kept: list[JudgementRecord] = []
    others: list[JudgementRecord] = []
    cache = AnswerCache(None if options.no_cache else options.cache or _cache_folder())

    async def work() -> None:
        async for record in records(found, judging, *models, cache):
            (kept if record.model == options.model else others).append(record)
            if options.json:
                print(json_line(record.as_json()), flush=True)

    asyncio.run(work())
    if cache.problem is not None:
        where, why = cache.problem.filename, cache.problem.strerror
        print(f"offrails: answers were not kept: {where}: {why}", file=sys.stderr)
    compared = _compared_records(before, kept, others)
    for line in _figures(kept, labels, compared, options.json):
        print(line)
    if labels is not None:
        _tell_unjudged(kept, labels)
    return OK if all(record.outcome in FINE for record in (*kept, *others)) else FAILED


def _compared_records(
    before: Sequence[Mapping[str, Any]],
    kept: Sequence[JudgementRecord],
    others: Sequence[JudgementRecord],
) -> list[Mapping[str, Any]]:
    """The records of all raters; none if there is nobody to compare with."""
    if not before and not others:
        return []
    return [*before, *(record.as_json() for record in (*kept, *others))]


def _figures(
    kept: Sequence[JudgementRecord],
    labels: Labels | None,
    compared: Sequence[Mapping[str, Any]],
    as_json: bool,
) -> Iterator[str]:
    """What is printed after the judgements: their figures, and those against labels and other runs."""
    from collector.offline.judge.judge_sessions import json_line, table_lines
    from collector.offline.judge.label_table import label_table_lines
    from judges.agreement import label_lines, summary

    lines = [record.as_json() for record in kept]
    labelled = None if labels is None else label_lines(lines, labels)
    if as_json:
        if compared:
            yield from _compared(compared, as_json=True)
        if labelled is not None:
            yield json_line(labelled)
        yield json_line({"summary": summary(lines)})
        return
    yield from table_lines(kept)
    if labelled is not None:
        yield from label_table_lines(labelled["labels"])
    if compared:
        yield from _compared(compared, as_json=False)


def _tell_unjudged(kept: Sequence[JudgementRecord], labels: Labels) -> None:
    """Says on standard error how many labelled sessions are not among those judged, and so in no figure."""
    missing = sorted(labels.sessions - {record.session for record in kept})
    if missing:
        print(
            f"offrails: {len(missing)} of {len(labels.sessions)} labelled sessions were not judged,"
            f" such as {missing[0]!r:.80}",
            file=sys.stderr,
        )


def _models(options: argparse.Namespace) -> tuple[OpenAIEndpoint, OpenAIEndpoint | None]:
    """The model, and the second one if it is asked for. They have one budget; of their prices the dearer one counts."""
    from judges.models.budget import NO_PRICE, TokenBudget, dearest
    from judges.models.prices import BadPricesError, price_of

    names = [name for name in (options.model, options.second_model) if name]
    try:
        prices = (
            [price_of(options.prices, name) for name in names] if options.prices else [NO_PRICE]
        )
    except BadPricesError as problem:
        quit_with(str(problem))
    budget = TokenBudget(options.budget_tokens, options.budget_money, dearest(prices))
    key = endpoint_key(KEY)
    first = _model(options, "endpoint", options.endpoint, options.model, key, budget)
    if not options.second_model:
        return first, None
    own = options.second_endpoint
    return first, _model(
        options,
        "second-endpoint",
        own or options.endpoint,
        options.second_model,
        endpoint_key(SECOND_KEY if own else KEY),
        budget,
    )


def _model(
    options: argparse.Namespace,
    option: str,
    endpoint: str,
    name: str,
    key: str | None,
    budget: TokenBudget,
) -> OpenAIEndpoint:
    from judges.models.openai_endpoint import (
        BadEndpointError,
        OpenAIEndpoint,
        SamplingOptions,
    )

    try:
        return OpenAIEndpoint(
            endpoint,
            name,
            key=key,
            timeout=options.timeout,
            sampling=SamplingOptions(options.temperature, options.seed, options.answer_tokens),
            budget=budget,
        )
    except BadEndpointError as problem:
        quit_with(f"--{option}: expected a URL, found {endpoint!r}: {problem}")


def _cache_folder() -> Path | None:
    """Where answers are kept; None where the user has no folder of their own."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "offrails" / "judge"
    except RuntimeError:
        return None
