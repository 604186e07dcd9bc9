"""Figures of the protocol against their definitions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.offline.risk.figures import (
    ScorePair,
    area,
    area_within,
    precision_area,
    recall_at,
)
from monitor.scores.conformal import conformal

PAIRS = st.lists(
    st.builds(
        ScorePair, st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans(), st.sampled_from("ab")
    ),
    max_size=30,
)


@given(PAIRS)
def test_the_area_is_the_share_of_pairs_in_order(pairs: list[ScorePair]) -> None:
    """The ranks give what comparing each failure with each success gives, ties half."""
    bad = [pair.score for pair in pairs if pair.failed]
    good = [pair.score for pair in pairs if not pair.failed]
    wins = sum((one > other) + (one == other) / 2 for one in bad for other in good)
    found = area(pairs)
    if bad and good:
        assert found == pytest.approx(wins / (len(bad) * len(good)))
    else:
        assert math.isnan(found)


@given(PAIRS)
def test_within_one_group_the_areas_are_the_same(pairs: list[ScorePair]) -> None:
    """Within groups and over all is the same figure, where there is one group."""
    one = [pair._replace(group="a") for pair in pairs]
    assert area_within(one) == pytest.approx(area(one), nan_ok=True)


def test_a_difficult_task_is_no_signal_within_tasks() -> None:
    """A score that knows the task alone has an area over all, and none within tasks."""
    pairs = [ScorePair(0.9, failed, "hard") for failed in (True, True, False)]
    pairs += [ScorePair(0.1, failed, "easy") for failed in (True, False, False)]
    assert area(pairs) > 0.6
    assert area_within(pairs) == 0.5


def test_recall_at_a_false_rate_counts_no_success_beyond_it() -> None:
    """With 20 successes and 5 %, one may lie above the bar."""
    pairs = [ScorePair(number / 20, failed=False) for number in range(20)]
    pairs += [ScorePair(0.93, failed=True), ScorePair(0.5, failed=True)]
    assert recall_at(pairs, 0.05) == 0.5
    assert precision_area([ScorePair(0.5, failed=True), ScorePair(0.5, failed=False)]) == 0.5


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=200, unique=True),
    st.sampled_from([20.0, 50.0, 100.0]),
)
def test_the_conformal_bar_bounds_false_alarms(scores: list[float], most: float) -> None:
    """Of n + 1 scores, each in turn the new one, at most the share reaches the bar of the others."""
    new = [
        bar is not None and score >= bar
        for place, score in enumerate(scores)
        for bar in [conformal(scores[:place] + scores[place + 1 :], most)]
    ]
    assert sum(new) <= most / 1000 * len(scores)
