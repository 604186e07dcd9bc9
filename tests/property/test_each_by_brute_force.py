"""`each` is the same spec run once for each value: brute force over every reading of values that are not known.

The runs go through the whole pipeline, as spans: shuffled, some twice, some in parallel, some without arguments. What is told
of them lies between a floor and a ceiling. The ceiling is exact: what every reading of all unknown values at once has. The floor
is what is certain for one thing by itself, whatever the others are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, combinations, pairwise, product
from typing import Any, Final, NamedTuple

import pytest

from monitor import Limits, Monitor, tool_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.collector.conftest import Bench, Wire

EACH: Final = 'each: {order: {look_up: id, refund: [id, order], close: "ids[*]"}}\n'
BODY: Final = """
alphabet:
  login: {tool: login}
  approve: {tool: approve}
  look_up: {tool: look_up}
  refund: {tool: refund}
  close: {tool: close}
"""
RULES: Final = {
    "order": "kind: policy\nconstraints: [{precedence: [look_up, refund]}, {at_most: [refund, 1]}]",
    "new": "kind: policy\nconstraints: [{alternate_precedence: [[look_up, login], refund]}]",
    "shared": "kind: policy\nconstraints: [{alternate_precedence: [approve, refund]}, {not_coexistence: [close, approve]}]",
    "after": "kind: policy\nconstraints: [{not_succession: [close, [refund, look_up]]}, {precedence: [look_up, close]}]",
    "lenient": "kind: policy\nconcurrent: any_order\nconstraints: [{alternate_precedence: [look_up, [refund, close]]}]",
    "task": "kind: task\nmatch: {service.name: svc}\ngolden: [[login, look_up, refund], [look_up, approve, refund, close]]\nreads: [login]",
}
SHARED: Final = ("login", "approve")
NAMED: Final = ("look_up", "refund", "close")
VALUES: Final = ("A1", "B7", "C3")
NEW: Final = ("new 1", "new 2")
NONE: Final = "none"
RUNS: Final = 20_000
SAMPLE: Final = 75


def spec_of(text: str) -> Spec:
    made, findings = compile_text(f"id: s\n{text}\n{BODY}", "each.yaml")
    assert made is not None, findings
    return made


EVERY: Final = {name: spec_of(EACH + rules) for name, rules in RULES.items()}
ALONE: Final = {name: spec_of(rules) for name, rules in RULES.items()}


class Call(NamedTuple):
    """One call of a run."""

    number: int
    tool: str
    arguments: Mapping[str, Any] | None
    """None where they are not captured."""
    certain: frozenset[str]
    """The values that it carries for certain."""
    is_open: bool
    """True if it may carry others, too."""
    failed: bool
    start: int
    end: int

    @property
    def is_shared(self) -> bool:
        return self.tool in SHARED


def made_run(chance: random.Random) -> list[Call]:
    """A run of up to nine calls, of which at most three have values that are not known."""
    calls: list[Call] = []
    lengths = chance.choice([(5,), (5, 5, 15, 25)])
    for number in range(chance.randint(1, 9)):
        tool = chance.choice((*SHARED, *NAMED, *NAMED))
        may = sum(each.is_open for each in calls) < 3
        arguments, certain, is_open = made_arguments(chance, tool, may_be_open=may)
        start = 10 * number + 1
        calls.append(
            Call(
                number,
                tool,
                arguments,
                certain,
                is_open,
                chance.random() < 0.1,
                start,
                start + chance.choice(lengths),
            )
        )
    return calls


def made_arguments(
    chance: random.Random, tool: str, *, may_be_open: bool
) -> tuple[Mapping[str, Any] | None, frozenset[str], bool]:
    """Arguments, the values that are certain in them, and whether there may be others."""
    if tool in SHARED:
        return {}, frozenset(), False
    if may_be_open and chance.random() < 0.3:
        return made_unknown(chance, tool)
    if tool == "close":
        values = [chance.choice(VALUES) for _ in range(chance.randrange(3))]
        return {"ids": values}, frozenset(values or [NONE]), False
    if chance.random() < 0.1:
        return {}, frozenset([NONE]), False
    value = chance.choice(VALUES)
    name = chance.choice(("id", "order")) if tool == "refund" else "id"
    return {name: value}, frozenset([value]), False


def made_unknown(
    chance: random.Random, tool: str
) -> tuple[Mapping[str, Any] | None, frozenset[str], bool]:
    """Arguments that are not captured, or a mapping where a value should be."""
    if chance.random() < 0.6:
        return None, frozenset(), True
    value = chance.choice(VALUES)
    if tool == "close":
        return {"ids": [value, {"id": value}]}, frozenset([value]), True
    if tool == "refund":
        return {"id": [value], "order": value}, frozenset([value]), True
    return {"id": {"id": value}}, frozenset(), True


# --- brute force -----------------------------------------------------------------------------------

Told = tuple[frozenset[int], str | None, bool]
"""Starts of the harmful calls, the state at the end, and whether it accepts."""


@cache
def alone(name: str, calls: tuple[tuple[str, bool, int, int], ...]) -> Told:
    """What the spec without `each` tells of calls that are all known."""
    monitor = Monitor([ALONE[name]], Limits(history_complete=True, fold=False))
    for tool, failed, start, end in calls:
        call = tool_call(
            tool,
            {},
            session="s",
            error=failed,
            start_ns=start,
            end_ns=end,
            attributes={"service.name": "svc"},
        )
        monitor.observe(call, 1_000)
    for found in monitor.find("s"):
        harmful = {s["start_ns"] for s in found["steps"] if s["kind"] == "harmful"}
        return frozenset(harmful), found["state"], found["accepting"]
    return frozenset(), None, True


def told_of(name: str, calls: Sequence[Call]) -> Told:
    return alone(name, tuple((each.tool, each.failed, each.start, each.end) for each in calls))


Reading = tuple[frozenset[str], ...]
"""The values of each call."""


def readings(run: Sequence[Call]) -> Iterator[Reading]:
    """Every way in which the calls may carry values: any that is seen, and new ones; or none at all."""
    seen = sorted({*NEW, *chain.from_iterable(each.certain for each in run)} - {NONE})
    for chosen in product(*(choices(each, seen) for each in run)):
        yield tuple(chosen)


def choices(call: Call, seen: Sequence[str]) -> list[frozenset[str]]:
    """The values that one call may carry."""
    if not call.is_open:
        return [call.certain]
    most = {"look_up": 1, "refund": 2, "close": 2}[call.tool]
    found = {
        call.certain | set(more)
        for count in range(most + 1)
        for more in combinations(seen, count)
    }
    return [each or frozenset([NONE]) for each in found]


def sub_run(run: Sequence[Call], values: Reading, thing: str) -> list[Call]:
    """The calls that carry a thing, and those of tools that `each` does not name."""
    return [
        each for each, its in zip(run, values, strict=True) if each.is_shared or thing in its
    ]


def harms(name: str, run: Sequence[Call], values: Reading) -> frozenset[int]:
    """The calls that are harmful in one reading: for one of its things, or for no thing."""
    found = told_of(name, [each for each in run if each.is_shared])[0]
    for thing in frozenset().union(*values):
        found |= told_of(name, sub_run(run, values, thing))[0]
    return found


def by_thing(name: str, run: Sequence[Call], thing: str) -> list[Told]:
    """What is told of a thing, with and without each of the calls that may carry it."""
    options = [
        [True] if each.is_shared or thing in each.certain else [True, False] if each.is_open else [False]
        for each in run
    ]  # fmt: skip
    return [
        told_of(name, [each for each, its in zip(run, own, strict=True) if its])
        for own in product(*options)
    ]


# --- the service -----------------------------------------------------------------------------------


def judged(name: str, run: Sequence[Call], chance: random.Random) -> dict[str, Any] | None:
    """The judgement of the run, whose spans come in any order, some of them twice; None where nothing was judged."""
    wire, bench = Wire(), Bench([EVERY[name]])
    spans = [
        wire.tool(
            call.tool,
            call_id=f"call-{call.number}",
            arguments=call.arguments,
            id=f"span-{call.number}",
            start=call.start,
            end=call.end,
            status=2 if call.failed else 0,
            attributes={"gen_ai.conversation.id": "s"},
        )
        for call in run
    ]
    again = chance.sample(spans, chance.randint(0, len(spans)))
    bench.send(*chance.sample([*spans, *again], len(spans) + len(again)))
    return next(iter(bench.monitor.find("s")), None)


def started(found: Mapping[str, Any], base: int) -> dict[int, Mapping[str, Any]]:
    """Start in seconds -> the harmful step."""
    return {
        (step["start_ns"] - base) // 1_000_000_000: step
        for step in found["steps"]
        if step["kind"] == "harmful"
    }


def assert_between_floor_and_ceiling(seed: int) -> None:
    """One run under one spec."""
    chance = random.Random(seed)
    name, run = chance.choice(sorted(RULES)), made_run(chance)
    found = judged(name, run, chance)
    assert found is not None
    base = Wire().tool("x", start=0).start_ns
    claimed = started(found, base)

    ceiling = [harms(name, run, each) for each in readings(run)]
    assert len(claimed) <= min(map(len, ceiling)), (
        "more calls are claimed than some reading has"
    )

    floor = told_of(name, [each for each in run if each.is_shared])[0]
    most = len(floor)
    things = {thing["value"]: thing for thing in found.get("things") or ()}
    assert things.keys() >= frozenset().union(*(each.certain for each in run))
    for thing, told in things.items():
        ways = by_thing(name, run, thing)
        floor |= frozenset.intersection(*(each[0] for each in ways))
        assert told["harmful"] == min(len(each[0]) for each in ways), thing
        most = max(most, told["harmful"])
        states: set[str | None] = {each[1] for each in ways}
        assert told["state"] in (states if len(ways) == 1 else {*states, None}), thing
    assert len(claimed) >= most, "fewer calls are claimed than one thing has harms"
    if is_decided(run):
        named = {start for start, step in claimed.items() if step.get("certain_call", True)}
        assert named <= frozenset.intersection(*ceiling), "some reading lacks a named call"
        assert floor <= claimed.keys(), "a call is missed that is certain for one thing"


def is_decided(run: Sequence[Call]) -> bool:
    """True if it is certain which calls are harmful: of calls that overlap ones of unknown values only their number is."""
    in_order = all(one.end <= other.start for one, other in pairwise(run))
    return in_order or not any(each.is_open for each in run)


def test_a_sample_lies_between_floor_and_ceiling() -> None:
    """The first runs of the law below."""
    for seed in range(SAMPLE):
        assert_between_floor_and_ceiling(seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_runs_lie_between_floor_and_ceiling() -> None:
    """20,000 runs: shuffled, doubled, parallel, with unknown values. None claims too much, none misses what one thing shows."""
    for seed in range(RUNS):
        assert_between_floor_and_ceiling(seed)
