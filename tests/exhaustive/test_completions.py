"""Sessions with unknown parts, compared with all their completions.

Random specs, and calls of which arguments are unknown, or known in part, in sessions that are seen
from their first call or joined somewhere. The truth is counted without any of the monitor's sets:
each completion (a state to begin in, and arguments for each call) is a run in which all is known,
and so many harms are certain as the best of them has. Nothing more may be claimed, and nothing less.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import pytest

from monitor import Limits, Monitor
from monitor.automaton.dfa import UNDEFINED
from monitor.automaton.position import Position, StepEffect
from monitor.limits import SECOND
from monitor.partial import PartialArguments
from monitor.records import Evidence, Kind, SessionKey, ToolCall
from monitor.session.judge.judge import Judge
from monitor.spec.compiler.compile import compile_text
from monitor.spec.constraints import SideBySide
from monitor.spec.spec import Spec

TOOLS: Final = ("pay", "ask")
NAMES: Final = ("x", "y")
_TEXTS: Final = ("EUR", "USD", "a", "zz")
_NUMBERS: Final = (-3, 0, 1, 5, 5.5, 9)

_MORE_NUMBERS: Final = (*_NUMBERS, -4.5, -4, 0.5, 2, 3, 3.5, 7, 7.5, 11, 11.5, 10**20)

VALUES: Final[tuple[Any, ...]] = (
    *_TEXTS, "other", "EURO", *_MORE_NUMBERS, *map(str, _MORE_NUMBERS),
    True, False, None, [], [1], ["b"], {}, {"k": 1}, {"k": 2},
)  # fmt: skip
"""One value at least of each kind that `pattern` tells apart. Limits read a text that is a number as that number."""

PAIRS: Final = (
    "precedence", "alternate_precedence", "chain_precedence", "response", "alternate_response",
    "chain_response", "succession", "not_succession", "not_chain_succession",
    "not_co_existence", "co_existence", "responded_existence", "choice", "exclusive_choice",
)  # fmt: skip


# --- specs and calls --------------------------------------------------------------------------


def pattern(dice: random.Random) -> Any:
    low, high = sorted(dice.sample(_NUMBERS, 2))
    return dice.choice([
        dice.choice([*_TEXTS, *_NUMBERS, True, None, [1]]),
        {"one_of": dice.sample([*_TEXTS, *_NUMBERS, False, {"k": 1}], 2)},
        {"not_in": dice.sample([*_TEXTS, *_NUMBERS, None], 2)},
        {"min": low, "max": high}, {"min": low}, {"max": high},
        {"type": dice.choice(["string", "number", "integer", "boolean", "array", "null"])},
        {"any": True},
    ])  # fmt: skip


def arguments(dice: random.Random) -> Any:
    if dice.random() < 0.25:
        return None
    if dice.random() < 0.1:
        return {}
    return {name: pattern(dice) for name in NAMES if dice.random() < 0.6} or None


def alphabet(dice: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tool in TOOLS:
        for number in range(dice.randint(1, 3)):
            symbol: dict[str, Any] = {"tool": tool}
            wanted = arguments(dice)
            if wanted is not None:
                symbol["arguments"] = wanted
            found[f"{tool}{number}"] = symbol
    return found


def constraint(dice: random.Random, symbols: Sequence[str]) -> dict[str, Any]:
    kind = dice.random()
    if kind < 0.15:
        return {"forbid": dice.choice(symbols)}
    if kind < 0.35:
        return {"at_most": [dice.choice(symbols), dice.randint(1, 4)]}
    if kind < 0.4:
        return {"init": dice.choice(symbols)}
    chosen = dice.sample(symbols, min(len(symbols), dice.randint(2, 3)))
    if len(chosen) < 2:
        return {"existence": chosen[0]}
    first: Any = chosen[0]
    then: Any = chosen[1:] if len(chosen) > 2 else chosen[1]
    return {dice.choice(PAIRS): [first, then] if dice.random() < 0.5 else [then, first]}


def policy(dice: random.Random, most: int) -> Spec | None:
    letters = alphabet(dice)
    document = {
        "id": "p",
        "kind": dice.choice(["policy", "policy", "policy", "task"]),
        "match": {"service.name": "x"},
        "alphabet": letters,
        "conventions": {
            "failed_calls": dice.choice(["no_effect", "no_effect", "harmful", "ordinary"])
        },
        "constraints": [constraint(dice, list(letters)) for _ in range(dice.randint(1, most))],
    }
    spec = _compiled(document)
    if spec is None or not isinstance(spec.machine, SideBySide) or dice.random() < 0.7:
        return spec
    # A call that one of the constraints refuses is accepted for now.
    rule = dice.choice(spec.machine.constraints)
    entry = {
        "symbol": dice.choice(list(letters)),
        "constraint": rule.text,
        "state": dice.choice(rule.automaton.states),
        "who": "ana", "why": "for now", "until": "2099-12-31",
    }  # fmt: skip
    return _compiled({**document, "accept": [entry]}) or spec


def task(dice: random.Random, most: int) -> Spec | None:
    letters, states = alphabet(dice), [f"q{n}" for n in range(dice.randint(2, most))]
    transitions = {
        state: {symbol: dice.choice(states) for symbol in letters if dice.random() < 0.5}
        for state in states
    }
    return _compiled({
        "id": "t",
        "match": {"service.name": "x"},
        "alphabet": letters,
        "initial": "q0",
        "accepting": [dice.choice(states)],
        "states": states,
        "transitions": transitions,
        "conventions": {
            "failed_calls": dice.choice(["no_effect", "no_effect", "harmful", "ordinary"])
        },
    })  # fmt: skip


def _compiled(document: dict[str, Any]) -> Spec | None:
    return compile_text(json.dumps(document), "s.yaml")[0]


class Made:
    """One call: what is on the wire, and all that it may have been."""

    def __init__(self, dice: random.Random) -> None:
        self.tool = dice.choice([*TOOLS, *TOOLS, *TOOLS, "nobody"])
        self.failed = dice.random() < 0.15
        self.told: Any = None
        known = {name: dice.choice(VALUES) for name in NAMES if dice.random() < 0.7}
        kind = dice.random()
        if kind < 0.45:
            self.told = known
            self.whole = [known]
        elif kind < 0.75:
            self.whole = ANYTHING
        else:
            unread = {name for name in NAMES if dice.random() < 0.6} or {"x"}
            known = {name: value for name, value in known.items() if name not in unread}
            self.told = PartialArguments(dict(known), unread)
            self.whole = [
                {**known, **each}
                for each in _all_of(sorted(unread))
                if len(each) == len(unread)
            ]

    def tokens(self, spec: Spec) -> set[int]:
        """The readings of a call with unknown parts."""
        if self.whole is ANYTHING:
            return _of_anything(spec, self.tool, self.failed)
        return {spec.alphabet.match(self.tool, each, self.failed) for each in self.whole}


@lru_cache(256)
def _of_anything(spec: Spec, tool: str, failed: bool) -> set[int]:
    return {spec.alphabet.match(tool, each, failed) for each in ANYTHING}


def _all_of(names: Sequence[str]) -> list[dict[str, Any]]:
    """Every choice of values for some arguments, each of which may be absent."""
    absent = object()
    return [
        {name: value for name, value in zip(names, chosen, strict=True) if value is not absent}
        for chosen in itertools.product((absent, *VALUES), repeat=len(names))
    ]


ANYTHING: Final = [*_all_of(NAMES), *({**each, "z": 1} for each in _all_of(NAMES))]
"""All arguments, so far as patterns tell them apart."""


# --- the truth --------------------------------------------------------------------------------

_Costs = dict[int, int]
"""By state, the fewest harms of the completions that end there."""


def one_step(spec: Spec, state: int, token: int) -> tuple[int, bool]:
    """A call of which all is known: where it leads, and whether it is harmful."""
    meaning = spec.alphabet.tokens[token]
    if meaning.named and spec.kind == "policy":
        return state, True
    if not meaning.symbols:
        return state, spec.kind == "task"
    (symbol,) = meaning.symbols
    target = spec.machine.step(state, symbol)
    if target == UNDEFINED:
        return state, True
    return (target if meaning.effect else state), False


def taken(spec: Spec, costs: _Costs, tokens: set[int]) -> tuple[_Costs, bool]:
    """All completions a call further; and whether one of them allows it."""
    after: _Costs = {}
    right = False
    for state, cost in costs.items():
        for token in tokens:
            target, harmful = one_step(spec, state, token)
            right = right or not harmful
            new = cost + harmful
            after[target] = min(new, after.get(target, new))
    return after, right


def everywhere(spec: Spec) -> _Costs:
    """Every state that some calls lead to."""
    found, todo = {spec.machine.initial}, [spec.machine.initial]
    while todo:
        state = todo.pop()
        for symbol in range(len(spec.machine.symbols)):
            target = spec.machine.step(state, symbol)
            if target != UNDEFINED and target not in found:
                found.add(target)
                todo.append(target)
    return dict.fromkeys(found, 0)


def can_end(spec: Spec, state: int) -> bool:
    """Whether some calls lead from a state to one in which the session may end."""
    found, todo = {state}, [state]
    while todo:
        state = todo.pop()
        if spec.machine.accepts(state):
            return True
        for symbol in range(len(spec.machine.symbols)):
            target = spec.machine.step(state, symbol)
            if target != UNDEFINED and target not in found:
                found.add(target)
                todo.append(target)
    return False


# --- the laws ---------------------------------------------------------------------------------


def check(spec: Spec, calls: Sequence[Made], *, joined: bool, gaps: bool) -> int:
    """Claims after each call are the fewest harms of any completion: how many claims."""
    stepper = Judge(spec).stepper
    position: Position = stepper.anywhere() if joined else stepper.start()
    costs = everywhere(spec) if joined else {spec.machine.initial: 0}
    claimed = lost = 0
    for made in calls:
        token = spec.alphabet.match(made.tool, made.told, made.failed)
        right = stepper.chances(position, token).right
        position, outcome = stepper.step(position, token)
        claimed += outcome is StepEffect.HARMFUL
        costs, may_be_right = taken(spec, costs, made.tokens(spec))
        truth = lost + min(costs.values())
        if stepper.whole:
            assert claimed == truth
            assert right == may_be_right
        else:
            assert claimed <= truth
            assert right or not may_be_right
        if gaps:
            # Anything may have come in between.
            position, costs, lost = stepper.anywhere(), everywhere(spec), truth
            claimed = truth if stepper.whole else claimed
    return claimed


def run(seed: int, cases: int, calls: int) -> int:
    """Random specs of both kinds, each with some sessions: claims that were checked."""
    dice, found = random.Random(seed), 0
    for number in range(cases):
        many = number % 10 == 0
        make = policy if number % 2 else task
        spec = make(dice, (12 if make is policy else 60) if many else 5)
        if spec is None:
            continue
        for _ in range(4):
            length = dice.randint(1, calls)
            made = [Made(dice) for _ in range(length)]
            joined = dice.random() < 0.5
            found += check(spec, made, joined=joined, gaps=joined and dice.random() < 0.2)
    return found


def test_as_many_harms_are_claimed_as_every_completion_has() -> None:
    """Policies and tasks, whole and joined, of few states and many: the number is exact."""
    assert run(seed=1, cases=20, calls=8) > 40


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_as_many_harms_are_claimed_as_every_completion_has_long(seed: int) -> None:
    """The same, often."""
    assert run(seed=100 + seed, cases=2_000, calls=8) > 1_000


def run_in_parts(seed: int, cases: int) -> tuple[int, int]:
    """The same under constraints that are too many to be read together: claims, and sessions."""
    dice, found, sessions = random.Random(seed), 0, 0
    letters = {
        "little": {"tool": "pay", "arguments": {"x": {"max": 5}}},
        "much": {"tool": "pay", "arguments": {"x": {"min": 5.5}}},
        "pay": {"tool": "pay"},
        "a": {"tool": "ask", "arguments": {"y": {"one_of": ["a", "zz"]}}},
        "text": {"tool": "ask", "arguments": {"y": {"type": "string"}}},
        "ask": {"tool": "ask"},
    }
    names = [*letters]
    ring = zip(names, [*names[1:], names[0]], strict=True)
    counts = [{"at_most": [[one, two], 8]} for one, two in ring]
    for _ in range(cases):
        more = [constraint(dice, names) for _ in range(dice.randint(2, 4))]
        spec = _compiled({
            "id": "p", "kind": "policy", "alphabet": letters, "constraints": [*more, *counts],
        })  # fmt: skip
        if spec is None or not any(
            each.code == "too_many_joint_states" for each in spec.findings
        ):
            continue
        for _ in range(10):
            made = [Made(dice) for _ in range(dice.randint(1, 20))]
            found += check(spec, made, joined=False, gaps=False)
            sessions += 1
    return found, sessions


def test_nothing_more_is_claimed_where_constraints_are_read_in_parts() -> None:
    """Harms may be missed there, but none is claimed that some completion lacks."""
    found, sessions = run_in_parts(seed=1, cases=3)
    assert min(found, sessions) > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_nothing_more_is_claimed_where_constraints_are_read_in_parts_long(seed: int) -> None:
    """The same, often."""
    found, sessions = run_in_parts(seed=100 + seed, cases=400)
    assert min(found, sessions) > 1_000


def readings(seed: int, cases: int) -> None:
    dice = random.Random(seed)
    for _ in range(cases):
        spec = policy(dice, 1) or task(dice, 3)
        if spec is None:
            continue
        for _ in range(5):
            made = Made(dice)
            found = spec.alphabet.tokens[spec.alphabet.match(made.tool, made.told, False)]
            true = [spec.alphabet.tokens[token] for token in made.tokens(spec)]
            if made.failed:
                continue
            assert set(found.symbols) == {symbol for each in true for symbol in each.symbols}
            none = any(not each.symbols for each in true)
            assert none == (not found.sure or not found.symbols)


def test_readings_are_the_symbols_that_some_arguments_make_of_a_call() -> None:
    """A reading is a symbol, or none, that some completion of the arguments gives."""
    readings(seed=1, cases=30)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_readings_are_the_symbols_that_some_arguments_make_of_a_call_long(seed: int) -> None:
    """The same, often."""
    readings(seed=100 + seed, cases=3_000)


# --- through the monitor ----------------------------------------------------------------------

START: Final = 1_700_000_000 * SECOND


def told(made: Sequence[Made], *, gaps: bool) -> Iterator[ToolCall]:
    for number, each in enumerate(made):
        start = START + number * SECOND
        yield ToolCall(
            SessionKey("", "s"), "", each.tool, each.told, each.failed, start, start + 1_000,
            b"T" * 16, number.to_bytes(8, "big"), b"P" * 8, "", Evidence.EXECUTED,
            attributes={"service.name": "x"}, gaps=gaps,
        )  # fmt: skip


def through_the_monitor(seed: int, cases: int) -> int:
    dice, found = random.Random(seed), 0
    for number in range(cases):
        spec = (policy if number % 2 else task)(dice, 5)
        if spec is None:
            continue
        made = [Made(dice) for _ in range(dice.randint(1, 7))]
        kind = dice.choice(["whole", "sampled", "young"])
        gaps = kind == "sampled"
        limits = Limits(history_complete=kind == "whole")
        # Long after its start, a monitor has seen every session from its first call.
        monitor = Monitor([spec], limits, started_ns=START - SECOND if kind == "young" else 0)
        wide, costs = everywhere(spec), {spec.machine.initial: 0}
        costs = wide if kind != "whole" else costs
        lost = 0
        for call, each in zip(told(made, gaps=gaps), made, strict=True):
            verdicts = monitor.observe(call, call.end_ns)
            costs, right = taken(spec, costs, each.tokens(spec))
            for verdict in verdicts:
                if verdict.kind is Kind.HARMFUL and kind != "young":
                    assert verdict.certain_call == (not right)
            if gaps:
                lost, costs = lost + min(costs.values()), wide
        truth = lost + min(costs.values())
        found += truth
        shown = next((each for each in monitor.find("s") if each["spec"]), None)
        if shown is None:
            assert truth == 0
            continue
        assert shown["harmful"] == truth
        # Where calls may be missing in between, nothing is said of the session.
        trapped = kind != "sampled" and not any(can_end(spec, state) for state in costs)
        assert shown["can_finish"] == (not trapped)
    return found


def test_the_monitor_claims_as_many_harms() -> None:
    """A session's judgement has the same harms: seen whole, sampled, or soon after the start."""
    assert through_the_monitor(seed=1, cases=50) > 7


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_the_monitor_claims_as_many_harms_long(seed: int) -> None:
    """The same, often."""
    assert through_the_monitor(seed=100 + seed, cases=5_000) > 1_000
