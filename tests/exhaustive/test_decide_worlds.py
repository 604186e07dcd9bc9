"""Decisions in small sessions, compared with all worlds that are possible.

A world fixes what is not known: the state that a joined session begins in, the arguments of its calls,
and the order of siblings that overlap. A call in flight overlaps all later calls, whoever makes them. The oracle
walks the automaton through each order that keeps "ended before it started", in all states at once. A
call may be allowed only if it is harmless in every world. It is denied exactly if the least number of harms, over
all worlds, rises with it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import NamedTuple

import pytest

from monitor import Limits, Monitor
from monitor.decision import Answer, CallDecision
from monitor.judging.deciding.decide_calls import overlapping
from monitor.limits import SECOND
from monitor.records import Evidence, Kind, SessionKey, ToolCall
from monitor.spec.spec import Spec
from tests.exhaustive.test_completions import Made, everywhere, one_step, policy, task

START = 1_700_000_000 * SECOND
IN_FLIGHT = (Evidence.PENDING, Evidence.DECIDED)


class Asked(NamedTuple):
    """A call, and all that it may have been."""

    call: ToolCall
    tokens: frozenset[int]


def asked(
    dice: random.Random, spec: Spec, number: int, start: int, parents: int, *, gaps: bool
) -> Asked:
    """A call of one of the parents; it may have no arguments on the wire, and may not have ended."""
    made, length = Made(dice), dice.choice((0, 0, 1, 3, 8))
    evidence = dice.choice((Evidence.EXECUTED, Evidence.EXECUTED, *IN_FLIGHT))
    if evidence in IN_FLIGHT:
        length = 0
    parent = 1_000 + dice.randint(1, parents)
    start_ns = START + start * SECOND
    call = ToolCall(
        *(SessionKey("", "s"), "", made.tool, made.told, made.failed),
        *(start_ns, start_ns + length * SECOND, b"T" * 16, number.to_bytes(8, "big")),
        *(parent.to_bytes(8, "big"), "", evidence),
        attributes={"service.name": "x"},
        gaps=gaps,
    )
    return Asked(call, frozenset(made.tokens(spec)))


class Truth(NamedTuple):
    """What is so in all possible worlds."""

    harmful: frozenset[bool]
    """Whether the call is harmful, in each world."""
    rises: bool
    """Whether the least number of harms rises with it."""


def worlds(spec: Spec, calls: Sequence[Asked], own: Asked, starts: frozenset[int]) -> Truth:
    """Walks every order of the calls, with the call and without it."""
    found: set[bool] = set()
    with_it = least(spec, calls, starts, own, found)
    others = [each for each in calls if each is not own]
    return Truth(frozenset(found), with_it > least(spec, others, starts))


def least(
    spec: Spec,
    calls: Sequence[Asked],
    starts: frozenset[int],
    own: Asked | None = None,
    found: set[bool] | None = None,
) -> int:
    """The least number of harms of any order and world; `found` takes whether `own` is harmful."""
    placed = sorted(calls, key=lambda each: _order(each.call))
    first = _earlier(placed)
    best = len(placed)
    for order in permutations(range(len(placed))):
        if any(first[place] - set(order[:number]) for number, place in enumerate(order)):
            continue
        costs = dict.fromkeys(starts, 0)
        for place in order:
            after: dict[int, int] = {}
            for (state, cost), token in product(costs.items(), placed[place].tokens):
                target, harmful = one_step(spec, state, token)
                after[target] = min(cost + harmful, after.get(target, len(placed)))
                if placed[place] is own and found is not None:
                    found.add(harmful)
            costs = after
        best = min(best, *costs.values())
    return best


def _earlier(placed: Sequence[Asked]) -> dict[int, set[int]]:
    """By place, the places of the calls that have taken effect before it for certain."""
    last = max((each.call.start_ns for each in placed), default=0) + 1
    found: dict[int, set[int]] = {}
    for place, (call, _) in enumerate(placed):
        found[place] = set()
        for other, (before, _) in enumerate(placed):
            end = before.start_ns
            if before.evidence in IN_FLIGHT:
                end = last
            elif before.parent_span_id == call.parent_span_id:
                end = max(before.end_ns, end)
            if (end, other) < (call.start_ns, place):
                found[place].add(other)
    return found


def _order(call: ToolCall) -> tuple[int, int, bytes]:
    return call.start_ns, call.end_ns, call.span_id


def check(decision: CallDecision, truth: Truth, *, exact: bool) -> Answer | None:
    """The answer is that of the worlds; unknown is always sound, but not where it must be exact."""
    if not decision.specs:
        return None
    [one] = decision.specs
    if one.answer is Answer.DENY:
        assert truth.rises
        assert one.kind is Kind.HARMFUL or False in truth.harmful
    elif one.answer is Answer.ALLOW:
        assert truth.harmful == {False}
    else:
        assert one.missing
        assert not (exact and (truth.rises or truth.harmful == {False}))
    return one.answer


def session(seed: int) -> Counter[str]:
    """A session of which each call is asked about before it is observed; how often each answer came."""
    dice, found = random.Random(seed), Counter[str]()
    spec = (policy if dice.random() < 0.5 else task)(dice, 4)
    if spec is None:
        return found
    spec = replace(
        spec,
        concurrent=dice.choice(("any_order", "strict")),
        enforce=dice.choice(("block", "advise")),
    )
    kind = dice.choice(("whole", "whole", "whole", "young", "gaps"))
    started = START - SECOND if kind == "young" else 0
    monitor = Monitor([spec], Limits(history_complete=kind == "whole"), started_ns=started)
    everything = frozenset(everywhere(spec))
    starts = frozenset({spec.machine.initial}) if kind == "whole" else everything
    parents, start = dice.choice((1, 1, 2)), 0
    exact = parents == 1
    seen: list[Asked] = []
    for number in range(1, dice.randint(2, 6)):
        start += dice.choice((0, 1, 1, 2))
        seen.append(asked(dice, spec, number, start, parents, gaps=kind == "gaps"))
    if dice.random() < 0.3:
        dice.shuffle(seen)
    calls: list[Asked] = []
    for each in seen:
        now = START + start * SECOND + 10 * SECOND
        decision = monitor.decide(each.call, now)
        monitor.observe(each.call, now)
        calls.append(each)
        if kind == "gaps":  # any calls may have come in between
            truth = worlds(spec, [each], each, everything)
        else:
            truth = worlds(spec, calls, each, starts)
        answer = check(decision, truth, exact=exact)
        found[answer.value if answer else "none"] += 1
    if kind != "gaps" and exact:
        _check_together(dice, monitor, spec, calls, starts)
    return found


def _check_together(
    dice: random.Random,
    monitor: Monitor,
    spec: Spec,
    calls: Sequence[Asked],
    starts: frozenset[int],
) -> None:
    """Up to three calls at once, behind all others: each may come before each other one."""
    start = max((each.call.end_ns - START) // SECOND for each in calls) + 1
    group = [asked(dice, spec, number, start, 2, gaps=False) for number in range(91, 94)]
    group = group[: dice.randint(1, 6 - min(5, len(calls)))]
    made = overlapping([_beside(each.call) for each in group])
    decisions = monitor.decide_together(made, START + 60 * SECOND)
    group = [Asked(call, each.tokens) for call, each in zip(made, group, strict=True)]
    committed = list(calls)
    for number, (each, decision) in enumerate(zip(group, decisions, strict=True)):
        if decision.specs:
            is_denied = decision.answer is Answer.DENY
            assert is_denied == fitting(spec, committed, group[number:], starts)
        if decision.enforced is not Answer.DENY:
            committed.append(each)
    for each, decision in zip(group, decisions, strict=True):
        if each in committed:
            found = worlds(spec, committed, each, starts).harmful
            check(decision, Truth(found, decision.answer is Answer.DENY), exact=True)


def _beside(call: ToolCall) -> ToolCall:
    """A call of a question: it overlaps the others, whoever makes them."""
    return call._replace(end_ns=call.start_ns, evidence=Evidence.DECIDED)


def fitting(
    spec: Spec, committed: Sequence[Asked], rest: Sequence[Asked], starts: frozenset[int]
) -> bool:
    """Whether the least number of harms rises with the first of some calls, where any of the rest may be made."""
    own, later = rest[0], rest[1:]
    choices = [
        [*committed, *chosen]
        for count in range(len(later) + 1)
        for chosen in combinations(later, count)
    ]
    without = min(least(spec, each, starts) for each in choices)
    with_it = min(least(spec, [*each, own], starts) for each in choices)
    return with_it > min(without, with_it)


def run(seeds: range) -> Counter[str]:
    """All answers of some sessions."""
    return sum((session(seed) for seed in seeds), Counter[str]())


def test_no_answer_is_given_that_some_world_contradicts() -> None:
    """Random small sessions: sound in all, and exact where all calls have one parent."""
    found = run(range(60))
    assert min(found["allow"], found["deny"], found["unknown"]) > 20


@pytest.mark.parametrize("seed", [10_573, 12_432, 13_814, 21_916, 25_326])
def test_calls_of_one_chain_may_wait_for_others(seed: int) -> None:
    """Alike calls with others between them, and calls of two parents, of which only some orders are certain."""
    session(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_no_answer_is_given_that_some_world_contradicts_long(part: int) -> None:
    """The same, often."""
    assert run(range(10_000 + 5_000 * part, 15_000 + 5_000 * part))["unknown"] > 1_000
