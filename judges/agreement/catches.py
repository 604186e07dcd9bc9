"""Whether a judge found an error that people marked, and where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from judges.agreement.categories import judges_of, same_category
from judges.agreement.labels import ErrorLabel
from judges.agreement.scores import Record

__all__ = ["Catch", "catch", "first_answers", "is_same_step", "owners", "unmatched"]

STANDING = frozenset({"scored", "partial"})
"""Outcomes with findings that stand."""


class Catch(NamedTuple):
    """What a judge's findings say of one marked error."""

    caught: bool
    """True if there is a finding of its category; of an error without category, any finding."""
    localised: bool
    """True if one of these is at its step."""


def first_answers(records: Iterable[Record]) -> dict[tuple[str, str], Sequence[Record]]:
    """(session, judge) -> findings of the first repeat that has some to go by; none where no repeat has.

    One repeat, whatever their number: the union of many would catch more than any judgement does.
    """
    found: dict[tuple[str, str], Sequence[Record]] = {}
    for record in sorted(records, key=lambda each: (not _stands(each), each["repeat"])):
        findings = record["findings"] if _stands(record) else ()
        found.setdefault((record["session"], record["judge"]), findings)
    return found


def _stands(record: Record) -> bool:
    return record["outcome"] in STANDING


def owners(error: ErrorLabel) -> frozenset[str] | None:
    """The judges whose error it is; None if neither the label nor the table of categories says."""
    if error.judges is not None:
        return error.judges
    return (judges_of(error.category) or None) if error.category else None


def catch(findings: Iterable[Record], error: ErrorLabel) -> Catch:
    """Whether these findings, of one judge in the error's session, catch and localise it."""
    fitting = [finding for finding in findings if _fits(finding, error)]
    return Catch(bool(fitting), any(is_same_step(finding, error) for finding in fitting))


def unmatched(findings: Iterable[Record], errors: Sequence[ErrorLabel]) -> int:
    """Number of findings that are of no marked error's category, and so in no figure."""
    return sum(not any(_fits(finding, error) for error in errors) for finding in findings)


def is_same_step(finding: Record, error: ErrorLabel) -> bool:
    """Whether a finding is at the step where an error was marked: its span if that is named, else its short id."""
    if error.span_id is not None:
        return str(finding.get("span_id") or "").lower() == error.span_id
    return error.step is not None and finding.get("step") == error.step


def _fits(finding: Record, error: ErrorLabel) -> bool:
    return error.category is None or same_category(
        error.category, str(finding.get("category") or "")
    )
