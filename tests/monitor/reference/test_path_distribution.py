"""How unlikely a path is: a distribution that sums to one, exact without a run, the same in any order."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.reference.comparison import Comparison, ComparisonState
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.path_distribution import (
    PathDistribution,
    millibits,
    percentile,
    quantiles,
)
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.learnt_reference import SURPRISE_LEVELS, LearntReference, PrefixNode

NAMES = st.lists(st.sampled_from(["get_a", "find_b", "book_c"]), max_size=4)
RUNS = st.lists(NAMES, min_size=1, max_size=6)


def learnt(runs: Sequence[Sequence[str]]) -> LearntReference:
    return learn(
        [
            SeenRun(str(n), "", tuple(seen_call(name, {}, failed=False) for name in names))
            for n, names in enumerate(runs)
        ]
    )


def distribution(found: LearntReference) -> PathDistribution:
    return PathDistribution(found.nodes, len(found.tools))


def bits(found: LearntReference, names: Sequence[str]) -> float:
    """Bits of a whole path, its end among them."""
    paths, path = distribution(found), 0
    for name in names:
        path = paths.after(path, found.tools.index(name) if name in found.tools else -1)
    return paths.ended(path) / 1000


def walked(
    found: LearntReference, names: Sequence[str]
) -> tuple[PathDistribution, ComparisonState]:
    comparison = Comparison(found)
    at = comparison.start()
    for name in names:
        comparison.step(at, comparison.token(name, {}, False))
    assert comparison.paths is not None
    return comparison.paths, at


@given(RUNS, st.integers(0, 2))
def test_sums_to_one(runs: list[list[str]], calls: int) -> None:
    """What may follow any path has likelihoods that sum to one: known tools, an unknown one, the end."""
    found = learnt(runs)
    paths = distribution(found)
    tools = range(-1, len(found.tools))
    for before in product(tools, repeat=calls):
        path = 0
        for tool in before:
            path = paths.after(path, tool)
        spent = [millibits(paths.after(path, tool)) - millibits(path) for tool in tools]
        spent.append(paths.ended(path) - millibits(path))

        assert sum(2 ** -(each / 1000) for each in spent) == pytest.approx(1, abs=0.005)


@given(st.lists(NAMES, min_size=2, max_size=6))
def test_judged_by_the_others(runs: list[list[str]]) -> None:
    """A run's surprise under the others is that under a reference learnt without it, of the same tools."""
    found = learnt(runs)
    for place, names in enumerate(runs):
        rest = learnt(runs[:place] + runs[place + 1 :])
        # The one without it knows the same tools, so that as many are imagined.
        same = PathDistribution(_renumbered(rest, found), len(found.tools))
        path = 0
        for name in names:
            path = same.after(path, found.tools.index(name))
        apart = same.ended(path) / 1000 / (len(names) + 1)
        numbers = [found.tools.index(name) for name in names]

        assert distribution(found).surprise_without(numbers) == pytest.approx(apart)


def _renumbered(rest: LearntReference, found: LearntReference) -> tuple[PrefixNode, ...]:
    return tuple(
        node if node.tool < 0 else replace(node, tool=found.tools.index(rest.tools[node.tool]))
        for node in rest.nodes
    )


@given(RUNS, NAMES)
def test_order_and_document(runs: list[list[str]], names: list[str]) -> None:
    """Runs in any order, written and read, give every path the same surprise and percentile."""
    shuffled = list(runs)
    random.Random(len(runs)).shuffle(shuffled)
    spec, findings = compile_text(reference_text(learnt(shuffled), "r"), "r.yaml")
    assert spec is not None, findings
    assert spec.learnt is not None

    walks = [walked(learnt(runs), names), walked(spec.learnt, names)]
    surprises = [paths.surprise(at.path, at.calls, ended=True) for paths, at in walks]

    assert surprises[0] == surprises[1]
    assert learnt(runs).surprise == spec.learnt.surprise
    (one, first), (other, second) = walks
    assert one.likely(first.path) == other.likely(second.path)


def test_the_rare_path_is_surprising() -> None:
    """The path of nine runs of ten has few bits, that of the tenth more, an unheard-of one most; each by its percentile."""
    usual, rare = ["get_a", "find_b", "book_c"], ["get_a", "book_c"]
    found = learnt([usual] * 9 + [rare])
    per_call = [
        bits(found, names) / (len(names) + 1)
        for names in (usual, rare, ["drop_all", "drop_all"])
    ]
    assert found.surprise is not None
    known = found.surprise

    assert per_call == sorted(per_call)
    assert per_call[0] < 0.5 < per_call[1] < 3 < per_call[2]
    assert [percentile(each, known) for each in (0.0, 99.0)] == [0.0, 100.0]


def test_likely_next() -> None:
    """After a call the usual next ones are told with shares, and none that is rare."""
    found = learnt([["get_a", "find_b"]] * 6 + [["get_a", "book_c"]] * 3)
    paths, at = walked(found, ["get_a"])
    likely = paths.likely(at.path)

    assert [found.tools[each.tool] for each in likely] == ["find_b", "book_c"]
    assert likely[0].share == pytest.approx(0.65, abs=0.03)
    assert sum(each.share for each in likely) < 1


def test_unknown_stays_unknown() -> None:
    """A state that was kept before paths were is not mistaken for a beginning, however it goes on."""
    comparison = Comparison(learnt([["get_a", "find_b"]] * 3))
    at = comparison.start()
    known = [at.knows_path]
    for name in ("get_a", "find_b"):
        comparison.step(at, comparison.token(name, {}, False))
        known.append(at.knows_path)
        at.path = 0

    assert known == [True, True, False]


def test_one_run_has_no_percentile() -> None:
    """One usual run is under no others: paths have a surprise, and no percentile."""
    found = learnt([["get_a"]])
    paths, at = walked(found, ["get_a"])
    surprise = paths.surprise(at.path, at.calls, ended=True)

    assert surprise is not None
    assert surprise > 0
    assert found.surprise == ()
    assert percentile(surprise, ()) is None


def test_what_all_usual_runs_did_is_in_the_middle() -> None:
    """Of runs that are equally surprising half count: an agent that never varies is not the most surprising of all."""
    assert percentile(0.5, [0.5] * 9) == 50
    assert percentile(0.6, [0.5] * 9) == 100


@given(st.lists(st.floats(0, 20, allow_nan=False), min_size=2, max_size=40), st.floats(0, 25))
def test_percentile(surprises: list[float], surprise: float) -> None:
    """A percentile lies in 0 to 100 and never falls as the surprise grows."""
    known = quantiles(surprises)
    found = [percentile(each, known) for each in (surprise, surprise + 0.5)]

    assert len(known) == len(SURPRISE_LEVELS)
    assert found[0] is not None
    assert found[1] is not None
    assert 0 <= found[0] <= found[1] <= 100
    assert math.isclose(known[-1], max(surprises), abs_tol=1e-3)
