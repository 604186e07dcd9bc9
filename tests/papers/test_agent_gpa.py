"""The tables of "What Is Your Agent's GPA?" come out of label sets made to its counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from judges.agreement import ErrorLabel, Labels, ScoreLabel, label_lines
from tests.judges.agreement.made import finding, record

ERRORS = 281
"""Errors of the test split."""


class Row(NamedTuple):
    """Counts of one judge, and its rows of tables 3 and 6 (test split): P, R, F1, F2, accuracy."""

    judge: str
    own: int
    """Errors mapped to the judge."""
    caught: tuple[int, int]
    """Errors caught: its own, others'."""
    localised: tuple[int, int]
    table_3: tuple[float, ...]
    table_6: tuple[float, ...]


ROWS = [
    Row("LC", 140, (116, 36), (101, 34), (0.7632, 0.8286, 0.7945, 0.8146, 0.7865), (0.7481, 0.7214, 0.7345, 0.7266, 0.7402)),
    Row("EE", 119, (111, 35), (99, 33), (0.7603, 0.9328, 0.8377, 0.8923, 0.8470), (0.7500, 0.8319, 0.7888, 0.8141, 0.8114)),
    Row("PA", 64, (57, 54), (55, 34), (0.5135, 0.8906, 0.6514, 0.7766, 0.7829), (0.6180, 0.8594, 0.7190, 0.7971, 0.8470)),
    Row("PQ", 15, (10, 17), (8, 15), (0.3704, 0.6667, 0.4762, 0.5747, 0.9217), (0.3478, 0.5333, 0.4211, 0.4819, 0.9217)),
    Row("TS", 104, (101, 55), (67, 19), (0.6474, 0.9712, 0.7769, 0.8829, 0.7936), (0.7791, 0.6442, 0.7053, 0.6673, 0.8007)),
    Row("TC", 128, (124, 17), (52, 7), (0.8794, 0.9688, 0.9219, 0.9495, 0.9253), (0.8814, 0.4063, 0.5561, 0.4553, 0.7046)),
]  # fmt: skip


def answer(session: str, judge: str, caught: bool, localised: bool) -> dict[str, Any]:
    """A judgement with a finding at the marked step, elsewhere, or nowhere."""
    findings = [finding("s1" if localised else "s2")] if caught else []
    return record(session, judge, findings=findings)


def rates(figures: dict[str, Any]) -> list[float]:
    return [figures[name] for name in ("precision", "recall", "f1", "f2", "accuracy")]


def to_four_digits(printed: tuple[float, ...]) -> Any:
    """The printed numbers, whichever way a half was rounded."""
    return pytest.approx(list(printed), rel=0, abs=0.5001e-4)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.judge)
def test_tables_3_and_6(row: Row) -> None:
    """Precision, recall, F1, F2 and accuracy of each judge, of errors caught and of errors localised, to four digits."""
    errors, records = [], []
    for number in range(ERRORS):
        own = number < row.own
        place = number if own else number - row.own
        errors.append(
            ErrorLabel(str(number), step="s1", judges=frozenset({row.judge} if own else ()))
        )
        caught, localised = row.caught[not own], row.localised[not own]
        records.append(answer(str(number), row.judge, place < caught, place < localised))

    found = label_lines(records, Labels(errors=errors))["labels"][row.judge]

    assert rates(found["caught"]) == to_four_digits(row.table_3)
    assert rates(found["localised"]) == to_four_digits(row.table_6)


def test_tables_2_and_5() -> None:
    """267 of 281 errors caught, with the rows by impact; 241 localised in all, for the rows of that table add up to 240."""
    rows = {"low": (57, 46, 39), "medium": (95, 92, 83), "high": (129, 129, 119)}
    errors, records = [], []
    for impact, (count, caught, localised) in rows.items():
        for number in range(count):
            session = f"{impact} {number}"
            errors.append(ErrorLabel(session, impact=impact, step="s1"))
            judge = ("LC", "EE", "TC")[number % 3]
            records.append(answer(session, judge, number < caught, number < localised))

    found = label_lines(records, Labels(errors=errors))["labels"]["all"]

    assert (found["errors"], found["caught"], found["localised"]) == (281, 267, 241)
    assert round(found["coverage"], 4) == 0.9502
    assert round(found["localisation"], 4) == 0.8577
    coverage = {
        impact: round(each["coverage"], 4) for impact, each in found["by_impact"].items()
    }
    assert coverage == {"low": 0.8070, "medium": 0.9684, "high": 1.0}


@pytest.mark.parametrize(
    ("judge", "misses", "acc_3pt", "nmae"),
    [
        ("LC", [(0, 2), (0, 2), (0, 1), (0, 1)], 0.765, 0.118),
        ("EE", [(0, 1), (1, 3)], 0.882, 0.059),
    ],
)
def test_table_8(
    judge: str, misses: list[tuple[int, int]], acc_3pt: float, nmae: float
) -> None:
    """17 traces, of which four or two are in another of the three classes: accuracy and normalised error to three digits."""
    pairs = misses + [(3, 3)] * (17 - len(misses))
    records = [record(str(number), judge, score) for number, (_, score) in enumerate(pairs)]
    labels = [ScoreLabel(str(number), judge, score) for number, (score, _) in enumerate(pairs)]

    found = label_lines(records, Labels(scores=labels))["labels"][judge]

    assert round(found["acc_3pt"], 3) == acc_3pt
    assert round(found["nmae"], 3) == nmae
