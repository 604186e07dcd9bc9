"""Files of labels: JSON lines of our own form, or the annotations of TRAIL, AgentRx and Who&When.

Each object is read by its own form, whatever the others are:

| form | object | session | place of an error |
|---|---|---|---|
| score | `{session, judge, score}` | `session` | |
| error | `{session, span_id or step, judges, category, impact}` | `session` | `span_id`, or `step` (3 or "s3") |
| TRAIL | `{trace_id, errors: [{category, location, impact}]}` | `trace_id`, or the file's name | `location`, a span id |
| AgentRx | `{trajectory_id, failures: [{step_number, failure_category}]}` | `trajectory_id` | `step_number` |
| Who&When | `{question_ID, mistake_step, ...}` | `question_ID`, or the file's name | `mistake_step`, from 0 |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from judges.agreement.labels import IMPACTS, BadLabelError, ErrorLabel, Labels, ScoreLabel
from judges.bounded_file import BoundedFileError, bounded_text
from judges.judgement_record import SCORE_MAX

__all__ = ["FILE_BYTES_MAX", "read_labels"]

FILE_BYTES_MAX: Final = 64 * 2**20
_STEP: Final = re.compile(r"s?(\d{1,9})")
_SPAN: Final = re.compile(r"[0-9a-f]{1,32}")
_PLACED: Final = ("span_id", "step", "judges", "category")


def read_labels(path: Path) -> Labels:
    """The labels of a file, or of all `*.json` and `*.jsonl` files of a folder.

    Raises:
        BadLabelError: a file cannot be read, or an object is of no form, or says what cannot be.
    """
    scores: list[ScoreLabel] = []
    errors: list[ErrorLabel] = []
    for file in _files(path):
        for place, document in _documents(file):
            for label in _labels(_Document(place, file.stem, document)):
                if isinstance(label, ScoreLabel):
                    scores.append(label)
                else:
                    errors.append(label)
    _check_single(path, scores)
    return Labels(scores, errors)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in {".json", ".jsonl"})
    if not found:
        raise BadLabelError(f"{path}: expected files *.json or *.jsonl")
    return found


def _check_single(path: Path, scores: list[ScoreLabel]) -> None:
    seen = set()
    for label in scores:
        key = label.session, label.judge
        if key in seen:
            raise BadLabelError(
                f"{path}: session {label.session!r}, judge {label.judge}: expected one score, found two"
            )
        seen.add(key)


# --- from files to documents ------------------------------------------------------------------


def _documents(file: Path) -> Iterator[tuple[str, Any]]:
    """Where each object stands, and the object: a whole document, the members of a list, or lines."""
    text = _text(file)
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield from _lines(file, text)
        return
    if isinstance(whole, list):
        yield from ((f"{file}[{place}]", each) for place, each in enumerate(whole))
    else:
        yield f"{file}:1", whole


def _lines(file: Path, text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield f"{file}:{number}", json.loads(line)
            except (ValueError, RecursionError) as problem:
                raise BadLabelError(f"{file}:{number}: expected JSON: {problem}") from None


def _text(file: Path) -> str:
    try:
        return bounded_text(file, FILE_BYTES_MAX)
    except BoundedFileError as problem:
        raise BadLabelError(str(problem)) from None


# --- from documents to labels -----------------------------------------------------------------


class _Document:
    """An object of a file, which knows where it stands."""

    def __init__(self, place: str, stem: str, found: Any) -> None:
        self.place, self.stem = place, stem
        if not isinstance(found, dict):
            self.refuse("an object", found)
        self.found: Mapping[str, Any] = found

    def refuse(self, expected: str, found: Any, key: str = "") -> NoReturn:
        where = f"{self.place}: {key}" if key else self.place
        raise BadLabelError(f"{where}: expected {expected}, found {found!r:.80}")

    def text(self, key: str) -> str:
        """A text that must be there."""
        return self.optional(key) or self.refuse("a text", self.found.get(key), key)

    def optional(self, key: str) -> str | None:
        value = self.found.get(key)
        if value is not None and not isinstance(value, str):
            self.refuse("a text", value, key)
        return value or None

    def step(self, key: str) -> str | None:
        """The short id of a step, which may be given as a number."""
        value = self.found.get(key)
        if value is None:
            return None
        number = (
            None if isinstance(value, bool | float) else _STEP.fullmatch(str(value).strip())
        )
        return (
            f"s{int(number[1])}"
            if number
            else self.refuse("a number of a step, or s3", value, key)
        )

    def span(self, key: str) -> str | None:
        value = (self.optional(key) or "").strip().lower()
        if value and not _SPAN.fullmatch(value):
            self.refuse("a span id in hex digits", value, key)
        return value or None

    def impact(self) -> str | None:
        value = (self.optional("impact") or "").strip().lower()
        if value and value not in IMPACTS:
            self.refuse(f"one of {', '.join(IMPACTS)}", value, "impact")
        return value or None

    def members(self, key: str) -> Iterator[_Document]:
        """The objects of a list."""
        values = self.found[key]
        if not isinstance(values, list):
            self.refuse("a list", values, key)
        for number, each in enumerate(values):
            yield _Document(f"{self.place}: {key}[{number}]", self.stem, each)


def _labels(document: _Document) -> Iterator[ScoreLabel | ErrorLabel]:
    keys = document.found.keys()
    if "mistake_step" in keys:
        yield _of_who_and_when(document)
    elif "failures" in keys:
        yield from _of_agentrx(document)
    elif "errors" in keys:
        yield from _of_trail(document)
    elif "score" in keys:
        yield _score(document)
    elif keys & set(_PLACED):
        yield _error(document)
    else:
        document.refuse(f"score, or one of {', '.join(_PLACED)}", sorted(keys))


def _score(document: _Document) -> ScoreLabel:
    score = document.found["score"]
    if isinstance(score, bool) or score not in range(SCORE_MAX + 1):
        document.refuse(f"a whole number from 0 to {SCORE_MAX}", score, "score")
    return ScoreLabel(document.text("session"), document.text("judge"), int(score))


def _error(document: _Document) -> ErrorLabel:
    return ErrorLabel(
        session=document.text("session"),
        category=document.optional("category"),
        impact=document.impact(),
        step=document.step("step"),
        span_id=document.span("span_id"),
        judges=_judges(document),
    )


def _judges(document: _Document) -> frozenset[str] | None:
    found = document.found.get("judges")
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        document.refuse("a list of judges", found, "judges")
    return frozenset(found)


def _of_trail(document: _Document) -> Iterator[ErrorLabel]:
    session = document.optional("trace_id") or document.stem
    for error in document.members("errors"):
        yield ErrorLabel(
            session=session,
            category=error.text("category"),
            impact=error.impact(),
            span_id=error.span("location"),
        )


def _of_agentrx(document: _Document) -> Iterator[ErrorLabel]:
    session = document.text("trajectory_id")
    for failure in document.members("failures"):
        yield ErrorLabel(
            session=session,
            category=failure.text("failure_category"),
            step=failure.step("step_number"),
        )


def _of_who_and_when(document: _Document) -> ErrorLabel:
    session = document.optional("question_ID") or document.stem
    step = document.step("mistake_step")
    turns = document.found.get("history")
    if step and isinstance(turns, list) and int(step[1:]) >= len(turns):
        document.refuse(
            f"a turn of the history, which has {len(turns)} from 0", step[1:], "mistake_step"
        )
    return ErrorLabel(session=session, step=step)
