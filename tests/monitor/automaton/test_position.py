"""Positions: one state while all is known, a set with costs where it is not."""

from __future__ import annotations

from itertools import pairwise

from monitor.automaton.dfa import build
from monitor.automaton.position import COST_MAX, Position, StepEffect, SteppedToken, Stepper

A, B, AB, NOTHING, FAILED_A = range(5)
"""Tokens: two symbols, one that may be either, one that matches nothing, a failed one."""

CHAIN = build(
    ["s", "t", "u"],
    ["a", "b"],
    "s",
    ["u"],
    {("s", "a"): "t", ("t", "b"): "u", ("t", "a"): "t"},
)


def stepper(*, open_world: bool = False) -> Stepper:
    return Stepper(
        CHAIN,
        [
            SteppedToken((0,)),
            SteppedToken((1,)),
            SteppedToken((0, 1), certain=False),
            SteppedToken(()),
            SteppedToken((0,), effect=False),
        ],
        open_world=open_world,
    )


def at(costs: dict[int, int]) -> Position:
    """The position in which the automaton's states have these costs."""
    return (
        tuple(
            sum(1 << state for state, cost in costs.items() if cost == each)
            for each in range(max(costs.values()) + 1)
        ),
    )


def test_a_defined_call_moves_or_loops() -> None:
    """Progress changes the state, a read leaves it."""
    assert stepper().step(0, A) == (1, StepEffect.PROGRESS)
    assert stepper().step(1, A) == (1, StepEffect.SELF_LOOP)


def test_an_undefined_call_is_harmful_and_moves_nothing() -> None:
    """A harmful call leaves the state as it is, so a later allowed call still progresses."""
    assert stepper().step(0, B) == (0, StepEffect.HARMFUL)
    assert stepper().step(0, NOTHING) == (0, StepEffect.HARMFUL)


def test_a_failed_call_without_effect_loops_only_where_it_is_defined() -> None:
    """A failed call that is allowed changes nothing; one that is not allowed is harmful."""
    assert stepper().step(0, FAILED_A) == (0, StepEffect.SELF_LOOP)
    assert stepper().step(2, FAILED_A) == (2, StepEffect.HARMFUL)


def test_an_uncertain_call_widens_the_position() -> None:
    """If two readings are defined, both targets are possible, at no cost."""
    assert stepper().step(1, AB) == (at({1: 0, 2: 0}), StepEffect.PROGRESS)


def test_an_uncertain_call_is_harmful_only_where_no_reading_is_defined() -> None:
    """With one defined reading no harm is claimed; the other readings cost one harm."""
    assert stepper().step(0, AB) == (at({1: 0, 0: 1}), StepEffect.PROGRESS)
    assert stepper().step(2, AB) == (2, StepEffect.HARMFUL)


def test_the_least_cost_decides() -> None:
    """A call that one possible state allows is not harmful; the states that refuse it gain a cost."""
    assert stepper().step(at({0: 0, 1: 0}), B) == (at({2: 0, 0: 1}), StepEffect.PROGRESS)


def test_a_state_that_is_reached_at_two_costs_has_the_lesser_one() -> None:
    """Two costs that lead to one state leave that state, certain, at the lesser cost."""
    assert stepper().step(at({1: 0, 2: 0}), B) == (2, StepEffect.PROGRESS)


def test_a_call_refused_everywhere_raises_the_least_cost() -> None:
    """When every reading has a harm more, the call was harmful, whatever the truth."""
    position, outcome = stepper().step(at({0: 0, 2: 1}), B)

    assert outcome is StepEffect.HARMFUL
    assert position == at({0: 0, 2: 1})


def test_readings_far_behind_are_kept() -> None:
    """A state many harms behind stays possible, at a cost that is bounded: it may be the truth."""
    position: Position = at({1: 0, 2: COST_MAX})
    for _ in range(3):
        position, outcome = stepper().step(position, A)
        assert outcome is StepEffect.SELF_LOOP
        assert position == at({1: 0, 2: COST_MAX})


def test_what_a_call_may_have_been_is_said_over_all_states() -> None:
    """A harm is of this very call only where no state and no reading allows it."""
    assert stepper().chances(at({0: 0, 2: 1}), B) == (False, True)
    assert stepper().step(at({0: 0, 1: 1}), B).effect is StepEffect.HARMFUL
    assert stepper().chances(at({0: 0, 1: 1}), B) == (True, True)
    assert stepper().chances(1, A) == (True, False)
    assert stepper(open_world=True).chances(at({0: 0, 2: 1}), NOTHING) == (True, False)


def test_an_open_world_passes_what_it_does_not_name() -> None:
    """Under a policy, a call without a symbol changes nothing, and an uncertain call may have none."""
    assert stepper(open_world=True).step(0, NOTHING) == (0, StepEffect.SELF_LOOP)
    assert stepper(open_world=True).step(2, AB) == (2, StepEffect.SELF_LOOP)
    assert stepper(open_world=True).step(0, B) == (0, StepEffect.HARMFUL)


def test_joining_in_the_middle_starts_from_all_reachable_states() -> None:
    """A joined session starts in all states. A call that none of them allows is harmful."""
    assert stepper().anywhere() == at({0: 0, 1: 0, 2: 0})

    names = [f"q{number}" for number in range(3_000)]
    edges = {(name, "a"): after for name, after in pairwise(names)}
    large = build(names, ["a", "b"], "q0", [names[-1]], edges)
    wide = Stepper(large, [SteppedToken((0,)), SteppedToken((1,))], open_world=False)
    position, outcome = wide.step(wide.anywhere(), A)
    assert outcome is StepEffect.PROGRESS
    assert wide.likely_count(position) == 2_999
    assert wide.step(position, B) == (position, StepEffect.HARMFUL)


def test_a_union_keeps_what_each_position_costs() -> None:
    """A state with two costs has the lesser one, and other costs stay."""
    assert stepper().union([1, 2]) == at({1: 0, 2: 0})
    assert stepper().union([1, 2, at({0: 0, 1: 1})], [0, 3, 1]) == at({1: 0, 0: 1, 2: 3})
    assert stepper().union([1, 1], [0, 2]) == 1
