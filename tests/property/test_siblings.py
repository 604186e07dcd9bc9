"""Overlapping calls: the program over subsets is what trying every order would give."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.automaton.dfa import Automaton, build
from monitor.automaton.position import Outcome, Position, Stepper, union
from monitor.session.siblings import order

STATES, SYMBOLS = ("p", "q", "r"), ("a", "b", "c")


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    edges = draw(
        st.dictionaries(
            st.tuples(st.sampled_from(STATES), st.sampled_from(SYMBOLS)),
            st.sampled_from(STATES),
        )
    )
    return build(STATES, SYMBOLS, "p", ["r"], edges)


calls = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=5
)
"""(token, start, duration); token 3 matches nothing."""


def brute(
    stepper: Stepper,
    tokens: list[int],
    times: list[tuple[int, int]],
    *,
    strict: bool,
) -> tuple[int, tuple[int, ...], Position]:
    """Every order that keeps "ended before it started", tried out."""
    tried: list[tuple[int, tuple[int, ...], Position]] = []
    for places in permutations(range(len(tokens))):
        broken = any(
            later < earlier and times[later][1] <= times[earlier][0]
            for index, earlier in enumerate(places)
            for later in places[index + 1 :]
        )
        if broken:
            continue
        position: Position = stepper.start()
        harms = 0
        for place in places:
            position, outcome = stepper.step(position, tokens[place])
            harms += outcome is Outcome.HARMFUL
        tried.append((harms, places, position))
    wanted = (max if strict else min)(harms for harms, _, _ in tried)
    best = [(places, end) for harms, places, end in tried if harms == wanted]
    places, end = min(best, key=lambda found: found[0])
    return wanted, places, end if strict else union({end for _, end in best})


@settings(max_examples=150, deadline=None)
@given(automata(), calls, st.booleans())
def test_the_program_equals_trying_every_order(
    automaton: Automaton, made: list[tuple[int, int, int]], strict: bool
) -> None:
    """Same order taken, same end, for the fewest harms and for the most."""
    made = sorted(made, key=lambda call: (call[1], call[1] + call[2]))
    tokens = [token for token, _, _ in made]
    times = [(start, start + duration) for _, start, duration in made]
    stepper = Stepper(
        automaton, [(0,), (1,), (2,), ()], [True] * 4, [True] * 4, open_world=False
    )
    found = order(stepper, stepper.start(), tokens, times, strict=strict)

    _, places, end = brute(stepper, tokens, times, strict=strict)
    assert found.places == places
    assert found.end == end
