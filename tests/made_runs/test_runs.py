"""Made-up runs: each is judged as it says, and its scores move as table 4 of the paper has it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import load_spec
from monitor.records import Kind, SessionKey
from monitor.session.judge.compensation import OPEN_MAX, Compensations, compensations
from monitor.session.judge.judge import FAILED, HARMFUL, PROGRESS, SELF_LOOP
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.made_runs.doubles import Clock, FakeSink, judge
from tests.made_runs.regex import RegexSyntaxError, text_for
from tests.made_runs.runs import ImpossibleError, Mode, RunCase, make, make_all
from tests.made_runs.sample_arguments import NoSampleError, arguments_for

SPECS = Path(__file__).parents[2] / "dfa_specs"

BOOKING = """
id: booking
alphabet:
  find: {tool: find_flight, arguments: {from: {regex: "^[A-Z]{3}$"}, seats: {min: 1, max: 9}}}
  reserve: {tool: reserve, arguments: {flight: {regex: "HAT[0-9]{3}"}, cabin: {one_of: [eco, biz]}}}
  release: {tool: release, arguments: {flight: {type: string}}}
  pay: {tool: pay, arguments: {amount: {type: number}, currency: EUR}}
  pay_odd: {tool: pay, arguments: {amount: {type: number}, currency: {not_in: [EUR]}}}
  show: {tool: show, arguments: {}}
  note: {tool: note}
initial: start
accepting: [paid]
transitions:
  start: {find: found}
  found: {reserve: reserved}
  reserved: {pay: paid, release: found}
reads: [show]
undo: {reserve: release}
"""

RULES = """
id: rules
kind: policy
alphabet:
  backup: {tool: backup}
  drop: {tool: drop, arguments: {table: {not_in: [scratch]}}}
constraints:
  - precedence: [backup, drop]
  - at_most: [drop, 2]
"""

SCORES = ("pc", "pc_ktc", "pc_hlr", "harm_rate", "prefix_crit", "efficiency")


def compiled(text: str) -> Spec:
    spec, findings = compile_text(text, "made.yaml")
    assert spec is not None, findings
    return spec


def specs() -> dict[str, Spec]:
    return {
        "booking": compiled(BOOKING),
        "booking under core": compiled(BOOKING + "conventions: core\n"),
        "farm_rover": load_spec(SPECS / "farm_rover.yaml"),
    }


def judged(spec: Spec, made: RunCase) -> dict[str, Any]:
    [found] = judge(spec, made.tool_calls(SessionKey("", "made"), start_ns=10**18))
    return found


def check_verdicts(found: dict[str, Any], made: RunCase) -> None:
    """Each call is found to be what the run says."""
    assert len(found["steps"]) == len(made.expected)
    for step, expected in zip(found["steps"], made.expected, strict=True):
        assert (step["kind"], step["symbol"], step["state"]) == expected[:3]
        if expected.reason is not None:
            assert step["reason"] == expected.reason


def is_worse(name: str, ours: Any, theirs: Any) -> bool:
    if ours is None:
        return theirs is not None
    return bool(ours > theirs if name in ("harm_rate", "harmful") else ours < theirs)


def is_same(ours: Any, theirs: Any) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return bool(abs(ours - theirs) <= 1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", specs())
def test_a_run_of_each_mode(name: str, mode: Mode, seed: int) -> None:
    """The verdicts, every score, and which scores must change and which must not."""
    spec = specs()[name]
    if name == "farm_rover" and mode in (Mode.WRONG_PARAMETER, Mode.COMPENSATING_PAIR):
        with pytest.raises(ImpossibleError):  # it reads no arguments, and marks no undo
            make(spec, mode, seed)
        return
    made = make(spec, mode, seed)
    found = judged(spec, made)

    check_verdicts(found, made)
    assert made.scores is not None
    for score in SCORES:
        assert is_same(found[score], getattr(made.scores, score)), score
    if mode is Mode.ACCEPTED:
        assert (found["accepting"], found["harmful"], made.against) == (True, 0, None)
        return
    assert made.against is not None
    other = judged(spec, made.against)
    assert all(is_worse(score, found[score], other[score]) for score in made.moves)
    assert all(is_same(found[score], other[score]) for score in made.stays)


def test_the_modes_are_what_they_are_called() -> None:
    """The shape of each failure, on the rover."""
    made = make_all(load_spec(SPECS / "farm_rover.yaml"), seed=7)
    right = [call.tool for call in made[Mode.ACCEPTED].calls]
    tools = {mode: [call.tool for call in run.calls] for mode, run in made.items()}

    def harms(mode: Mode) -> list[int]:
        kinds = [each.kind for each in made[mode].expected]
        return [place for place, kind in enumerate(kinds) if kind is Kind.HARMFUL]

    assert len(tools[Mode.WRONG_OPERATION]) == len(right)
    assert sum(a != b for a, b in zip(tools[Mode.WRONG_OPERATION], right, strict=True)) == 1
    assert sorted(tools[Mode.WRONG_ORDER]) == sorted(right)
    assert tools[Mode.WRONG_ORDER] != right
    assert len(tools[Mode.HARM]) == len(right) + 1
    assert len(harms(Mode.HARM)) == 1
    assert harms(Mode.EARLY_HARM) == [0]
    assert len(right) < len(tools[Mode.REDUNDANT_READS]) <= len(right) + 3
    assert harms(Mode.REDUNDANT_READS) == []
    assert len(tools[Mode.EXPLORATION_BLOAT]) >= 3 * len(right)
    assert len(tools[Mode.SKIPPED_CHECK]) == len(right) - 1
    assert harms(Mode.SKIPPED_CHECK)
    assert len(tools[Mode.REPEATED_CALL]) > len(right)
    assert harms(Mode.REPEATED_CALL)


def test_one_seed_gives_one_run() -> None:
    """The same again for the same seed, and not always the same for others."""
    spec = compiled(BOOKING)

    assert make(spec, Mode.HARM, 5) == make(spec, Mode.HARM, 5)
    assert len({make(spec, Mode.HARM, seed).calls[0].tool for seed in range(20)}) > 1


def test_arguments_match_their_symbol_and_no_other() -> None:
    """Every kind of pattern has an inverse here; the winner among several symbols is kept."""
    alphabet = compiled(BOOKING).alphabet
    for seed in range(20):
        for symbol, tool in enumerate(alphabet.tools):
            arguments = arguments_for(alphabet, symbol, Random(seed))
            assert alphabet.match(tool, arguments, failed=False) == symbol


def test_a_shadowed_symbol_is_refused() -> None:
    """No call can match the second of two equal symbols, so that raises."""
    text = BOOKING.replace("  note: {tool: note}", "  note: {tool: note}\n  more: {tool: note}")
    alphabet = compiled(text).alphabet

    with pytest.raises(NoSampleError, match="'more': no call of 'note' was found"):
        arguments_for(alphabet, alphabet.symbols.index("more"), Random(0))


@pytest.mark.parametrize("mode", [Mode.ACCEPTED, Mode.HARM])
def test_runs_of_a_policy(mode: Mode) -> None:
    """Runs that keep the rules, and one that breaks a rule, which only H shows."""
    spec = compiled(RULES)
    made = make(spec, mode, seed=3)
    found = judged(spec, made)

    check_verdicts(found, made)
    assert found["harmful"] == (mode is Mode.HARM)
    assert found["unsatisfied"] == []
    assert made.scores is None


def test_a_policy_and_a_reference_have_no_other_modes() -> None:
    """The refusal says why."""
    with pytest.raises(ImpossibleError, match="a policy has no golden paths"):
        make(compiled(RULES), Mode.WRONG_ORDER)
    with pytest.raises(ImpossibleError, match="a reference judges no harm"):
        make(compiled(BOOKING + "kind: reference\n"), Mode.HARM)


def test_the_plain_form_of_a_run() -> None:
    """The form that `offrails replay` reads."""
    made = make(compiled(BOOKING), Mode.ACCEPTED)
    plain = made.plain("r1")

    assert (plain["spec"], plain["run"]) == ("booking", "r1")
    assert [call["name"] for call in plain["calls"]] == ["find_flight", "reserve", "pay"]
    assert [call["step"] for call in plain["calls"]] == [1, 2, 3]


# --- texts for regular expressions ------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "^[A-Z]{3}$", "HAT[0-9]{3}", r"^\d{4}-\d{2}-\d{2}T", "a|b|cd", "(?i)yes|no", "",
        r"^(?:\+49|0)[1-9]\d{1,4}$", r"^[^@\s]+@[a-z.]+\.(com|org)$", r"\Qa.b\E", "x*y+z?",
        "^[[:alpha:]_][[:word:]]*$", r"^\w+\s\W$", "(?P<n>ab){2,3}", r"\x41\x{42}", "^.{5,}$",
        "^[]a]+$", r"[\d.]+$", r"^/tmp/[\w-]+\.txt$", "a{0}b", "^(a(b|c))+$", r"\bword\b",
    ],
)  # fmt: skip
def test_a_text_for_an_expression(expression: str) -> None:
    """The text that is made up is one the real matcher takes."""
    alphabet = compiled(
        f"id: x\nalphabet: {{a: {{tool: t, arguments: {{v: {{regex: '{expression}'}}}}}}}}\n"
        "golden: [[a]]\n"
    ).alphabet

    for seed in range(5):
        arguments = arguments_for(alphabet, 0, Random(seed))
        assert alphabet.match("t", arguments, failed=False) == 0


@pytest.mark.parametrize("expression", [r"\pL", r"\p{Greek}", "(a", "[a", "a)", r"\C"])
def test_an_expression_beyond_us(expression: str) -> None:
    """Refused with a reason rather than answered wrong."""
    with pytest.raises(RegexSyntaxError):
        text_for(expression, Random(0))


# --- compensating pairs -----------------------------------------------------------------------


def test_a_compensating_pair_is_reported_though_the_end_is_clean() -> None:
    """Reserve, release, reserve again: no harm, accepted, and the pair is reported."""
    spec = compiled(BOOKING)
    made = make(spec, Mode.COMPENSATING_PAIR, seed=2)
    found = judged(spec, made)
    [(do, undo)] = made.pairs

    assert (found["harmful"], found["accepting"], found["harm_rate"]) == (0, True, 0)
    assert found["compensations"] == [
        {"do": do, "undo": undo, "symbol": "reserve", "undone_by": "release"}
    ]
    assert found["steps"][do - 1]["symbol"] == "reserve"
    assert found["steps"][undo - 1]["symbol"] == "release"
    assert judged(spec, make(spec, Mode.ACCEPTED))["compensations"] == []


A, B, C = 0, 1, 2
UNDO = {A: B}


@pytest.mark.parametrize(
    ("steps", "pairs"),
    [
        ([(A, PROGRESS), (B, PROGRESS)], [(1, 2)]),
        ([(A, PROGRESS), (C, PROGRESS), (B, SELF_LOOP)], [(1, 3)]),
        ([(A, PROGRESS), (A, PROGRESS), (B, PROGRESS)], [(2, 3)]),  # the latest
        ([(A, PROGRESS), (A, PROGRESS), (B, PROGRESS), (B, PROGRESS)], [(2, 3), (1, 4)]),
        ([(A, PROGRESS), (B, PROGRESS), (B, PROGRESS)], [(1, 2)]),  # undone once
        ([(B, PROGRESS), (A, PROGRESS)], []),
        ([(A, SELF_LOOP), (B, PROGRESS)], []),  # nothing was done
        ([(A, HARMFUL), (B, PROGRESS)], []),
        ([(A, PROGRESS), (B, HARMFUL)], []),  # the harm is told already
        ([(A, PROGRESS), (B, FAILED)], []),  # nothing was undone
    ],
)
def test_what_counts_as_a_pair(
    steps: list[tuple[int, int]], pairs: list[tuple[int, int]]
) -> None:
    """A progress and its undo, allowed and with effect; each once, the latest first."""
    numbered = [(number, *step) for number, step in enumerate(steps, start=1)]

    assert [each[:2] for each in compensations(numbered, UNDO).listed] == pairs


def test_two_symbols_that_undo_each_other() -> None:
    """Lock and unlock: an undo is not itself something done."""
    steps = [(number, number % 2, PROGRESS) for number in range(1, 6)]

    assert [each[:2] for each in compensations(steps, {A: B, B: A}).listed] == [(1, 2), (3, 4)]


def test_an_episode_does_not_undo_the_last_one() -> None:
    """A pair lies within one episode."""
    found = Compensations(UNDO)
    found.take(1, A, PROGRESS)
    found.start_episode()

    assert not found.take(2, B, PROGRESS)
    assert found.count == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([PROGRESS, SELF_LOOP, HARMFUL])),
                max_size=200))  # fmt: skip
def test_the_count_and_a_copy(steps: list[tuple[int, int]]) -> None:
    """Step by step, and from a copy midway, the pairs are the same. Each undo is of an earlier step."""
    whole, half = Compensations(UNDO), Compensations(UNDO)
    for number, (token, code) in enumerate(steps, start=1):
        whole.take(number, token, code)
        half.take(number, token, code)
        half = half.copy()

    numbered = [(number, *step) for number, step in enumerate(steps, start=1)]
    first = compensations(numbered[:50], UNDO)
    rest = compensations(numbered[50:], UNDO, first)
    assert (whole.count, whole.listed) == (half.count, half.listed) == (rest.count, rest.listed)
    assert all(pair.do < pair.undo for pair in whole.listed)
    assert whole.count <= sum(step == (A, PROGRESS) for step in steps)


def test_a_long_session_stays_small() -> None:
    """Steps that wait for their undo are bounded: the latest are kept."""
    found = Compensations(UNDO)
    for number in range(1, 1_001):
        found.take(number, A, PROGRESS)
    undone = [found.take(1_000 + number, B, PROGRESS) for number in range(1, 201)]

    assert undone == [True] * OPEN_MAX + [False] * (200 - OPEN_MAX)
    assert found.listed[0][:2] == (1_000, 1_001)
    assert found.count == OPEN_MAX


# --- doubles ----------------------------------------------------------------------------------


def test_the_clock_and_the_sink() -> None:
    """The clock moves only when set, and the sink keeps the verdicts."""
    clock, sink = Clock(5), FakeSink()

    assert (clock(), clock.advance(2), clock()) == (5, 2_000_000_005, 2_000_000_005)
    sink.deliver([])
    assert sink.verdicts == []
