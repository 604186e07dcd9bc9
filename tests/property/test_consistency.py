"""Laws of the consistency scores: equal to the definitions, running as in batch."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.scores.consistency import (
    RollingConsistency,
    TraceCall,
    consistency,
    distance,
    flatten,
    output_agreement,
)

ARGUMENTS = st.dictionaries(st.sampled_from("xy"), st.integers(0, 2), max_size=2)
CALL = st.builds(
    lambda tool, given: TraceCall(tool, flatten(given)), st.sampled_from("abc"), ARGUMENTS
)
RUN = st.lists(CALL, max_size=6)
RUNS = st.lists(RUN, max_size=5)


def by_table(one: list[str], other: list[str]) -> int:
    """Levenshtein's distance, cell by cell."""
    rows = [[i + j for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i, a in enumerate(one, 1):
        for j, b in enumerate(other, 1):
            rows[i][j] = min(
                rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a != b)
            )
    return rows[-1][-1]


@given(
    st.lists(st.sampled_from("abcd"), max_size=80),
    st.lists(st.sampled_from("abcd"), max_size=80),
)
def test_distance(one: list[str], other: list[str]) -> None:
    """The bit-parallel distance is Levenshtein's, also beyond one machine word."""
    assert distance(one, other) == by_table(one, other) == distance(other, one)


@given(RUNS)
def test_definitions(runs: list[list[TraceCall]]) -> None:
    """Every metric of a set of runs equals its definition, term by term."""
    found = consistency(runs)
    names = [[call.tool for call in run] for run in runs]
    pairs = list(combinations(range(len(runs)), 2))

    terms = [
        1 - by_table(names[i], names[j]) / max(len(names[i]), len(names[j]))
        if names[i] or names[j]
        else 1.0
        for i, j in pairs
    ]
    assert found.tss == pytest.approx(math.fsum(terms) / len(terms) if terms else 1, abs=1e-12)
    for rule, value in (("paper", found.ac_paper), ("repository", found.ac_repository)):
        steps = [
            0.0 if rule == "paper" and a.tool != b.tool
            else len(a.pairs & b.pairs) / len(a.pairs | b.pairs) if a.pairs | b.pairs else 1.0
            for i, j in pairs
            for a, b in zip(runs[i], runs[j], strict=False)
        ]  # fmt: skip
        assert value == pytest.approx(math.fsum(steps) / len(steps) if steps else 1, abs=1e-12)
    assert found.unique_sequences == len({tuple(each) for each in names})
    same = [names[i][:2] == names[j][:2] for i, j in pairs]
    assert found.first_two_agreement == pytest.approx(sum(same) / len(same) if same else 1)


@given(RUNS)
def test_divergence_point(runs: list[list[TraceCall]]) -> None:
    """The divergence point is the mean first step at which names, else arguments, differ."""
    steps = []
    for one, other in combinations(runs, 2):
        padded = [
            (one[i] if i < len(one) else None, other[i] if i < len(other) else None)
            for i in range(max(len(one), len(other)))
        ]
        names = [i for i, (a, b) in enumerate(padded, 1) if (a and a.tool) != (b and b.tool)]
        arguments = [i for i, (a, b) in enumerate(padded, 1) if a != b]
        steps += (names or arguments)[:1]

    assert consistency(runs).divergence_point == (sum(steps) / len(steps) if steps else None)


@given(RUNS, st.integers(1, 4))
def test_running_is_batch(runs: list[list[TraceCall]], keep: int) -> None:
    """After each run the rolling metrics equal the batch ones, over all or the last runs."""
    rolling, last = RollingConsistency(), RollingConsistency(keep)
    for count, run in enumerate(runs, 1):
        rolling.add(run)
        last.add(run)

        assert rolling.value() == consistency(runs[:count])
        assert last.value() == consistency(runs[max(0, count - keep) : count])


@given(RUNS, st.randoms(use_true_random=False))
def test_order_does_not_matter(runs: list[list[TraceCall]], chance: object) -> None:
    """The metrics of a set do not depend on the order its runs are given in."""
    shuffled = list(runs)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]

    assert consistency(shuffled) == consistency(runs)


@given(st.lists(st.sampled_from(["a", "b", " a "]), max_size=6))
def test_output_agreement(outputs: list[str]) -> None:
    """Output agreement is the share of equal pairs."""
    pairs = [a.strip() == b.strip() for a, b in combinations(outputs, 2)]

    assert output_agreement(outputs) == (sum(pairs) / len(pairs) if pairs else 1.0)
