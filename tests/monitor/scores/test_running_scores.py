"""Corner cases of the running scores: empty paths, acceptance at once, cycles, long paths, many references."""

from __future__ import annotations

import pickle
import random
import sys
from fractions import Fraction

import pytest

from monitor.automaton.dfa import Automaton, build
from monitor.records import Conventions
from monitor.scores import paper_formulas
from monitor.scores.running_scores import Goldens, HarmTally, PathRows, efficiency


def task(edges: dict[tuple[str, str], str], accepting: list[str]) -> Automaton:
    """An automaton whose initial state is the first edge's source."""
    states = list(
        dict.fromkeys(n for (source, _), target in edges.items() for n in (source, target))
    )
    symbols = list(dict.fromkeys(symbol for _, symbol in edges))
    return build(states, symbols, states[0], accepting, edges)


def exact_prefix_crit(harm: list[bool], beta: float) -> Fraction:
    base = Fraction(beta)
    weights = [base**k for k in range(len(harm))]
    lost = sum((w for w, bad in zip(weights, harm, strict=True) if bad), Fraction(0))
    return 1 - lost / sum(weights)


def fed(beta: float, harm: list[bool]) -> HarmTally:
    tally = HarmTally(beta)
    for bad in harm:
        (tally.harmful if bad else tally.progress)()
    return tally


class TestEmpty:
    def test_empty_path(self) -> None:
        """Before the first call there is no harm and no progress, and efficiency is undefined."""
        automaton = task({("q0", "a"): "q1"}, ["q1"])
        scores = paper_formulas.evaluate(automaton, [])

        assert scores == paper_formulas.Scores(
            n=0,
            substantive=0,
            harmful=0,
            harm_rate=0.0,
            prefix_crit=1.0,
            pc=0.0,
            pc_ktc=0.25,
            pc_hlr=0.0,
            efficiency=None,
            accepting=False,
            state=0,
        )

    def test_empty_accumulators(self) -> None:
        """Fresh accumulators hold the values of the empty path."""
        tally, rows = HarmTally(0.5), PathRows(Goldens([(0, 1)]))

        assert (tally.harm_rate, tally.prefix_crit) == (0.0, 1.0)
        assert (rows.pc(), rows.pc_ktc(0.5, 0.5), rows.pc_ktc(0.5, 0.0)) == (0.0, 0.25, 0.0)

    def test_without_golden_paths(self) -> None:
        """A task that accepts nowhere has PC 0 on every path, and no efficiency."""
        automaton = task({("q0", "a"): "q1"}, [])
        rows = PathRows(Goldens(()))
        rows.add(0)

        assert (rows.pc(), rows.pc_ktc(0.5, 0.5)) == (0.0, 0.0)
        assert paper_formulas.evaluate(automaton, [0]).pc == 0.0
        assert paper_formulas.evaluate(automaton, [0]).efficiency is None


class TestAcceptingInitialState:
    automaton = task({("q0", "r"): "q0", ("q0", "a"): "q1"}, ["q0"])

    def test_empty_path_is_golden(self) -> None:
        """If the initial state accepts, an empty path has PC 1 and efficiency null."""
        scores = paper_formulas.evaluate(self.automaton, [])

        assert paper_formulas.golden_paths(self.automaton) == ((),)
        assert (scores.pc, scores.pc_hlr, scores.accepting) == (1.0, 1.0, True)
        assert scores.efficiency is None

    def test_length_zero_never_counts(self) -> None:
        """A golden length 0 is no l*: efficiency stays undefined after any number of calls."""
        lengths = Goldens([()]).lengths

        assert lengths == ()
        assert paper_formulas.evaluate(self.automaton, [0, 0]).efficiency is None
        assert efficiency(2, lengths, None) is None
        assert efficiency(2, lengths, 0.0) == 0.0
        assert [efficiency(n, (0, 3), None) for n in (0, 2, 3)] == [None, None, 1.0]

    def test_rows_of_an_empty_reference(self) -> None:
        """Against the empty golden path PC is 1 at the start and 0 after any step."""
        rows = PathRows(Goldens([()]))
        before = rows.pc()
        rows.add(1)

        assert (before, rows.pc()) == (1.0, 0.0)


class TestProgressCycle:
    automaton = task(
        {("q0", "a"): "q1", ("q1", "b"): "q0", ("q1", "c"): "q2", ("q2", "d"): "q0"}, ["q2"]
    )

    def test_golden_paths_leave_the_cycle_out(self) -> None:
        """A progress cycle gives no further golden path."""
        assert paper_formulas.golden_paths(self.automaton) == ((0, 2),)

    def test_going_round_is_progress_but_not_golden(self) -> None:
        """Going round the cycle harms nothing and costs PC, tau+ staying whole."""
        scores = paper_formulas.evaluate(self.automaton, [0, 1, 0, 2])

        assert (scores.harmful, scores.accepting) == (0, True)
        assert scores.pc == pytest.approx(1 - 4 / (4 + 2 + 2))
        assert scores.pc_ktc == pytest.approx((scores.pc + 1) / 2)
        assert scores.efficiency == 0.5


class TestHarmTally:
    def test_self_loops_only_count_as_calls(self) -> None:
        """A self-loop is in n and in nothing else."""
        tally = HarmTally(0.5)
        tally.self_loop()

        assert (tally.calls, tally.substantive, tally.harmful_steps) == (1, 0, 0)
        assert (tally.harm_rate, tally.prefix_crit) == (0.0, 1.0)

    @pytest.mark.parametrize("beta", [0.001, 0.25, 0.5, 0.9, 0.999, 1 - 1e-6, 1 - 1e-12])
    def test_prefix_crit_is_exact(self, beta: float) -> None:
        """Also with beta near 0 or 1 the running value is eq. 6 in exact arithmetic."""
        rng = random.Random(3)
        harm = [rng.random() < 0.4 for _ in range(60)]

        assert abs(fed(beta, harm).prefix_crit - exact_prefix_crit(harm, beta)) <= 1e-12
        assert (
            abs(paper_formulas.prefix_crit(harm, beta) - exact_prefix_crit(harm, beta)) <= 1e-12
        )

    @pytest.mark.parametrize("beta", [0.5, 0.999, 1 - 1e-6])
    def test_very_long_sessions(self, beta: float) -> None:
        """After 100,000 steps, most weights are 0, and running and batch scores still agree."""
        rng = random.Random(4)
        harm = [rng.random() < 0.3 for _ in range(100_000)]

        assert (
            abs(fed(beta, harm).prefix_crit - paper_formulas.prefix_crit(harm, beta)) <= 1e-12
        )

    def test_harm_free_is_the_rest(self) -> None:
        """HarmFree is 1 - HarmRate, 1 for an empty path (eq. 7)."""
        assert [paper_formulas.harm_free(harm) for harm in ([], [True, False], [True])] == [
            1.0,
            0.5,
            0.0,
        ]

    def test_all_harmful_is_zero(self) -> None:
        """PrefixCrit is exactly 0 while every substantive step is harmful."""
        assert fed(0.7, [True] * 1000).prefix_crit == 0.0

    def test_copy_is_independent(self) -> None:
        """A copy goes on from the same values and leaves the original alone."""
        tally = fed(0.9, [True, False, True])
        twin = tally.copy()
        twin.harmful()

        assert tally.prefix_crit == fed(0.9, [True, False, True]).prefix_crit
        assert twin.prefix_crit == fed(0.9, [True, False, True, True]).prefix_crit


class TestPathRows:
    def test_copy_is_independent(self) -> None:
        """A copy goes on from the same column and leaves the original alone."""
        rows = PathRows(Goldens([(0, 1, 2)]))
        rows.add(0)
        twin = rows.copy()
        twin.add(1)
        twin.add(2)

        assert rows.pc() == paper_formulas.path_correctness([0], [(0, 1, 2)])
        assert twin.pc() == 1.0

    def test_inversions_fill_their_field(self) -> None:
        """A long golden path walked backwards has tau+ 0, beside one walked forwards with 1."""
        forwards = tuple(range(100))
        backwards = forwards[::-1]
        for paths, tau in (
            ([forwards, backwards, forwards], 1.0),
            ([forwards, forwards, forwards], 0.0),
        ):
            rows = PathRows(Goldens(paths))
            for token in backwards:
                rows.add(token)
            assert rows.pc_ktc(0.0, 0.5) == tau

    def test_hundreds_of_long_references(self) -> None:
        """500 golden paths of 30 symbols are followed as exactly as one."""
        rng = random.Random(5)
        golden = [tuple(rng.randrange(12) for _ in range(30)) for _ in range(500)]
        path = [rng.randrange(-1, 13) for _ in range(40)]
        rows = PathRows(Goldens(golden))
        for token in path:
            rows.add(token)

        assert rows.pc() == pytest.approx(
            paper_formulas.path_correctness(path, golden), abs=1e-12
        )
        expected = paper_formulas.path_correctness_ktc(path, golden, 0.5, 0.5)
        assert rows.pc_ktc(0.5, 0.5) == pytest.approx(expected, abs=1e-12)

    @pytest.mark.plain
    def test_a_long_session_stays_small(self) -> None:
        """After 10,000 steps, the rows hold only five integers as wide as the references."""
        rows = PathRows(Goldens([tuple(range(16))]))
        for n in range(10_000):
            rows.add(n % 20)
        kept = [getattr(rows, name) for name in PathRows.__slots__ if name != "goldens"]

        assert all(isinstance(value, int) for value in kept)
        assert sum(map(sys.getsizeof, kept)) <= 200

    @pytest.mark.plain
    def test_pickled_rows_go_on(self) -> None:
        """Rows survive serialisation and go on with the same values."""
        rows = PathRows(Goldens([(0, 1, 2), (2, 1)]))
        rows.add(2)
        twin = pickle.loads(pickle.dumps(rows))
        for each in (rows, twin):
            each.add(1)

        assert twin.goldens.paths == rows.goldens.paths
        assert (twin.pc(), twin.pc_ktc(0.5, 0.5)) == (rows.pc(), rows.pc_ktc(0.5, 0.5))


class TestEfficiency:
    @pytest.mark.parametrize(
        ("n", "expected"), [(0, None), (2, None), (3, 1.0), (4, 0.75), (5, 1.0), (50, 0.1)]
    )
    def test_takes_the_longest_length_that_fits(self, n: int, expected: float | None) -> None:
        """l* is the greatest golden length not above the raw length (eq. 8)."""
        assert efficiency(n, (3, 5), None) == expected

    def test_lengths_are_distinct_and_sorted(self) -> None:
        """The shared lengths are distinct and sorted, as the function requires."""
        assert Goldens([(1, 2, 3), (1,), (), (2, 1, 3)]).lengths == (1, 3)


class TestFailedCalls:
    automaton = task({("q0", "a"): "q1", ("q1", "r"): "q1"}, ["q1"])

    @pytest.mark.parametrize(
        ("rule", "defined", "undefined"),
        [
            ("no_effect", (0, "self_loop", 0), (-1, "harmful", 0)),
            ("harmful", (-1, "harmful", 0), (-1, "harmful", 0)),
            ("ordinary", (0, "progress", 1), (1, "harmful", 0)),
        ],
    )
    def test_failed_call(
        self, rule: str, defined: tuple[int, str, int], undefined: tuple[int, str, int]
    ) -> None:
        """The convention decides what a failed call is, whether or not the state allows it."""
        conventions = Conventions(failed_calls=rule)  # type: ignore[arg-type]
        found = [
            paper_formulas.label(self.automaton, [token], [True], conventions)[0]
            for token in (0, 1)
        ]

        assert [(step.token, step.kind.value, step.after) for step in found] == [
            defined,
            undefined,
        ]

    def test_lengths_must_agree(self) -> None:
        """A failure flag too many or too few is an error."""
        with pytest.raises(ValueError, match="zip"):
            paper_formulas.label(self.automaton, [0, 1], [True])


class TestGoldenLimit:
    def test_too_many_golden_paths_are_refused(self) -> None:
        """The search stops with an error once it has found more than the limit."""
        edges = {(f"q{n}", symbol): f"q{n + 1}" for n in range(5) for symbol in "ab"}
        automaton = task(edges, ["q5"])

        assert len(paper_formulas.golden_paths(automaton, limit=32)) == 32
        with pytest.raises(ValueError, match="more than 31"):
            paper_formulas.golden_paths(automaton, limit=31)
