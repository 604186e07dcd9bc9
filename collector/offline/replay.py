"""`offrails replay`: stored OTLP/JSON lines, or plain runs, judged as if they arrived now."""

from __future__ import annotations

import codecs
import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from collector.calls.pipeline import Pipeline
from collector.client.verb_error import VerbError
from collector.decode.json import otlp_json
from collector.decode.span import MalformedBodyError, Span
from collector.offline.drafts.starter_spec import Agent, agents, agents_of_runs
from collector.offline.plain_runs import (
    AgentRun,
    BadRun,
    has_runs,
    is_plain,
    judge_run,
    read_runs,
)
from collector.offline.progress_bar import Progress
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.findings import printable
from monitor.limits import Limits
from monitor.spec.spec import Spec

__all__ = [
    "BadInput",
    "DocumentForm",
    "Recording",
    "bytes_of",
    "files_of",
    "judge",
    "observe",
    "recorded",
    "replay",
    "sessions",
]

_GZIP = b"\x1f\x8b"

_RECORDINGS = ("*.jsonl", "*.jsonl.gz", "offrails-*.jsonl.gz.open", "*.eval")
"""Files that are read in a folder; the third is being recorded, or was when its process was killed."""
_DOCUMENTS = ("*.json", "*.json.gz")
"""Files that are read in a folder if they hold spans or runs: settings and results lie there, too."""
_ROLLOUTS, _ROLLOUT_SPANS = "rollouts.jsonl", "spans.otlp.jsonl"
"""Files of a run of `offrails harness`: the first one says what came of the sessions in the second one, and holds no calls."""
_SPANS = b'"resourceSpans"'
"""What a document with spans has in it."""
_INSPECT = ".eval"
"""How the name of a log of Inspect ends."""

_EVERYTHING = 1 << 60
"""Bytes: a file is judged whole, with the arguments of all calls."""

_UNREAD_SHOWN = 10
"""Calls of a file whose unread arguments are reported one by one."""


class BadInput(VerbError):  # noqa: N818 - it names the input
    """A file cannot be replayed; the message names it, and the line."""


@dataclass(frozen=True, slots=True)
class DocumentForm:
    """A form of JSON documents that are read in a folder."""

    marks: Sequence[bytes]
    """A document has one of these in it; others are not parsed."""
    holds: Callable[[Any], bool]
    """Whether a document has this form."""


_RUNS = DocumentForm((b'"calls"',), has_runs)


def replay(
    files: Sequence[Path], specs: Sequence[Spec], *, together: bool = False, unnamed: str = ""
) -> Iterator[dict[str, Any]]:
    """Judgement objects of all sessions, file by file, or of all files as one stream.

    A file holds OTLP/JSON lines or plain runs (`collector.offline.plain_runs`); a plain run is whole, and
    judged by itself. Every session is seen from its first call (`history: complete`), nothing
    is folded, and arguments are shown. `unnamed` is the id of the spec that judges plain runs
    which name none.

    Raises:
        BadInput: a file is missing, or a line is neither an ExportTraceServiceRequest nor a run.
    """
    progress = Progress(files)
    groups = [list(files)] if together else [[file] for file in files]
    for group in groups:
        yield from judge([recorded(file, progress) for file in group], specs, unnamed)


def files_of(paths: Sequence[Path], forms: Sequence[DocumentForm] = ()) -> list[Path]:
    """The paths, with folders replaced by the recordings in them, oldest first.

    A JSON document in a folder that holds neither spans nor runs, and has none of the other forms, is left out, and reported
    on standard error.

    Raises:
        BadInput: a folder holds none.
    """
    found: list[Path] = []
    for path in paths:
        inside = _inside(path, forms) if path.is_dir() else [path]
        if not inside:
            raise BadInput(
                f"{path}: no {' or '.join(_RECORDINGS[:2])} in this folder, and no *.json with runs"
            )
        found += inside
    return found


def _inside(folder: Path, forms: Sequence[DocumentForm]) -> list[Path]:
    documents = sorted(file for pattern in _DOCUMENTS for file in folder.glob(pattern))
    others = [file for file in documents if not _is_read(file, (_RUNS, *forms))]
    for file in others:
        print(f"{file}: left out: no spans and no runs in it", file=sys.stderr)
    found = {file for pattern in _RECORDINGS for file in folder.glob(pattern)}
    if folder / _ROLLOUT_SPANS in found:
        found.discard(folder / _ROLLOUTS)
    return sorted({*found, *documents}.difference(others))


def _is_read(file: Path, forms: Sequence[DocumentForm]) -> bool:
    """Whether a document is to be read; also if that cannot be told, so that its reader reports why."""
    if not file.is_file():
        return False
    marks = {mark for form in forms for mark in form.marks}
    found = set[bytes]()
    try:
        with file.open("rb") as stream:
            for line in _unpacked(stream):
                if _SPANS in line:
                    return True
                found.update(mark for mark in marks if mark in line)
        likely = [form for form in forms if not found.isdisjoint(form.marks)]
        return bool(likely) and _has_form(bytes_of(file), likely)
    except (OSError, EOFError, zlib.error):
        return True


def _has_form(text: bytes, forms: Sequence[DocumentForm]) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return True
    return any(form.holds(document) for form in forms)


def bytes_of(file: Path) -> bytes:
    """What a file holds, unpacked.

    Raises:
        OSError: it cannot be read.
        EOFError, zlib.error: it is packed, and cut off or damaged.
    """
    with file.open("rb") as stream:
        return _unpacked(stream).read()


@dataclass(frozen=True, slots=True)
class Recording:
    """What a file holds: one of the two."""

    file: Path
    requests: Sequence[Sequence[Span]] = ()
    runs: Sequence[AgentRun] = ()


def judge(
    found: Sequence[Recording], specs: Sequence[Spec], unnamed: str = ""
) -> Iterator[dict[str, Any]]:
    """Judgement objects of recordings, their spans as one stream."""
    requests = [spans for each in found for spans in each.requests]
    if requests:
        yield from sessions(requests, specs)
    for each in found:
        yield from _judge_runs(each, specs, unnamed)


def observe(files: Sequence[Path]) -> list[Agent]:
    """What recorded spans and plain runs show of the agents that made them, with no spec at all.

    Raises:
        BadInput: a file is missing, or holds neither.
    """
    progress = Progress(files)
    found = [recorded(file, progress) for file in files]
    requests = [spans for each in found for spans in each.requests]
    monitor = Monitor((), _limits())
    pipeline = Pipeline(monitor, Stats(), lambda _: None)
    end = max((span.end_ns for spans in requests for span in spans), default=0)
    for spans in requests:
        pipeline.consume(spans, end, "replay")
    seen = [agent.as_json() for agent in pipeline.inventory]
    runs = [run for each in found for run in each.runs]
    return agents(seen, monitor.judgements()) + agents_of_runs(runs)


def sessions(
    requests: Sequence[Sequence[Span]],
    specs: Sequence[Spec],
    progress: Progress | None = None,
) -> Iterator[dict[str, Any]]:
    """The sessions of recorded spans, as judgement objects."""
    monitor = Monitor(specs, _limits())
    pipeline = Pipeline(monitor, Stats(), lambda _: None)
    # There is no clock: what was recorded is over, so its end is the time of every receipt.
    end = max((span.end_ns for spans in requests for span in spans), default=0)
    for spans in requests if progress is None else progress.stage("sessions", requests):
        pipeline.consume(spans, end, "replay")
    pipeline.finish()
    monitor.close(end)
    objects = list(monitor.judgements())
    yield from sorted(objects, key=_first_come)


def _judge_runs(
    found: Recording, specs: Sequence[Spec], unnamed: str
) -> Iterator[dict[str, Any]]:
    known = {"", *(spec.id for spec in specs)}
    missing = dict.fromkeys(run.spec for run in found.runs if run.spec not in known)
    for spec in missing:
        print(f"{found.file}: no spec {spec!r} is loaded", file=sys.stderr)
    for run in found.runs:
        named = run if run.spec else replace(run, spec=unnamed)
        yield from judge_run(named, specs, _limits())


def _limits() -> Limits:
    return replace(
        Limits(),
        history_complete=True,
        keep_arguments=True,
        fold=False,
        sessions_max=10_000_000,
        sessions_bytes_max=_EVERYTHING,
    )


def _first_come(judgement: dict[str, Any]) -> tuple[Any, ...]:
    return (
        judgement["started"],
        judgement["namespace"],
        judgement["session"],
        judgement["spec"] or "",
        judgement["agent"],
    )


def recorded(file: Path, progress: Progress) -> Recording:
    """Spans line by line, or plain runs: the first line shows which; or a log of Inspect, by its name.

    Raises:
        BadInput: it is missing, or holds neither.
    """
    if file.suffix == _INSPECT:
        return _inspect(file)
    try:
        with file.open("rb") as stream:
            progress.start(file)
            lines = _until_torn(file, enumerate(_lines(stream, progress), start=1))
            first = next(((number, line) for number, line in lines if line.strip()), None)
            if first is None:
                return Recording(file)
            if is_plain(first[1]):
                return _plain(file, first[1] + b"".join(line for _, line in lines))
            every = chain([first], lines)
            requests = [_spans(line, file, number) for number, line in every if line.strip()]
            return Recording(file, requests=requests)
    except OSError as problem:
        raise BadInput(f"{file}: {problem.strerror or problem}") from None


def _inspect(file: Path) -> Recording:
    from collector.sdk.inspect_log import InspectLogError, read_inspect_log

    try:
        lines = enumerate(read_inspect_log(file), start=1)
        return Recording(file, requests=[_spans(line, file, number) for number, line in lines])
    except ModuleNotFoundError as problem:
        raise BadInput(
            f"{file}: a log of Inspect takes {problem.name}: pip install 'offrails[inspect]'"
        ) from None
    except InspectLogError as problem:
        raise BadInput(f"{file}: {problem}") from None


def _until_torn(file: Path, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, as far as it goes: who recorded it may have been killed."""
    number = 0
    try:
        for number, line in lines:
            yield number, line
    except (EOFError, zlib.error):
        print(
            f"{file}:{number + 1}: the recording is cut off here: its process was killed, or is still"
            " writing; what comes before is read",
            file=sys.stderr,
        )


def _plain(file: Path, text: bytes) -> Recording:
    """Plain runs; or a request of spans that was written over several lines."""
    if _SPANS in text:
        return Recording(file, requests=[_spans(text, file, 1)])
    try:
        runs = read_runs(text, file.stem)
    except BadRun as problem:
        raise BadInput(f"{file}: {problem}") from None
    _report_unread(file, runs)
    return Recording(file, runs=runs)


def _report_unread(file: Path, runs: Sequence[AgentRun]) -> None:
    """Says which arguments are written but unknown: a line for each of the first, and how many more there are."""
    found = (
        f"{file}: run {place}, call {number}: arguments not read: {printable(call.unread)}"
        for place, run in enumerate(runs, start=1)
        for number, call in enumerate(run.calls, start=1)
        if call.unread
    )
    for line in islice(found, _UNREAD_SHOWN):
        print(line, file=sys.stderr)
    more = sum(1 for _ in found)
    if more:
        print(f"{file}: and {more} more calls whose arguments were not read", file=sys.stderr)


def _lines(stream: BinaryIO, progress: Progress) -> Iterable[bytes]:
    mark = codecs.BOM_UTF8
    for line in _unpacked(stream):
        progress.at(stream.tell())
        yield line.removeprefix(mark)
        mark = b""


def _unpacked(stream: BinaryIO) -> BinaryIO:
    packed = stream.read(2) == _GZIP
    stream.seek(0)
    return cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if packed else stream


def _spans(line: bytes, file: Path, number: int) -> Sequence[Span]:
    try:
        batch = otlp_json.decode(line)
    except MalformedBodyError as problem:
        raise BadInput(f"{file}:{number}: {problem}") from None
    if batch.rejected:
        print(
            f"{file}:{number}: {batch.rejected} spans left out: {batch.message}",
            file=sys.stderr,
        )
    return batch.spans
