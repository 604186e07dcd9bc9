"""Two judges, or two models, are compared on the sessions that both scored."""

from __future__ import annotations

import pytest

from judges.agreement import comparisons
from tests.judges.agreement.made import record, repeats


def test_two_models_are_compared_as_one_judge() -> None:
    """The same sessions alone: their differences, and how surely they differ."""
    worse = {str(each): [each % 3] for each in range(30)}
    better = {session: [scores[0] + 1] for session, scores in worse.items() if session != "0"}
    (found,) = comparisons([*repeats(worse, model="small"), *repeats(better, model="large")])

    assert found["a"] == {"judge": "LC", "model": "small"}
    assert found["b"] == {"judge": "LC", "model": "large"}
    assert found["sessions"] == 29
    assert found["difference"] == pytest.approx(1)
    assert found["difference_ci"] == pytest.approx([1, 1])
    assert found["correlation"] == pytest.approx(1)
    assert found["alpha"] < 1, "they order alike, and do not agree"
    low, high = found["alpha_ci"]
    assert low <= found["alpha"] <= high


def test_two_judges_are_compared_as_one_model_plays_them() -> None:
    """Raters with another judge and another model have nothing in common, and are not compared."""
    records = [
        *repeats({"a": [0, 2], "b": [3]}, "LC"),
        *repeats({"a": [1], "b": [1]}, "EE"),
        *repeats({"a": [1]}, "EE", model="other"),
    ]
    pairs = {
        (*found["a"].values(), *found["b"].values()): found for found in comparisons(records)
    }
    assert set(pairs) == {("LC", "m", "EE", "m"), ("EE", "m", "EE", "other")}
    assert pairs["LC", "m", "EE", "m"]["difference"] == -1.0, (
        "repeats of a session are one score"
    )


def test_without_common_sessions_nothing_is_compared() -> None:
    """Two raters that scored nothing in common are left out; one common session has no interval."""
    assert comparisons([record("a"), record("b", "EE")]) == []
    (found,) = comparisons([record("a"), record("a", "EE")])
    assert found["difference"] == 0
    assert found["difference_ci"] is None
