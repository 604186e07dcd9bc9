"""Laws of the scores on random automata, paths, failures and conventions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor.automaton.dfa import UNDEFINED, Automaton
from monitor.records import Conventions, Kind
from monitor.scores import paper_formulas, refine
from monitor.scores.many import path_scores
from monitor.scores.running_scores import Goldens, HarmTally, PathRows, efficiency

CLOSE = 1e-12
PATH_MAX = 7


@st.composite
def automata(draw: st.DrawFn, states_max: int = 4) -> Automaton:
    """A random table, or a task's shape: a row of progress edges with reads on the way."""
    states, symbols = draw(st.integers(1, states_max)), draw(st.integers(1, 3))
    targets = st.integers(UNDEFINED, states - 1)
    table = draw(st.lists(targets, min_size=states * symbols, max_size=states * symbols))
    accepting = draw(st.frozensets(st.integers(0, states - 1)))
    if draw(st.booleans()):
        table = [place // symbols if t != UNDEFINED else t for place, t in enumerate(table)]
        for state in range(states - 1):
            table[state * symbols + draw(st.integers(0, symbols - 1))] = state + 1
        accepting |= {states - 1}
    names, letters = tuple(f"q{n}" for n in range(states)), tuple("abc"[:symbols])
    return Automaton(names, letters, 0, accepting, tuple(table))


CONVENTIONS = st.builds(
    Conventions,
    failed_calls=st.sampled_from(["no_effect", "harmful", "ordinary"]),
    tau_below_two=st.sampled_from([0.0, 0.5]),
    undefined_efficiency=st.sampled_from([None, 0.0]),
    beta=st.floats(0.01, 0.99),
    lambda_=st.floats(0, 1),
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Automaton, list[int], list[bool], Conventions]:
    """An automaton, a path with foreign tokens, which calls failed, and the conventions."""
    automaton = draw(automata())
    path = draw(st.lists(st.integers(-1, len(automaton.symbols) - 1), max_size=PATH_MAX))
    failed = draw(st.lists(st.booleans(), min_size=len(path), max_size=len(path)))
    return automaton, path, failed, draw(CONVENTIONS)


def condensed(run: tuple[Automaton, list[int], list[bool], Conventions]) -> Any:
    automaton, path, failed, conventions = run
    return paper_formulas.condense(paper_formulas.label(automaton, path, failed, conventions))


def program(
    automaton: Automaton,
    golden: Sequence[paper_formulas.Path],
    kept: Sequence[paper_formulas.PathStep],
) -> float:
    end = kept[-1].after if kept else automaton.initial
    before = [step.before for step in kept]
    return refine.pc_hlr(
        automaton,
        golden,
        paper_formulas.tokens(kept),
        before,
        paper_formulas.harm_mask(kept),
        end,
    )


@given(runs())
def test_running_is_batch_on_every_prefix(
    run: tuple[Automaton, list[int], list[bool], Conventions],
) -> None:
    """After each call the accumulators hold the paper's values, under every convention."""
    automaton, path, failed, conventions = run
    golden = paper_formulas.golden_paths(automaton)
    goldens = Goldens(golden)
    tally, rows = HarmTally(conventions.beta), PathRows(goldens)
    steps = paper_formulas.label(automaton, path, failed, conventions)
    for n in range(len(path) + 1):
        if n:
            getattr(tally, steps[n - 1].kind.value)()
            if steps[n - 1].kind is not Kind.SELF_LOOP:
                rows.add(steps[n - 1].token)
        batch = paper_formulas.evaluate(automaton, path[:n], failed[:n], conventions, golden)

        assert (tally.calls, tally.substantive, tally.harmful_steps) == (
            batch.n,
            batch.substantive,
            batch.harmful,
        )
        assert abs(tally.harm_rate - batch.harm_rate) <= CLOSE
        assert abs(tally.prefix_crit - batch.prefix_crit) <= CLOSE
        assert abs(rows.pc() - batch.pc) <= CLOSE
        ktc = rows.pc_ktc(conventions.lambda_, conventions.tau_below_two)
        assert abs(ktc - batch.pc_ktc) <= CLOSE
        undefined = conventions.undefined_efficiency
        assert efficiency(n, goldens.lengths, undefined) == batch.efficiency


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=5),
    st.lists(st.integers(-1, 5), max_size=16),
    st.integers(0, 16),
)
def test_rows_follow_any_set_of_references(
    references: list[list[int]], path: list[int], cut: int
) -> None:
    """For any references (empty, repeated, equal), rows and their copies follow equations 4 and 5."""
    golden = [tuple(reference) for reference in references]
    rows = PathRows(Goldens(golden))
    for n, token in enumerate(path, start=1):
        older = rows
        if n == cut:
            rows = rows.copy()
        rows.add(token)

        assert abs(rows.pc() - paper_formulas.path_correctness(path[:n], golden)) <= CLOSE
        ktc = paper_formulas.path_correctness_ktc(path[:n], golden, 0.3, 0.0)
        assert abs(rows.pc_ktc(0.3, 0.0) - ktc) <= CLOSE
        assert older.length == (n - 1 if n == cut else n)


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=8),
    st.lists(st.integers(-1, 5), max_size=16),
    st.floats(0, 1),
)
def test_scores_against_many_references(
    references: list[list[int]], path: list[int], lambda_: float
) -> None:
    """The scores of a whole condensed path against any references are eqs. 4 and 5."""
    golden = [tuple(reference) for reference in references]
    pc, ktc = path_scores(path, golden, lambda_, 0.5)

    assert abs(pc - paper_formulas.path_correctness(path, golden)) <= CLOSE
    assert abs(ktc - paper_formulas.path_correctness_ktc(path, golden, lambda_, 0.5)) <= CLOSE


@given(runs())
def test_refinement_program_is_the_list(
    run: tuple[Automaton, list[int], list[bool], Conventions],
) -> None:
    """The program's PC+HLR is the best over all listed candidates, and never below PC."""
    automaton, kept = run[0], condensed(run)
    golden = paper_formulas.golden_paths(automaton)
    found = program(automaton, golden, kept)

    assert abs(found - paper_formulas.path_correctness_hlr(automaton, kept, golden)) <= CLOSE
    assert found >= paper_formulas.path_correctness(paper_formulas.tokens(kept), golden) - CLOSE


@given(runs())
def test_values_are_in_range(
    run: tuple[Automaton, list[int], list[bool], Conventions],
) -> None:
    """Every score of every path is between 0 and 1."""
    scores = paper_formulas.evaluate(*run)
    values = [scores.harm_rate, scores.prefix_crit, scores.pc, scores.pc_ktc, scores.pc_hlr]

    assert all(-CLOSE <= value <= 1 + CLOSE for value in values)
    assert scores.efficiency is None or 0 <= scores.efficiency <= 1
    assert scores.pc_hlr >= scores.pc - CLOSE


@given(runs())
def test_pc_is_one_exactly_on_golden_paths(
    run: tuple[Automaton, list[int], list[bool], Conventions],
) -> None:
    """PC = 1 iff the condensed path is golden; so then is PC+HLR."""
    golden = paper_formulas.golden_paths(run[0])
    scores = paper_formulas.evaluate(*run)

    assert (scores.pc == 1.0) == (paper_formulas.tokens(condensed(run)) in golden)
    assert scores.pc < 1.0 or scores.pc_hlr == 1.0


@given(runs())
def test_condensation_is_idempotent(
    run: tuple[Automaton, list[int], list[bool], Conventions],
) -> None:
    """The condensed path condenses to itself, step by step."""
    kept = condensed(run)
    again = paper_formulas.label(run[0], paper_formulas.tokens(kept))

    assert again == kept
    assert paper_formulas.condense(again) == kept


@given(runs())
def test_harm_never_moves(run: tuple[Automaton, list[int], list[bool], Conventions]) -> None:
    """A harmful call and a self-loop leave the state, progress changes it, and states chain."""
    steps = paper_formulas.label(*run)
    for step in steps:
        assert (step.before == step.after) == (step.kind is not Kind.PROGRESS)
    states = [run[0].initial, *(step.after for step in steps)]

    assert [step.before for step in steps] == states[:-1]
    assert paper_formulas.is_valid(steps) == (not any(paper_formulas.harm_mask(steps)))


@given(automata())
def test_golden_paths_are_the_loop_free_accepted_words(automaton: Automaton) -> None:
    """The golden paths are exactly the accepted words of progress that visit no state twice."""
    letters = range(len(automaton.symbols))
    words = [w for n in range(len(automaton.states)) for w in product(letters, repeat=n)]
    expected = [word for word in words if is_golden(automaton, word)]

    assert sorted(paper_formulas.golden_paths(automaton)) == sorted(expected)


def is_golden(automaton: Automaton, word: tuple[int, ...]) -> bool:
    steps = paper_formulas.label(automaton, word)
    states = [automaton.initial, *(step.after for step in steps)]
    progress = all(step.kind is Kind.PROGRESS for step in steps)
    return progress and len({*states}) == len(states) and automaton.accepts(states[-1])
