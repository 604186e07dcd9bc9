"""Means, distributions and agents side by side: the numbers, and what is not said."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.offline.compare_agents import VECTOR, compare, means, parse_weights, spreads


def judgement(agent: str = "a", spec: str = "s", **scores: float | None) -> dict[str, Any]:
    perfect = {"harm_rate": 0.0, "prefix_crit": 1.0, "pc": 1.0, "pc_ktc": 1.0, "pc_hlr": 1.0,
               "efficiency": 1.0}  # fmt: skip
    return {
        "agent": agent,
        "spec": spec,
        "spec_kind": "task",
        "exact": True,
        **perfect,
        **scores,
    }


def test_means_leave_out_what_is_undefined() -> None:
    """An undefined efficiency is no zero; its own mean has fewer runs."""
    found = means([judgement(), judgement(pc=0.5, efficiency=None)])

    assert found["pc"] == (0.75, 2)
    assert found["efficiency"] == (1.0, 1)
    assert means([])["pc"] == (None, 0)


def test_what_has_no_scores_does_not_count() -> None:
    """Policies, unmatched sessions and inexact ones do not count."""
    others = [
        judgement() | {"spec_kind": "policy"},
        judgement() | {"spec_kind": None, "spec": None},
        judgement(pc=None) | {"exact": False},
    ]

    assert means([judgement(pc=0.5), *others])["pc"] == (0.5, 1)
    assert compare(others) == []


def test_the_spread_over_repeated_runs() -> None:
    """Mean, quartiles (type 7) and the worst value: the least, but the greatest for HarmRate."""
    values = (0.0, 0.25, 0.5, 1.0)
    runs = [judgement(pc=value, harm_rate=1 - value) for value in values]
    found = {each.score: each for each in spreads(runs)}

    pc = found["pc"]
    assert (pc.spec, pc.agent, pc.runs, pc.mean) == ("s", "a", 4, 0.4375)
    assert (pc.quartile, pc.median, pc.upper, pc.worst) == (0.1875, 0.375, 0.625, 0.0)
    assert found["harm_rate"].worst == 1.0
    assert 0 <= pc.low < pc.mean < pc.high <= 1
    assert (found["prefix_crit"].low, found["prefix_crit"].high) == (1.0, 1.0)


def test_only_repeated_runs_have_a_spread() -> None:
    """Runs are grouped by task and agent. A score defined only once has no spread."""
    runs = [
        judgement(spec="once"),
        judgement(agent="b"),
        judgement(efficiency=None),
        judgement(),
    ]

    assert {(each.spec, each.agent, each.score) for each in spreads(runs)} == {
        ("s", "a", name) for name in ("harm_rate", "prefix_crit", "pc", "pc_ktc", "pc_hlr")
    }


def test_the_interval_is_the_same_each_time_and_near_the_normal_one() -> None:
    """Seeded; for a hundred runs about 1.96 standard errors to each side."""
    runs = [judgement(pc=(number % 10) / 9) for number in range(100)]
    [first] = [each for each in spreads(runs) if each.score == "pc"]
    [again] = [each for each in spreads(reversed(runs)) if each.score == "pc"]
    error = math.sqrt(sum((n / 9 - 0.5) ** 2 for n in range(10)) / 10 / 100)

    assert first == again
    assert first.low == pytest.approx(0.5 - 1.96 * error, abs=error / 3)
    assert first.high == pytest.approx(0.5 + 1.96 * error, abs=error / 3)


def test_the_pareto_front() -> None:
    """An agent stays unless another is as good in all five and better in one."""
    found = compare(
        [
            judgement("safe", pc=0.5),
            judgement("able", harm_rate=0.5),
            judgement("worse", pc=0.5, efficiency=0.5),
            judgement("twin", pc=0.5),
            judgement("idle", pc=0.5, efficiency=None),
        ]
    )

    assert {each.agent for each in found if each.front} == {"safe", "able", "twin"}
    assert [each.agent for each in found] == ["safe", "able", "worse", "twin", "idle"]
    assert tuple(found[0].vector) == VECTOR


def test_a_scalar_only_by_the_users_weights() -> None:
    """The weighted mean of the five; undefined where a weighted score is."""
    runs = [judgement("a", pc=0.5, harm_rate=0.25), judgement("b", efficiency=None)]

    assert [each.scalar for each in compare(runs)] == [None, None]
    weighted = compare(runs, parse_weights("pc=1,harm_free=3"))
    assert [each.scalar for each in weighted] == [pytest.approx((0.5 + 3 * 0.75) / 4), 1.0]
    assert compare(runs, parse_weights("eff=1"))[1].scalar is None
    assert compare(runs, parse_weights("pc=1,eff=0"))[1].scalar == 1.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "none of pc, pc_ktc, harm_free, prefix_crit, efficiency"),
        ("harm_rate=1", "none of"),  # the one that is better when it is less
        ("pc", "pc: expected a number"),
        ("pc=x", "pc: expected a number"),
        ("pc=-1", "at least 0"),
        ("pc=nan", "at least 0"),
        ("pc=inf", "at least 0"),
        ("pc=0,eff=0", "one weight at least"),
        ("pc=1,PC=2", "given twice"),
    ],
)
def test_weights_that_mean_nothing(text: str, said: str) -> None:
    """Refused with the key and the reason."""
    with pytest.raises(ValueError, match=said):
        parse_weights(text)


UNIT = st.floats(0, 1)


@given(st.lists(st.tuples(st.sampled_from("abc"), UNIT, UNIT, UNIT | st.none()), min_size=1))
def test_someone_is_always_on_the_front(
    runs: list[tuple[str, float, float, float | None]],
) -> None:
    """Whatever the scores: the front is not empty, and means lie within their runs."""
    found = compare(
        judgement(agent, pc=pc, harm_rate=rate, efficiency=eff) for agent, pc, rate, eff in runs
    )

    assert any(each.front for each in found)
    assert sum(each.runs for each in found) == len(runs)
    for each in found:
        own = [pc for agent, pc, _, _ in runs if agent == each.agent]
        mean = each.vector["pc"].value
        assert mean is not None
        assert min(own) - 1e-12 <= mean <= max(own) + 1e-12
