"""`offrails judge`: sessions of files, or of a running service, judged by models."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from collector.client.api_client import ask
from collector.offline.judge.session_material import (
    SessionMaterial,
    material_of,
    material_of_judgements,
)
from collector.offline.progress_bar import Progress
from collector.offline.tables import aligned
from collector.transcripts.fence import nonce_outside
from judges.agreement import summary
from judges.judgement_record import FINE, JudgementRecord
from judges.judging import JudgeOptions, SessionCase, prompt_of
from judges.models.cache import AnswerCache
from judges.models.openai_endpoint import OpenAIEndpoint
from judges.rubric import Rubric
from judges.run import judge_all
from monitor.findings import printable
from monitor.spec.spec import Spec

__all__ = ["JudgeRun", "cases", "dry_lines", "json_line", "records", "table_lines"]

SESSIONS_OF_SERVICE: Final = 1_000
"""Sessions that are asked of a running service: those that were active last."""

_WHY_SHOWN: Final = 10
"""Reasons that are told one by one on standard error."""


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """What is judged, by whom, and how."""

    files: Sequence[Path]
    url: str
    """Address of a running service; "" for files."""
    token_file: Path | None
    specs: Sequence[Spec]
    unnamed: str
    rubrics: Sequence[Rubric]
    repeats: int
    options: JudgeOptions
    at_once: int


def cases(run: JudgeRun) -> list[SessionCase]:
    """The sessions that are judged.

    Raises:
        BadInput: a file cannot be read.
        NoAnswerError: the service does not answer.
    """
    found = _of_service(run) if run.url else _of_files(run)
    return [
        SessionCase.of(each.session, each.judged, each.steps, run.options) for each in found
    ]


def _of_files(run: JudgeRun) -> Iterator[SessionMaterial]:
    progress = Progress(run.files)
    for file in run.files:
        yield from material_of(file, run.specs, progress, run.unnamed)


def _of_service(run: JudgeRun) -> Iterator[SessionMaterial]:
    """Calls with arguments, as far as the service shows them; it keeps no messages and no results."""
    path = f"/api/v1/sessions?steps=0&limit={SESSIONS_OF_SERVICE}"
    listed = ask(run.url, path, run.token_file).get("sessions", ())
    keys = dict.fromkeys((each["namespace"], each["session"]) for each in listed)
    for namespace, session in keys:
        one = (
            f"/api/v1/sessions/{quote(session, safe='')}?namespace={quote(namespace, safe='')}"
        )
        found = ask(run.url, one, run.token_file)
        prevented = found.get("prevented") or []
        judged = [{**each, "prevented": prevented} for each in found.get("sessions", ())]
        yield from material_of_judgements(judged)


def dry_lines(found: Iterable[SessionCase], run: JudgeRun) -> Iterator[str]:
    """The prompts, in the order in which they would be sent; nobody is asked."""
    for case in found:
        for rubric in run.rubrics:
            head = f"{printable(case.session)} / {rubric.id}"
            prompt = prompt_of(case, rubric, run.options)
            if prompt is None:
                yield f"===== {head}: not applicable, no step states a plan"
                continue
            nonce = nonce_outside(prompt.texts(), run.options.draw)
            for message in prompt.messages(nonce):
                yield f"===== {head}: {message['role']}\n{message['content']}"


async def records(
    found: Sequence[SessionCase],
    run: JudgeRun,
    model: OpenAIEndpoint,
    second: OpenAIEndpoint | None,
    cache: AnswerCache,
) -> AsyncGenerator[JudgementRecord, None]:
    """The judgements, one after the other, with a progress bar where somebody watches."""
    total = len(found) * len(run.rubrics) * run.repeats
    told = done = 0
    judged = judge_all(
        found, run.rubrics, run.repeats, model, second, cache, run.options, run.at_once
    )
    try:
        async for record in judged:
            done += record.model == model.name
            _draw(done, total)
            if record.outcome not in FINE:
                told += 1
                _tell(record, told)
            yield record
        if told > _WHY_SHOWN:
            print(f"and {told - _WHY_SHOWN} more without a score", file=sys.stderr)
    finally:
        await judged.aclose()
        await model.close()
        if second is not None:
            await second.close()


def _tell(record: JudgementRecord, number: int) -> None:
    if number <= _WHY_SHOWN:
        where = f"{printable(record.session)} / {record.judge} #{record.repeat}"
        why = f": {printable(record.why)}" if record.why else ""
        print(f"{where}: {record.outcome}{why}", file=sys.stderr)


def _draw(done: int, total: int) -> None:
    """Judgements done of all, on a terminal."""
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rjudged {done} of {total}", end=end, file=sys.stderr, flush=True)


def json_line(value: Mapping[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False)


def table_lines(found: Sequence[JudgementRecord]) -> Iterator[str]:
    """A line a judgement, the findings, and the figures of each judge."""
    titles = [
        "session",
        "judge",
        "repeat",
        "outcome",
        "score",
        "findings",
        "calls seen",
        "tokens",
    ]
    rows = [
        [
            printable(each.session)[:40],
            each.judge,
            str(each.repeat),
            each.outcome + _marks(each),
            "-" if each.score is None else str(each.score),
            str(len(each.findings)),
            f"{each.seen.calls} of {each.seen.of}",
            "cached" if each.cached else str(each.tokens_in + each.tokens_out),
        ]
        for each in found
    ]
    yield from aligned([titles, *rows], texts=4)
    yield from _finding_lines(found)
    yield ""
    yield from _summary_lines(summary(each.as_json() for each in found))


def _marks(record: JudgementRecord) -> str:
    return (", contradiction" if record.contradiction else "") + (
        ", disputed" if record.disputed else ""
    )


def _finding_lines(found: Sequence[JudgementRecord]) -> Iterator[str]:
    lines = dict.fromkeys(
        f"  {printable(each.session)} {finding.step} ({finding.span_id}) {each.judge} {finding.impact}"
        f" {printable(finding.category)}: {printable(finding.what)}"
        for each in found
        for finding in each.findings
    )
    if lines:
        yield "\nfindings:"
        yield from lines


def _summary_lines(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    figures = ("asked", "n", "mean", "alpha", "identical", "std")
    rows = [
        [
            judge,
            *(_cell(each.get(name)) for name in figures),
            "yes" if each["validated"] else "no",
        ]
        for judge, each in found.items()
    ]
    if rows:
        yield from aligned([["judge", *figures, "validated"], *rows], texts=1)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
