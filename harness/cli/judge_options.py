"""Options of judges, and who is asked by them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from collector.cli.arguments import to_path, to_whole
from harness.tasks.read import BenchTask, TaskError

if TYPE_CHECKING:
    from harness.rollout.bench_judges import BenchJudges

__all__ = ["add_judges", "add_rubrics", "known_judges", "opened_judges", "unknown_judges"]

KEY: Final = "OPENAI_API_KEY_JUDGE"
"""Environment variable with the key of the judges' endpoint: the agent's own key goes to no other."""
_RECORDED: Final = "judgements"
"""Folder of a recording that has the answers of judges."""
_TIMEOUT: Final = 120.0


def add_rubrics(verb: argparse.ArgumentParser) -> None:
    """Adds the option that names rubrics."""
    verb.add_argument(
        "--rubrics",
        type=to_path,
        metavar="DIR",
        help="rubrics that override and add judges",
    )


def add_judges(verb: argparse.ArgumentParser, url: Callable[[str], str]) -> None:
    """Adds the options that say who judges.

    Args:
        verb: that gets them.
        url: reads a URL.
    """
    verb.add_argument(
        "--judge-model",
        metavar="NAME",
        help="model that judges, where tasks or --judges ask for it (extra: offrails[judges])",
    )
    verb.add_argument(
        "--judge-endpoint",
        type=url,
        metavar="URL",
        help=f"of the model that judges; its key is in {KEY}",
    )
    verb.add_argument(
        "--judges", metavar="LC,EE,...", help="judges that score each rollout (default: none)"
    )
    verb.add_argument(
        "--judge-budget-tokens",
        type=to_whole,
        metavar="N",
        help="tokens that judges may use in all",
    )
    add_rubrics(verb)


def known_judges(rubrics: Path | None) -> dict[str, Any]:
    """The rubrics of all judges, by id.

    Raises:
        TaskError: a rubric cannot be used.
    """
    from judges.rubric import BadRubricError, load_rubrics

    try:
        return dict(load_rubrics(rubrics))
    except BadRubricError as problem:
        raise TaskError(f"--rubrics: {problem}") from None


def unknown_judges(tasks: Sequence[BenchTask], known: Collection[str]) -> list[str]:
    """What is wrong with the judges that tasks name, with file, line and key."""
    named = ((task, task.document.evaluation.judge) for task in tasks)
    return [
        f"{task.at('evaluation', 'judge', 'id')}: expected one of {', '.join(known)}, found {judge.id!r}"
        for task, judge in named
        if judge is not None and judge.id not in known
    ]


@contextmanager
def opened_judges(
    options: argparse.Namespace, tasks: Sequence[BenchTask]
) -> Iterator[BenchJudges | None]:
    """Who judges the rollouts of these tasks, until the block ends; None where nobody is asked for.

    Raises:
        TaskError: there is no such judge, or nobody to ask, or the extra is missing.
    """
    judges = _judges(options, tasks)
    try:
        yield judges
    finally:
        if judges is not None:
            judges.close()
    if judges is not None and judges.problem is not None:
        where, why = judges.problem.filename, judges.problem.strerror
        print(f"offrails: answers of judges were not kept: {where}: {why}", file=sys.stderr)


def _judges(options: argparse.Namespace, tasks: Sequence[BenchTask]) -> BenchJudges | None:
    everywhere = [each.strip().upper() for each in (options.judges or "").split(",") if each]
    named = [task for task in tasks if task.document.evaluation.judge is not None]
    if not everywhere and not named:
        return None
    known = known_judges(options.rubrics)
    if faults := unknown_judges(named, known):
        raise TaskError("\n".join(faults))
    for each in everywhere:
        if each not in known:
            raise TaskError(f"--judges: expected of {', '.join(known)}, found {each!r}")
    if not options.judge_model or not options.judge_endpoint:
        asks = named[0].at("evaluation", "judge") if named else "--judges"
        raise TaskError(f"{asks}: a judge needs --judge-model and --judge-endpoint")
    return _opened(options, known, everywhere)


def _opened(
    options: argparse.Namespace, known: dict[str, Any], everywhere: Sequence[str]
) -> BenchJudges:
    from judges.models.openai_endpoint import INSTALL, is_installed

    if not is_installed():
        raise TaskError(f"judges: {INSTALL}")
    from harness.rollout.bench_judges import BenchJudges

    folder = options.record or options.offline
    return BenchJudges(
        known,
        everywhere,
        _endpoint(options),
        recording=None if folder is None else folder / _RECORDED,
        offline=options.offline is not None,
        ask_missing=options.miss == "live",
    )


def _endpoint(options: argparse.Namespace) -> Any:
    from judges.models.budget import TokenBudget
    from judges.models.endpoint_key import BadKeyError, endpoint_key
    from judges.models.openai_endpoint import (
        BadEndpointError,
        OpenAIEndpoint,
        SamplingOptions,
    )

    try:
        return OpenAIEndpoint(
            options.judge_endpoint,
            options.judge_model,
            key=endpoint_key(KEY),
            timeout=_TIMEOUT,
            sampling=SamplingOptions(),
            budget=TokenBudget(options.judge_budget_tokens),
        )
    except BadKeyError as problem:
        raise TaskError(f"{KEY}: {problem}") from None
    except BadEndpointError as problem:
        raise TaskError(f"--judge-endpoint: {problem}") from None
