"""PC+HLR on paths too long to list: against a plain cubic program, and at its corners."""

from __future__ import annotations

import random

import pytest

from monitor.automaton.dfa import UNDEFINED, Automaton, build
from monitor.records import Kind
from monitor.scores import paper_formulas
from monitor.scores.refine import pc_hlr


def worker(seed: int) -> tuple[Automaton, list[int]]:
    """A task with progress, reads and short cuts, and a path of up to 60 calls."""
    rng = random.Random(seed)
    states, symbols = rng.randint(2, 8), rng.randint(2, 5)
    table = [UNDEFINED] * (states * symbols)
    for place in range(len(table)):
        if rng.random() < 0.3:
            table[place] = rng.choice([place // symbols, rng.randrange(states)])
    for state in range(states - 1):
        table[state * symbols + rng.randrange(symbols)] = state + 1
    names = tuple(f"q{n}" for n in range(states))
    accepting = frozenset({states - 1})
    automaton = Automaton(names, tuple("abcde"[:symbols]), 0, accepting, tuple(table))
    return automaton, [rng.randrange(-1, symbols) for _ in range(rng.randint(10, 60))]


def grown(row: list[int], path: paper_formulas.Path, choices: set[int]) -> list[int]:
    """Levenshtein's next row for a token that may be any of `choices`."""
    out = [row[0] + 1]
    for i, token in enumerate(path):
        out.append(min(row[i] + (token not in choices), row[i + 1] + 1, out[-1] + 1))
    return out


def cubic(
    automaton: Automaton,
    golden: list[paper_formulas.Path],
    kept: tuple[paper_formulas.PathStep, ...],
) -> float:
    """PC+HLR with the candidate's length as a third axis: one least row for each length."""
    path = paper_formulas.tokens(kept)
    by_length = {0: list(range(len(path) + 1))}
    for step in kept:
        harmful = step.kind is Kind.HARMFUL
        choices = set(automaton.reads(step.before)) if harmful else {step.token}
        longer = {n + 1: grown(row, path, choices) for n, row in by_length.items() if choices}
        shorter = by_length if harmful else {}
        by_length = {
            n: list(map(min, *rows)) if len(rows) == 2 else rows[0]
            for n in {**longer, **shorter}
            if (rows := [side[n] for side in (longer, shorter) if n in side])
        }
    end = kept[-1].after if kept else automaton.initial
    best = paper_formulas.path_correctness(path, golden)
    for suffix in paper_formulas.golden_suffixes(automaton, golden, end) or {()}:
        for n, row in by_length.items():
            for token in suffix:
                row = grown(row, path, {token})  # noqa: PLW2901
            size = len(path) + n + len(suffix) + row[-1]
            best = max(best, 1 - 2 * row[-1] / size if size else 1.0)
    return best


def refined(automaton: Automaton, golden: list[paper_formulas.Path], path: list[int]) -> float:
    kept = paper_formulas.condense(paper_formulas.label(automaton, path))
    before = [step.before for step in kept]
    end = kept[-1].after if kept else automaton.initial
    return pc_hlr(
        automaton,
        golden,
        paper_formulas.tokens(kept),
        before,
        paper_formulas.harm_mask(kept),
        end,
    )


@pytest.mark.parametrize("seed", range(60))
def test_long_paths_against_the_cubic_program(seed: int) -> None:
    """On paths with dozens of harms the result equals that of the plain cubic program."""
    automaton, path = worker(seed)
    golden = list(paper_formulas.golden_paths(automaton))[:20]
    kept = paper_formulas.condense(paper_formulas.label(automaton, path))

    assert refined(automaton, golden, path) == pytest.approx(
        cubic(automaton, golden, kept), abs=1e-12
    )


def rover(reads: bool) -> Automaton:
    """The sequence a, b, c; with reads, b also loops where c is due."""
    edges = {("q0", "a"): "q1", ("q1", "b"): "q2", ("q2", "c"): "q3"}
    loops = {("q2", "b"): "q2", ("q2", "d"): "q2"} if reads else {}
    return build(["q0", "q1", "q2", "q3"], "abcd", "q0", ["q3"], {**edges, **loops})


def test_a_read_takes_the_place_of_a_harm() -> None:
    """The paper's example (section 4): 0.75 against the golden path, 7/9 with a read for the harm."""
    path = [0, 1, paper_formulas.OTHER, 2]

    assert refined(rover(reads=False), [(0, 1, 2)], path) == 0.75
    assert refined(rover(reads=True), [(0, 1, 2)], path) == pytest.approx(7 / 9, abs=1e-12)


def test_a_harmless_path_off_the_golden_ones_is_its_own_candidate() -> None:
    """A repaired path that ends on no golden path is a candidate itself, so a path without harm scores 1."""
    edges = {("q0", "a"): "q1", ("q0", "b"): "q2"}
    automaton = build(["q0", "q1", "q2"], "ab", "q0", ["q1"], edges)

    assert refined(automaton, [(0,)], [1]) == 1.0


def test_the_better_of_two_suffixes_of_one_length() -> None:
    """b!a is repaired to ba with the harm as the second a, in one edit."""
    edges = {("q0", "a"): "q1", ("q0", "b"): "q1", ("q1", "a"): "q0", ("q1", "b"): "q1"}
    automaton = build(["q0", "q1"], "ab", "q0", ["q1"], edges)

    assert refined(automaton, [(0,), (1,)], [1, paper_formulas.OTHER, 0]) == pytest.approx(
        5 / 7
    )


@pytest.mark.parametrize(
    ("table", "accepting", "path", "expected"),
    [
        (
            (1, UNDEFINED, 2, 1, UNDEFINED, UNDEFINED),
            {0, 1, 2},
            [1, 0, paper_formulas.OTHER],
            1 / 2,
        ),
        ((1, 3, 1, 2, 0, 3, 1, UNDEFINED), {3}, [1, 1, 0], 5 / 9),
    ],
    ids=["the first", "a later one"],
)
def test_a_progress_token_may_match_nothing(
    table: tuple[int, ...], accepting: set[int], path: list[int], expected: float
) -> None:
    """The best alignment may leave a token unmatched that path and candidate both hold."""
    names = tuple(f"q{n}" for n in range(len(table) // 2))
    automaton = Automaton(names, ("a", "b"), 0, frozenset(accepting), table)
    golden = list(paper_formulas.golden_paths(automaton))

    assert refined(automaton, golden, path) == pytest.approx(expected)


def test_empty_path_without_references() -> None:
    """The empty path is its own candidate where nothing is golden."""
    automaton = build(["q0"], "a", "q0", [], {})

    assert refined(automaton, [], []) == 1.0


def test_only_harms_without_reads() -> None:
    """If nothing can be repaired and nothing is golden, the similarity is 0."""
    automaton = build(["q0"], "a", "q0", [], {})

    assert refined(automaton, [], [0, 0, 0]) == 0.0


def test_lengths_must_agree() -> None:
    """States and harms are given for each token."""
    with pytest.raises(ValueError, match="zip"):
        pc_hlr(rover(reads=True), [(0, 1, 2)], [0, 1], [0], [False, False], 2)


def test_batch_takes_the_program_where_the_list_is_too_long() -> None:
    """`evaluate` has a PC+HLR on a path with more candidates than could be listed."""
    automaton = rover(reads=True)
    path = [0, 1, *[0] * 40, 2]

    assert paper_formulas.evaluate(automaton, path).pc_hlr == refined(
        automaton, [(0, 1, 2)], path
    )
