"""All words up to a length over all partial automata with at most 3 states and 2 symbols.

Up to renaming: the initial state is fixed and the others are numbered in the order in which a
walk finds them. A state the walk never finds changes no word, so its automaton is one with fewer
states. That leaves 865 tables, 445 when the two symbols may swap names as well; with every
choice of accepting states 6,716 and 3,446 automata. Words have up to 6 symbols, with three states up to 4: `make test-long`
takes those of 6, too, and the twins. Every node of a word tree is compared; batch values are kept by what they depend on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from monitor.automaton.dfa import UNDEFINED, Automaton
from monitor.records import Kind
from monitor.scores import paper_formulas, refine
from monitor.scores.running_scores import Goldens, HarmTally, PathRows, efficiency

SYMBOLS = 2
CLOSE = 1e-12
Tokens = tuple[int, ...]
Steps = tuple[paper_formulas.PathStep, ...]


def numbered(states: int, table: Tokens) -> Tokens:
    """The table with its states in the order of the walk; () where the walk misses one."""
    order = [0]
    for state in order:
        row = table[state * SYMBOLS : (state + 1) * SYMBOLS]
        order += [t for t in dict.fromkeys(row) if t != UNDEFINED and t not in order]
    number = {UNDEFINED: UNDEFINED} | {state: place for place, state in enumerate(order)}
    if len(order) < states:
        return ()
    return tuple(number[table[s * SYMBOLS + a]] for s in order for a in range(SYMBOLS))


def swapped(states: int, table: Tokens) -> Tokens:
    """The table with its two symbols' names exchanged."""
    return tuple(table[s * SYMBOLS + a] for s in range(states) for a in (1, 0))


def automata(states: int, *, least: bool) -> Iterator[Automaton]:
    """Of each automaton and its swapped twin the lesser one, or else the greater."""
    names = tuple(f"q{n}" for n in range(states))
    for table in product(range(UNDEFINED, states), repeat=states * SYMBOLS):
        twin = numbered(states, swapped(states, table))
        if numbered(states, table) != table or (table <= twin) != least:
            continue
        for choice in product([False, True], repeat=states):
            accepting = frozenset(n for n, accepts in enumerate(choice) if accepts)
            yield Automaton(names, ("a", "b"), 0, accepting, table)


class Walk:
    """One automaton's word tree, the running scores beside the batch ones at every node."""

    batch: dict[object, tuple[float, ...]] = {}  # noqa: RUF012 - shared by all walks
    refined: dict[object, float] = {}  # noqa: RUF012 - shared by all walks

    def __init__(self, automaton: Automaton, length: int) -> None:
        self.automaton = automaton
        self.length = length
        self.golden = paper_formulas.golden_paths(automaton)
        self.goldens = Goldens(self.golden)
        self.suffixes = [
            frozenset(paper_formulas.golden_suffixes(automaton, self.golden, state))
            for state in range(len(automaton.states))
        ]
        self.reads = [automaton.reads(state) for state in range(len(automaton.states))]
        self.efficiencies = [
            paper_formulas.efficiency(n, self.golden) for n in range(length + 1)
        ]
        self.words = 0

    def all_words(self) -> int:
        tally, rows = HarmTally(0.5), PathRows(self.goldens)
        self.compare((), 0, tally, rows)
        self.node((), (), 0, tally, rows)
        return self.words

    def node(
        self, word: Tokens, kept: Steps, state: int, tally: HarmTally, rows: PathRows
    ) -> None:
        """One word, already compared, and all that start with it."""
        self.words += 1
        assert tally.calls == len(word)
        assert efficiency(len(word), self.goldens.lengths, None) == self.efficiencies[len(word)]
        if len(word) == self.length:
            assert kept == paper_formulas.condense(paper_formulas.label(self.automaton, word))
            return
        for token in range(SYMBOLS):
            target = self.automaton.step(state, token)
            after = state if target == UNDEFINED else target
            counts, grown, steps = tally.copy(), rows, kept
            if target == state:
                counts.self_loop()
            else:
                kind = Kind.HARMFUL if target == UNDEFINED else Kind.PROGRESS
                getattr(counts, kind.value)()
                grown = rows.copy()
                grown.add(token)
                steps = (*kept, paper_formulas.PathStep(token, kind, state, after))
                self.compare(steps, after, counts, grown)
            self.node((*word, token), steps, after, counts, grown)

    def compare(self, kept: Steps, state: int, tally: HarmTally, rows: PathRows) -> None:
        x, harm = paper_formulas.tokens(kept), paper_formulas.harm_mask(kept)
        rate, crit, pc, ktc = self.expected(x, harm)
        assert abs(tally.harm_rate - rate) <= CLOSE
        assert abs(tally.prefix_crit - crit) <= CLOSE
        assert abs(rows.pc() - pc) <= CLOSE
        assert abs(rows.pc_ktc(0.5, 0.5) - ktc) <= CLOSE
        assert (pc == 1.0) == (x in self.golden)
        assert pc <= self.refinement(x, kept, state) + CLOSE

    def expected(self, x: Tokens, harm: tuple[bool, ...]) -> tuple[float, ...]:
        key = (x, harm, self.golden)
        if key not in self.batch:
            self.batch[key] = (
                paper_formulas.harm_rate(harm),
                paper_formulas.prefix_crit(harm),
                paper_formulas.path_correctness(x, self.golden),
                paper_formulas.path_correctness_ktc(x, self.golden),
            )
        return self.batch[key]

    def refinement(self, x: Tokens, kept: Steps, state: int) -> float:
        """PC+HLR by the program, compared with the list once per case."""
        harm = paper_formulas.harm_mask(kept)
        before = [step.before for step in kept]
        reads = tuple(self.reads[s] for s, bad in zip(before, harm, strict=True) if bad)
        key = (x, harm, reads, self.suffixes[state], self.golden)
        if key not in self.refined:
            found = refine.pc_hlr(self.automaton, self.golden, x, before, harm, state)
            listed = paper_formulas.path_correctness_hlr(self.automaton, kept, self.golden)
            assert abs(found - listed) <= CLOSE
            self.refined[key] = found
        return self.refined[key]


def _words(states: int, length: int, *, least: bool) -> list[int]:
    return [Walk(each, length).all_words() for each in automata(states, least=least)]


@pytest.mark.parametrize(
    ("states", "length", "count"),
    [(1, 6, 6), (2, 6, 96), (3, 3, 3344), pytest.param(3, 6, 3344, marks=pytest.mark.long)],
)
def test_every_word_on_every_small_automaton(states: int, length: int, count: int) -> None:
    """Running, batch and refined scores agree on all words, up to names of states and symbols."""
    assert _words(states, length, least=True) == [2 ** (length + 1) - 1] * count


@pytest.mark.long
@pytest.mark.parametrize(("states", "count"), [(1, 2), (2, 84), (3, 3184)])
def test_every_word_with_the_symbols_swapped(states: int, count: int) -> None:
    """The same holds where the two symbols have each other's names."""
    assert _words(states, 6, least=False) == [2**7 - 1] * count
