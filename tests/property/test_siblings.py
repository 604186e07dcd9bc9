"""Overlapping calls: the search finds what trying every order finds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from hypothesis import assume, given
from hypothesis import strategies as st

from monitor.automaton.dfa import Automaton, build
from monitor.automaton.position import Position, StepEffect, SteppedToken, Stepper
from monitor.session.judge.judge import Judge
from monitor.session.overlap.chains import spans_of
from monitor.session.overlap.order import broken, order
from monitor.spec.compiler.compile import compile_text

Tokens = Sequence[int]
Times = Sequence[tuple[int, int]]

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

PAIRS = (
    *("precedence", "alternate_precedence", "chain_precedence"),
    *("response", "alternate_response", "chain_response"),
    *("succession", "alternate_succession", "chain_succession"),
    *("not_succession", "not_chain_succession"),
    *("not_co_existence", "co_existence", "exclusive_choice"),
)
LETTERS = "abcdefg"


@st.composite
def policies(draw: st.DrawFn) -> Stepper:
    """Up to four constraints over seven symbols, so that some calls are independent."""
    pair = st.lists(st.sampled_from(LETTERS), min_size=2, max_size=3, unique=True)
    texts = []
    for _ in range(draw(st.integers(1, 4))):
        first, *rest = draw(pair)
        at_most = f"{{at_most: [{first}, {draw(st.integers(1, 3))}]}}"
        template = draw(st.sampled_from([*PAIRS, "init"]))
        then = f"{{{template}: [{first}, [{', '.join(rest)}]]}}"
        begun = f"{{init: {first}}}"
        texts.append(draw(st.sampled_from([at_most, begun if template == "init" else then])))
    text = f"""
id: p
kind: policy
alphabet: {{{", ".join(f"{each}: {{tool: {each}, arguments: {{n: 1}}}}" for each in LETTERS)}}}
constraints: [{", ".join(texts)}]
"""
    spec, _ = compile_text(text, "p.yaml")
    assume(spec is not None)
    assert spec is not None
    return Judge(spec).stepper


@st.composite
def groups(draw: st.DrawFn, stepper: Stepper, most: int) -> tuple[Position, Tokens, Times]:
    """A position, and calls in start order: all at once, or spread so that some precede others."""
    tokens = st.sampled_from(range(len(stepper.kinds)))
    position = stepper.anywhere() if draw(st.integers(0, 7)) == 0 else stepper.start()
    for token in draw(st.lists(tokens, max_size=4)):
        position = stepper.step(position, token)[0]
    spread = draw(st.sampled_from([0, 2, 8]))
    times = st.tuples(st.integers(0, spread), st.integers(0, 6))
    made = draw(st.lists(st.tuples(times, tokens), min_size=1, max_size=most))
    made = sorted(((start, start + length), token) for (start, length), token in made)
    return position, [token for _, token in made], [each for each, _ in made]


def plain(
    stepper: Stepper, position: Position, tokens: Tokens, times: Times, *, strict: bool
) -> tuple[int, tuple[int, ...], Position]:
    """A program over all subsets of the calls: the best path to each end."""
    after = [
        {place for place, (_, end) in enumerate(times[:own]) if end <= start}
        for own, (start, _) in enumerate(times)
    ]
    sign = -1 if strict else 1
    layer: dict[tuple[frozenset[int], Position], tuple[int, tuple[int, ...]]] = {
        (frozenset(), position): (0, ())
    }
    for _ in tokens:
        following: dict[tuple[frozenset[int], Position], tuple[int, tuple[int, ...]]] = {}
        for (done, before), (cost, places) in layer.items():
            for place, token in enumerate(tokens):
                if place in done or not after[place] <= done:
                    continue
                end, outcome = stepper.step(before, token)
                path = (cost + sign * (outcome is StepEffect.HARMFUL), (*places, place))
                key = (done | {place}, end)
                following[key] = min(path, following.get(key, path))
        layer = following
    cost = min(path[0] for path in layer.values())
    best = {end: path[1] for (_, end), path in layer.items() if path[0] == cost}
    places = min(best.values())
    worst = next(end for end, each in best.items() if each == places)
    return abs(cost), places, worst if strict else stepper.union(best)


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
            harms += outcome is StepEffect.HARMFUL
        tried.append((harms, places, position))
    wanted = (max if strict else min)(harms for harms, _, _ in tried)
    best = [(places, end) for harms, places, end in tried if harms == wanted]
    places, end = min(best, key=lambda found: found[0])
    return wanted, places, end if strict else stepper.union({end for _, end in best})


@given(automata(), calls, st.booleans())
def test_the_program_equals_trying_every_order(
    automaton: Automaton, made: list[tuple[int, int, int]], strict: bool
) -> None:
    """Both find the same order and end, for the fewest harms and for the most."""
    made = sorted(made, key=lambda call: (call[1], call[1] + call[2]))
    tokens = [token for token, _, _ in made]
    times = [(start, start + duration) for _, start, duration in made]
    stepper = Stepper(
        automaton, [SteppedToken(each) for each in ((0,), (1,), (2,), ())], open_world=False
    )
    found = order(stepper, stepper.start(), tokens, spans_of(times), strict=strict)

    _, places, end = brute(stepper, tokens, times, strict=strict)
    assert found.places == places
    assert found.end == end


@given(st.data(), st.booleans())
def test_what_is_not_tried_is_not_missed(data: st.DataObject, strict: bool) -> None:
    """Same order and same end as of the program over all subsets, from any position."""
    automaton = automata().map(
        lambda drawn: Stepper(
            drawn,
            [
                *[SteppedToken(each) for each in ((0,), (1,), (2,), ())],
                SteppedToken((0,), effect=False),
                SteppedToken((0, 1), certain=False),
            ],
            open_world=data.draw(st.booleans()),
        )
    )
    stepper = data.draw(st.one_of(policies(), automaton))
    position, tokens, times = data.draw(groups(stepper, 7))
    found = order(stepper, position, tokens, spans_of(times), strict=strict)
    _, places, end = plain(stepper, position, tokens, times, strict=strict)

    assert (found.places, found.end, found.whole) == (places, end, True)


@given(st.data())
def test_a_constraint_by_itself_tells_whether_any_order_is_harmful(
    data: st.DataObject,
) -> None:
    """Where each call has one reading, an order with a harm is found exactly where there is one."""
    stepper = data.draw(policies())
    certain = [token for token, heeds in enumerate(stepper.heeds) if heeds >= 0]
    position, tokens, times = data.draw(groups(stepper, 7))
    tokens = [token if token in certain else certain[0] for token in tokens]
    if not isinstance(position, int):
        position = stepper.start()
    harms, _, _ = plain(stepper, position, tokens, times, strict=True)
    found = broken(stepper, position, tokens, spans_of(times))

    assert (found is not None) == (harms > 0)


@given(st.data(), st.booleans())
def test_a_group_of_any_size_has_an_order_that_may_have_been(
    data: st.DataObject, strict: bool
) -> None:
    """The order keeps "ended before it started", is no worse than the start order, and gives the end."""
    stepper = data.draw(policies())
    position, tokens, times = data.draw(groups(stepper, 70))
    found = order(stepper, position, tokens, spans_of(times), strict=strict)
    stood = {place: number for number, place in enumerate(found.places)}
    harms = {}
    for name, places in (("taken", found.places), ("started", range(len(tokens)))):
        end, harms[name] = position, 0
        for place in places:
            end, outcome = stepper.step(end, tokens[place])
            harms[name] += outcome is StepEffect.HARMFUL
        if strict and name == "taken":
            assert found.end == end

    assert sorted(stood) == list(range(len(tokens)))
    for own, (start, _) in enumerate(times):
        ended = (place for place, (_, end) in enumerate(times[:own]) if end <= start)
        assert all(stood[place] < stood[own] for place in ended)
    sign = -1 if strict else 1
    assert sign * harms["taken"] <= sign * harms["started"]
