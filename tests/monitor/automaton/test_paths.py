"""Questions about graphs, against brute force on small random automata."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.automaton import paths
from monitor.automaton.dfa import UNDEFINED, Automaton, build
from monitor.spec.constraints import parse, side_by_side


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    """Any partial automaton of up to 5 states and 3 symbols."""
    states = draw(st.integers(1, 5))
    symbols = draw(st.integers(1, 3))
    targets = st.integers(UNDEFINED, states - 1)
    return Automaton(
        states=tuple(f"q{index}" for index in range(states)),
        symbols=tuple("abc"[:symbols]),
        initial=0,
        accepting=frozenset(draw(st.sets(st.integers(0, states - 1)))),
        table=tuple(
            draw(st.lists(targets, min_size=states * symbols, max_size=states * symbols))
        ),
    )


def walk(automaton: Automaton, state: int, word: tuple[int, ...]) -> list[int] | None:
    """States along the word, or None where it is harmful or holds a read."""
    trail = [state]
    for symbol in word:
        target = automaton.step(trail[-1], symbol)
        if target in {UNDEFINED, trail[-1]}:
            return None
        trail.append(target)
    return trail


def words(automaton: Automaton) -> list[tuple[int, ...]]:
    """All words shorter than the number of states, the shortest first, in declaration order."""
    letters = range(len(automaton.symbols))
    return [
        word
        for length in range(len(automaton.states))
        for word in product(letters, repeat=length)
    ]


def brute_golden(automaton: Automaton) -> set[tuple[int, ...]]:
    trails = {word: walk(automaton, automaton.initial, word) for word in words(automaton)}
    return {
        word
        for word, trail in trails.items()
        if trail and automaton.accepts(trail[-1]) and len(set(trail)) == len(trail)
    }


@given(automata())
def test_golden_paths_are_brute_forces(automaton: Automaton) -> None:
    """The golden paths are all accepting words of progress that visit no state twice, each once."""
    wanted = brute_golden(automaton)
    found = paths.golden_paths(automaton, 10_000)
    assert set(found) == wanted
    assert len(found) == len(wanted) == paths.count_golden(automaton, 10_000)
    assert found == tuple(sorted(found))
    assert paths.golden_lengths(automaton, 10_000) == tuple(sorted({len(w) for w in wanted}))
    assert paths.golden_paths(automaton, 2) == found[:2]


@given(automata(), st.data())
def test_shortest_way_is_brute_forces(automaton: Automaton, data: st.DataObject) -> None:
    """The result is the first of the shortest words of progress to a state that defines the symbol."""
    states = range(len(automaton.states))
    sources = data.draw(st.lists(st.sampled_from(states), min_size=1, max_size=2, unique=True))
    symbol = data.draw(st.sampled_from(range(len(automaton.symbols))))
    ways = [
        (len(word), place, word)
        for place, source in enumerate(sources)
        for word in words(automaton)
        if (trail := walk(automaton, source, word)) is not None
        and automaton.step(trail[-1], symbol) != UNDEFINED
    ]
    wanted = min(ways)[2] if ways else None
    found = paths.shortest_way(automaton, tuple(sources), symbol)
    assert (found is None) == (wanted is None)
    if found is not None and wanted is not None:
        assert len(found) == len(wanted)
        if len(sources) == 1:
            assert found == wanted
    assert (wanted is not None) == any(
        symbol in paths.reachable_symbols(automaton, source) for source in sources
    )


@given(automata())
def test_shape_is_brute_forces(automaton: Automaton) -> None:
    """Reachable and dead states, and cycles of progress edges, by their definitions."""

    def ahead(state: int) -> set[int]:
        trails = (walk(automaton, state, word) for word in words(automaton))
        return {trail[-1] for trail in trails if trail}

    reached = ahead(automaton.initial)
    assert set(paths.reachable(automaton, (automaton.initial,)) or ()) == reached
    dead = {state for state in reached if not any(map(automaton.accepts, ahead(state)))}
    assert set(paths.dead_states(automaton)) == dead
    together = {
        (one, other)
        for one, other in product(reached, repeat=2)
        if one != other and other in ahead(one) and one in ahead(other)
    }
    groups = paths.progress_cycles(automaton)
    pairs = {(a, b) for group in groups for a, b in product(group, repeat=2) if a != b}
    assert pairs == together


def ladder(rungs: int, symbols: str = "ab") -> Automaton:
    """A row of states with an edge per symbol to the next: len(symbols) ** rungs golden paths."""
    names = [f"q{index}" for index in range(rungs + 1)]
    edges = {(names[i], letter): names[i + 1] for i in range(rungs) for letter in symbols}
    return build(names, symbols, names[0], [names[-1]], edges)


def dense(size: int, *, accepting: bool = True) -> Automaton:
    """Every state leads to every other: more simple paths than can ever be listed."""
    names = [f"q{index}" for index in range(size)]
    edges = {(a, f"to {b}"): b for a in names for b in names if a != b}
    ends = [names[-1]] if accepting else [names[0]]
    return build(names, [f"to {name}" for name in names], names[0], ends, edges)


def test_counts_without_cycles_are_exact() -> None:
    """An acyclic graph is counted without listing, however many paths it has."""
    assert paths.count_golden(ladder(13), 10_000) == 8_192
    assert paths.count_golden(ladder(40), 10_000) == 2**40
    assert paths.count_golden(ladder(5_000), 10_000) == paths.COUNT_MAX
    assert paths.golden_lengths(ladder(5_000), 10_000) == (5_000,)
    assert len(paths.golden_paths(ladder(5_000), 64)) == 64


@pytest.mark.timeout(20)
def test_dense_graphs_do_not_blow_up() -> None:
    """Counting and listing stop at their bounds on graphs with factorially many paths."""
    assert paths.count_golden(dense(100), 10_000) == 10_001
    assert len(paths.golden_paths(dense(100), 64)) == 64
    assert paths.count_golden(dense(100, accepting=False), 10_000) == 10_001
    assert paths.progress_cycles(dense(50)) == (tuple(range(50)),)


@pytest.mark.plain
def test_search_that_finds_nothing_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the work bound is reached the answer is "too many", never a wrong small number."""
    monkeypatch.setattr(paths, "EDGES_MAX", 50)
    lonely = dense(8, accepting=False)  # only the empty word is golden, but all is tried
    assert paths.count_golden(lonely, 10_000) == 10_001
    assert paths.golden_paths(lonely, 64) == ((),)


def test_too_many_states_are_given_up() -> None:
    """Machines made as they are stepped are searched within a bound, and answers stay safe."""
    symbols = tuple(f"s{index}" for index in range(30))
    raw = [{"precedence": [symbols[i], symbols[i + 1]]} for i in range(0, 30, 2)]
    machine = side_by_side(symbols, [each for one in raw for each in parse(one, symbols)])
    assert paths.reachable(machine, (machine.initial,)) is None
    assert paths.reachable_symbols(machine, machine.initial) == frozenset(range(30))
    assert paths.shortest_way(machine, (machine.initial,), 1) == (0,)
    assert paths.count_golden(machine, 10) == 11
    assert paths.golden_paths(machine, 10) == ()
    assert paths.golden_lengths(machine, 10) == ()
    assert paths.dead_states(machine) == ()
    assert paths.progress_cycles(machine) == ()


def test_ways_are_remembered_by_machine() -> None:
    """Equal questions about different machines do not share an answer."""
    one, other = ladder(2), ladder(3)
    assert paths.shortest_way(one, (0,), 0) == ()
    assert paths.shortest_way(other, (3,), 0) is None
    assert paths.shortest_way(one, (2,), 0) is None
