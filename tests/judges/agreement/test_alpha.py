"""Alpha is Krippendorff's."""

from __future__ import annotations

import krippendorff
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.agreement.alpha import interval_alpha

SCORES = st.one_of(st.none(), st.integers(0, 3))


def test_it_is_that_of_a_hand_example() -> None:
    """Of (1, 2) and (3, 3): squared differences are 2 within units, of 4 values, and 22 between all 12 ordered pairs."""
    assert interval_alpha([[1, 2], [3, 3]]) == pytest.approx(1 - (2 / 4) / (22 / 12))


def test_units_that_agree_have_one_and_chance_has_about_zero() -> None:
    """Perfect agreement is 1; agreement that is worse than chance is negative."""
    assert interval_alpha([[0, 0], [3, 3]]) == 1
    disagreeing = interval_alpha([[0, 3], [3, 0]])
    assert disagreeing is not None
    assert disagreeing < 0


@pytest.mark.parametrize("units", [[], [[1], [2]], [[2, 2], [2, 2, 2]], [[], [1]]])
def test_without_variation_it_is_undefined(units: list[list[int]]) -> None:
    """Where all values are equal, or none meet, there is no alpha to tell."""
    assert interval_alpha(units) is None


@given(st.lists(st.lists(SCORES, min_size=5, max_size=5), min_size=2, max_size=30))
def test_it_equals_that_of_an_independent_library(units: list[list[int | None]]) -> None:
    """Whatever the scores, and whichever are missing, alpha is that of the package `krippendorff`."""
    ours = interval_alpha([[value for value in unit if value is not None] for unit in units])
    raters = [
        [float("nan") if unit[rater] is None else float(unit[rater] or 0) for unit in units]
        for rater in range(5)
    ]
    pairable = {
        value
        for unit in units
        if sum(each is not None for each in unit) > 1
        for value in unit
        if value is not None
    }
    if len(pairable) < 2:
        assert ours is None
    else:
        theirs = krippendorff.alpha(raters, level_of_measurement="interval")
        assert ours == pytest.approx(theirs, abs=1e-9)
