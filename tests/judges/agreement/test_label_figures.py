"""Judges are measured against what people found, by rules that are written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.agreement import ErrorLabel, Labels, ScoreLabel, label_lines
from tests.judges.agreement.made import finding, record


def figures(records: list[dict[str, Any]], *labels: ErrorLabel | ScoreLabel) -> dict[str, Any]:
    """The figures of the judges that were asked."""
    found = label_lines(
        records,
        Labels(
            scores=[each for each in labels if isinstance(each, ScoreLabel)],
            errors=[each for each in labels if isinstance(each, ErrorLabel)],
        ),
    )
    assert list(found) == ["labels"]
    return dict(found["labels"])


def counts(found: dict[str, Any]) -> tuple[int, ...]:
    return tuple(found[name] for name in ("tp", "fp", "fn", "tn"))


def test_each_error_is_one_of_four() -> None:
    """A hit, a false alarm, a miss and a right silence, told from the judges that the label names."""
    records = [record("found", findings=[finding()]), record("clean")]
    lc = frozenset({"LC"})
    found = figures(
        records,
        ErrorLabel("found", judges=lc),
        ErrorLabel("found", judges=frozenset({"TC"})),
        ErrorLabel("clean", judges=lc),
        ErrorLabel("clean", judges=frozenset()),
    )["LC"]["caught"]
    assert counts(found) == (1, 1, 1, 1)
    assert found["precision"] == found["recall"] == found["f1"] == found["accuracy"] == 0.5


def test_a_finding_of_another_category_catches_nothing() -> None:
    """An error with a category is caught by a finding of that category alone, however it is written."""
    records = [record("a", findings=[finding(category="formatting_errors")])]
    same = figures(records, ErrorLabel("a", "Formatting Errors"))["LC"]
    other = figures(records, ErrorLabel("a", "Goal Deviation"))["LC"]
    assert counts(same["caught"]) == (1, 0, 0, 0)
    assert same["unmatched"] == 0
    assert counts(other["caught"]) == (0, 0, 1, 0)
    assert other["unmatched"] == 1


@pytest.mark.parametrize(
    ("error", "hit"),
    [
        (ErrorLabel("a", step="s3"), True),
        (ErrorLabel("a", step="s4"), False),
        (ErrorLabel("a", step="s30"), False),
        (ErrorLabel("a", step="s"), False),
        (ErrorLabel("a", span_id="00000000000000ab"), True),
        (ErrorLabel("a", span_id="00000000000000ac"), False),
        (ErrorLabel("a", step="s3", span_id="00000000000000ac"), False),
        (ErrorLabel("a"), False),
    ],
)
def test_an_error_is_localised_by_a_finding_at_its_step(error: ErrorLabel, hit: bool) -> None:
    """The step is named by its span, or by its short id; an error without a place is caught, and never localised."""
    records = [record("a", findings=[finding("s3", "00000000000000AB")])]
    found = figures(records, error._replace(judges=frozenset({"LC"})))
    assert counts(found["LC"]["caught"]) == (1, 0, 0, 0)
    assert counts(found["LC"]["localised"]) == ((1, 0, 0, 0) if hit else (0, 0, 1, 0))
    assert found["all"]["localised"] == int(hit)


def test_a_finding_at_the_step_of_another_category_does_not_localise() -> None:
    """Right place, wrong category: the error is caught by the other finding, and not localised."""
    findings = [
        finding("s1", category="Resource Abuse"),
        finding("s9", category="Goal Deviation"),
    ]
    found = figures(
        [record("a", findings=findings)], ErrorLabel("a", "Goal Deviation", step="s1")
    )
    assert (found["all"]["caught"], found["all"]["localised"]) == (1, 0)
    assert found["LC"]["unmatched"] == 1


def test_without_judges_the_category_says_whose_error_it_is() -> None:
    """The table of categories names judges; an error of which nobody knows whose it is counts in `all` alone."""
    records = [
        record("a", judge, findings=[finding(category="Service Errors")])
        for judge in ("LC", "TQ")
    ]
    found = figures(records, ErrorLabel("a", "Service Errors"), ErrorLabel("a", step="s2"))
    assert counts(found["TQ"]["caught"]) == (1, 0, 0, 0)
    assert counts(found["LC"]["caught"]) == (0, 1, 0, 0)
    assert (found["all"]["errors"], found["all"]["caught"]) == (2, 2)


def test_one_repeat_is_measured_whatever_their_number() -> None:
    """The union of repeats would catch more than a judgement does: the first that stands is measured."""
    records = [
        record("a", repeat=3, findings=[finding()]),
        record("a", repeat=2, findings=[]),
        record("a", repeat=1, outcome="failed", score=None),
    ]
    found = figures(records, ErrorLabel("a", judges=frozenset({"LC"})))
    assert counts(found["LC"]["caught"]) == (0, 0, 1, 0)


def test_a_judge_without_an_answer_has_found_nothing() -> None:
    """Errors of a session that was asked and failed are missed; those of a session that nobody was asked of are told apart."""
    lc = frozenset({"LC"})
    found = figures(
        [record("a", outcome="failed", score=None)],
        ErrorLabel("a", judges=lc),
        ErrorLabel("elsewhere", judges=lc),
    )
    assert counts(found["LC"]["caught"]) == (0, 0, 1, 0)
    assert (found["all"]["errors"], found["all"]["not_judged"]) == (1, 1)


def test_any_judge_covers_an_error() -> None:
    """`all` counts an error once, by whichever judge, and by impact."""
    records = [
        record("a", "LC", findings=[finding("s1")]),
        record("a", "EE", findings=[finding("s2")]),
    ]
    found = figures(
        records, ErrorLabel("a", impact="high", step="s2"), ErrorLabel("b", impact="low")
    )
    assert found["all"]["by_impact"]["high"] == {
        "errors": 1, "caught": 1, "localised": 1, "coverage": 1.0, "localisation": 1.0,
    }  # fmt: skip
    assert found["all"]["by_impact"]["low"]["coverage"] is None


def test_scores_are_held_against_labels() -> None:
    """Four sessions by hand: nearness, correlation, confusion, and what a judge gets that always says the commonest score."""
    pairs = [(3, 3), (3, 1), (1, 2), (0, 0)]
    records = [record(str(place), score=judged) for place, (_, judged) in enumerate(pairs)]
    labels = [
        ScoreLabel(str(place), "LC", labelled) for place, (labelled, _) in enumerate(pairs)
    ]
    found = figures(
        records, *labels, ScoreLabel("not judged", "LC", 3), ScoreLabel("0", "TC", 0)
    )["LC"]

    assert found["acc_ob1"] == 0.75
    assert found["acc_3pt"] == 0.75
    assert found["nmae"] == pytest.approx((2 + 1) / 3 / 4)
    assert found["correlation"] == pytest.approx(np.corrcoef([3, 3, 1, 0], [3, 1, 2, 0])[0, 1])
    assert found["confusion"] == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]]
    assert found["base_rate"] == 0.5
    assert found["constant"]["score"] == 3
    assert found["constant"]["acc_3pt"] == 0.5
    assert found["constant"]["nmae"] == pytest.approx((2 + 3) / 3 / 4)


def test_a_judge_that_always_says_the_same_has_no_correlation() -> None:
    """A correlation that is not defined is null, not 0 or a crash."""
    records = [record("a", score=2), record("b", score=2)]
    labels = [ScoreLabel("a", "LC", 1), ScoreLabel("b", "LC", 3)]
    assert figures(records, *labels)["LC"]["correlation"] is None


def test_without_labels_nothing_is_claimed() -> None:
    """Each key is there; what cannot be said is null."""
    found = figures([record("a", findings=[finding()])])
    judge = found["LC"]
    for name in ("acc_ob1", "acc_3pt", "correlation", "nmae", "base_rate", "constant"):
        assert judge[name] is None
    assert judge["caught"]["precision"] is judge["caught"]["accuracy"] is None
    assert judge["unmatched"] == 1
    assert found["all"]["coverage"] is None


ERRORS = st.builds(
    ErrorLabel,
    session=st.sampled_from("abc"),
    category=st.sampled_from([None, "Goal Deviation", "Invalid Invocation", "of nobody"]),
    impact=st.sampled_from([None, "low", "high"]),
    step=st.sampled_from([None, "s1", "s2"]),
    judges=st.one_of(st.none(), st.frozensets(st.sampled_from(["LC", "TC"]))),
)
FINDINGS = st.lists(
    st.builds(
        finding,
        step=st.sampled_from(["s1", "s2"]),
        category=st.sampled_from(["Goal Deviation", "Tool-related"]),
    )
)
RECORDS = st.lists(
    st.builds(
        record,
        session=st.sampled_from("ab"),
        judge=st.sampled_from(["LC", "TC"]),
        findings=FINDINGS,
        outcome=st.sampled_from(["scored", "failed", "partial"]),
        repeat=st.integers(1, 2),
    )
)


@given(RECORDS, st.lists(ERRORS))
def test_counts_add_up(records: list[dict[str, Any]], errors: list[ErrorLabel]) -> None:
    """Each judge's four counts are its errors, what is localised is caught, and every error is in `all` or not judged."""
    found = figures(records, *errors)
    whole = found.pop("all")
    assert whole["errors"] + whole["not_judged"] == len(errors)
    assert whole["localised"] <= whole["caught"] <= whole["errors"]
    for judge in found.values():
        assert (
            sum(counts(judge["caught"])) == sum(counts(judge["localised"])) <= whole["errors"]
        )
        assert judge["localised"]["tp"] <= judge["caught"]["tp"] <= whole["caught"]
