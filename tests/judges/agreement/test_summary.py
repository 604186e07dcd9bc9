"""The summary says what was asked, how it ended, and how stable the scores are."""

from __future__ import annotations

import statistics

import krippendorff
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.agreement import summary
from judges.judgement_record import OUTCOMES
from tests.judges.agreement.made import record, repeats


def test_figures_are_those_of_a_hand_example() -> None:
    """Three sessions judged twice, one of them once: mean, alpha, identical, units and std are as computed by hand."""
    figures = summary(repeats({"a": [2, 2], "b": [1, 3], "c": [0, 0], "d": [3]}))["LC"]

    assert figures["asked"] == figures["n"] == 7
    assert figures["mean"] == pytest.approx(11 / 7)
    assert figures["identical"] == pytest.approx(2 / 3)
    assert figures["units"] == 3
    assert figures["std"] == pytest.approx(statistics.stdev([1, 3]) / 3)
    oracle = krippendorff.alpha([[2, 1, 0], [2, 3, 0]], level_of_measurement="interval")
    assert figures["alpha"] == pytest.approx(oracle)
    low, high = figures["std_ci"]
    assert 0 <= low <= figures["std"] <= high <= statistics.stdev([1, 3])


def test_equal_scores_are_identical_and_have_no_alpha() -> None:
    """Where all scores are equal, alpha is null and `identical` says why."""
    figures = summary(repeats({"a": [2, 2], "b": [2, 2]}))["LC"]
    assert figures["alpha"] is None
    assert figures["identical"] == 1.0
    assert figures["std"] == 0
    assert figures["std_ci"] == [0, 0]


def test_under_two_sessions_nothing_is_said_of_agreement() -> None:
    """One session with two scores is too little for alpha and `identical`; no such session has no std, either."""
    one = summary(repeats({"a": [1, 2], "b": [3]}))["LC"]
    assert (one["alpha"], one["identical"], one["units"]) == (None, None, 1)
    none = summary(repeats({"a": [1], "b": [3]}))["LC"]
    assert (none["alpha"], none["identical"], none["units"]) == (None, None, 0)
    assert (none["std"], none["std_ci"]) == (None, None)


def test_what_was_not_scored_is_in_no_mean() -> None:
    """Partial and contradicting scores are in no mean; they are counted where the issue of a judgement is told."""
    figures = summary(
        [
            record("a", score=3),
            record("b", score=0, outcome="partial"),
            record("c", score=0, contradiction=True),
            record("d", score=None, outcome="failed"),
        ]
    )["LC"]
    assert figures["mean"] == 3
    assert (figures["asked"], figures["n"]) == (4, 2)
    assert figures["outcomes"]["partial"] == figures["outcomes"]["failed"] == 1


def test_a_judge_is_validated_if_all_its_records_say_so() -> None:
    """`validated` is the judge's own; the judges come in the order of their records."""
    found = summary([record("a", "TC"), record("a", "GF", validated=False)])
    assert [(judge, each["validated"]) for judge, each in found.items()] == [
        ("TC", True),
        ("GF", False),
    ]


@given(st.lists(st.sampled_from(OUTCOMES)))
def test_asked_is_the_sum_of_outcomes(outcomes: list[str]) -> None:
    """Each record is in exactly one outcome, and all eight are named, with zeros."""
    for figures in summary([record("a", outcome=each) for each in outcomes]).values():
        assert list(figures["outcomes"]) == list(OUTCOMES)
        assert figures["asked"] == sum(figures["outcomes"].values()) == len(outcomes)


def test_the_same_records_have_the_same_figures() -> None:
    """Intervals are drawn by chance with a fixed seed."""
    records = repeats({str(each): [each % 4, (each * 7) % 4] for each in range(20)})
    assert summary(records) == summary(list(records))
