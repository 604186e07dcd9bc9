"""Positions: one state while all is known, a set with costs where it is not."""

from __future__ import annotations

from itertools import pairwise

from monitor.automaton.dfa import build
from monitor.automaton.position import ANYWHERE, STATES_MAX, Outcome, Stepper, likely

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
        readings=[(0,), (1,), (0, 1), (), (0,)],
        effects=[True, True, True, True, False],
        certain=[True, True, False, True, True],
        open_world=open_world,
    )


def test_a_defined_call_moves_or_loops() -> None:
    """Progress changes the state, a read leaves it."""
    assert stepper().step(0, A) == (1, Outcome.PROGRESS)
    assert stepper().step(1, A) == (1, Outcome.SELF_LOOP)


def test_an_undefined_call_is_harmful_and_moves_nothing() -> None:
    """Harm leaves the state, so that a later valid call still progresses."""
    assert stepper().step(0, B) == (0, Outcome.HARMFUL)
    assert stepper().step(0, NOTHING) == (0, Outcome.HARMFUL)


def test_a_failed_call_without_effect_loops_only_where_it_is_defined() -> None:
    """A failed call that is allowed changes nothing; one that is not is harmful as ever."""
    assert stepper().step(0, FAILED_A) == (0, Outcome.SELF_LOOP)
    assert stepper().step(2, FAILED_A) == (2, Outcome.HARMFUL)


def test_an_uncertain_call_widens_the_position() -> None:
    """Where two readings are defined, both targets are possible, at no cost."""
    assert stepper().step(1, AB) == (((1, 0), (2, 0)), Outcome.PROGRESS)


def test_an_uncertain_call_is_harmful_only_where_no_reading_is_defined() -> None:
    """One defined reading is enough to claim no harm."""
    assert stepper().step(0, AB) == (1, Outcome.PROGRESS)
    assert stepper().step(2, AB) == (2, Outcome.HARMFUL)


def test_the_least_cost_decides() -> None:
    """A call refused in one likely state, allowed in another, costs the first and harms none."""
    position, outcome = stepper().step(((1, 0), (2, 0)), B)

    assert outcome is Outcome.PROGRESS
    assert position == 2


def test_a_call_refused_everywhere_raises_the_least_cost() -> None:
    """When every reading has a harm more, the call was harmful, whatever the truth."""
    position, outcome = stepper().step(((0, 0), (2, 1)), B)

    assert outcome is Outcome.HARMFUL
    assert position == ((0, 0), (2, 1))


def test_readings_far_behind_are_dropped() -> None:
    """A state that needs three harms more than another is no longer believed."""
    position, outcome = stepper().step(((0, 0), (2, 2)), A)

    assert outcome is Outcome.PROGRESS
    assert position == 1


def test_an_open_world_passes_what_it_does_not_name() -> None:
    """Under a policy an unmatched call changes nothing, an uncertain one may be none at all."""
    assert stepper(open_world=True).step(0, NOTHING) == (0, Outcome.SELF_LOOP)
    assert stepper(open_world=True).step(2, AB) == (2, Outcome.SELF_LOOP)
    assert stepper(open_world=True).step(0, B) == (0, Outcome.HARMFUL)


def test_anywhere_claims_only_what_holds_everywhere() -> None:
    """With too many states only a call that matches nothing is certain to be harmful."""
    assert stepper().step(ANYWHERE, B) == (ANYWHERE, Outcome.SELF_LOOP)
    assert stepper().step(ANYWHERE, NOTHING) == (ANYWHERE, Outcome.HARMFUL)
    assert likely(ANYWHERE) == ()


def test_joining_in_the_middle_starts_from_all_reachable_states() -> None:
    """All of a small automaton's states, or anywhere in a large one."""
    assert stepper().anywhere() == ((0, 0), (1, 0), (2, 0))

    names = [f"q{number}" for number in range(STATES_MAX + 1)]
    edges = {(name, "a"): after for name, after in pairwise(names)}
    large = build(names, ["a"], "q0", [names[-1]], edges)
    wide = Stepper(large, [(0,)], [True], [True], open_world=False)
    assert wide.anywhere() == ANYWHERE
