"""The figures of papers/003 (tables 2 to 6, 9 and 10) from labels: each judge's, and those of all judges together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from judges.agreement.catches import Catch, catch, first_answers, owners, unmatched
from judges.agreement.label_counts import LabelCounts, rate
from judges.agreement.labels import IMPACTS, ErrorLabel, Labels
from judges.agreement.score_figures import ScorePair, score_figures
from judges.agreement.scores import Record, counted

__all__ = ["label_lines"]

Answers = Mapping[tuple[str, str], Sequence[Record]]
"""(session, judge) -> findings."""


def label_lines(records: Iterable[Record], labels: Labels) -> dict[str, Any]:
    """`{"labels": {JUDGE: {...}, "all": {...}}}`: how the judges that were asked do against what people found.

    The records are those of one model. The unit is a marked error of a session that the judge was asked about. An error is positive for a judge if its label names
    the judge, or, without `judges`, if its category is in the judge's scope. An error of which neither is known is in `all`
    alone. A judge that gave no answer that stands has found nothing. `unmatched` counts findings that meet no label.
    `all.not_judged` counts errors of sessions of which no judge was asked; they are in no figure.
    """
    asked = list(records)
    answers = first_answers(asked)
    judges = list(dict.fromkeys(record["judge"] for record in asked))
    figures: dict[str, Any] = {
        judge: {
            **_of_judge(judge, answers, labels.errors),
            **score_figures(_pairs(judge, asked, labels)),
        }
        for judge in judges
    }
    return {"labels": {**figures, "all": _of_all(answers, judges, labels.errors)}}


def _of_judge(judge: str, answers: Answers, errors: Sequence[ErrorLabel]) -> dict[str, Any]:
    units = [
        (judge in named, catch(answers[error.session, judge], error))
        for error in errors
        if (error.session, judge) in answers and (named := owners(error)) is not None
    ]
    return {
        "caught": LabelCounts.of((own, found.caught) for own, found in units).as_json(),
        "localised": LabelCounts.of((own, found.localised) for own, found in units).as_json(),
        "unmatched": _unmatched(judge, answers, errors),
    }


def _unmatched(judge: str, answers: Answers, errors: Sequence[ErrorLabel]) -> int:
    marked: dict[str, list[ErrorLabel]] = defaultdict(list)
    for error in errors:
        marked[error.session].append(error)
    return sum(
        unmatched(findings, marked.get(session, ()))
        for (session, asked), findings in answers.items()
        if asked == judge
    )


def _pairs(judge: str, records: Iterable[Record], labels: Labels) -> list[ScorePair]:
    """(labelled, judged) scores; of repeats the first score that counts."""
    given: dict[str, int] = {}
    for record in sorted(records, key=lambda record: int(record["repeat"])):
        if record["judge"] == judge and counted(record):
            given.setdefault(record["session"], record["score"])
    return [
        (label.score, given[label.session])
        for label in labels.scores
        if label.judge == judge and label.session in given
    ]


def _of_all(
    answers: Answers, judges: Sequence[str], errors: Sequence[ErrorLabel]
) -> dict[str, Any]:
    sessions = {session for session, _ in answers}
    units = [
        (error, _by_any(answers, judges, error))
        for error in errors
        if error.session in sessions
    ]
    return {
        **_coverage([found for _, found in units]),
        "by_impact": {
            impact: _coverage([found for error, found in units if error.impact == impact])
            for impact in IMPACTS
        },
        "not_judged": len(errors) - len(units),
    }


def _by_any(answers: Answers, judges: Iterable[str], error: ErrorLabel) -> Catch:
    found = [catch(answers.get((error.session, judge), ()), error) for judge in judges]
    return Catch(any(each.caught for each in found), any(each.localised for each in found))


def _coverage(found: Sequence[Catch]) -> dict[str, float | None]:
    caught = sum(each.caught for each in found)
    localised = sum(each.localised for each in found)
    return {
        "errors": len(found),
        "caught": caught,
        "localised": localised,
        "coverage": rate(caught, len(found)),
        "localisation": rate(localised, len(found)),
    }
