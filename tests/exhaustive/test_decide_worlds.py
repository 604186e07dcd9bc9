"""Decisions in small sessions, compared with all worlds that are possible.

A world fixes what is not known: the state that a joined session begins in, the arguments of its calls,
and the order of siblings that overlap. A call in flight overlaps all its later siblings. The oracle
walks the automaton through each order that keeps "ended before it started", in all states at once. A
call may be allowed only if it is harmless in every world, and denied only if it is harmful in every one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import pytest

from monitor import Limits, Monitor
from monitor.decision import Answer, Decision
from monitor.judging.decide_calls import overlapping
from monitor.limits import SECOND
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.spec import Spec
from tests.exhaustive.test_completions import Made, everywhere, one_step, policy, task

START = 1_700_000_000 * SECOND
IN_FLIGHT = (Evidence.PENDING, Evidence.DECIDED)


class Asked(NamedTuple):
    """A call, and all that it may have been."""

    call: ToolCall
    made: Made


def asked(dice: random.Random, number: int, start: int, parents: int, *, gaps: bool) -> Asked:
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
        *(parent.to_bytes(8, "big"), "", evidence, {"service.name": "x"}),
        gaps=gaps,
    )
    return Asked(call, made)


def worlds(spec: Spec, calls: Sequence[Asked], own: Asked, starts: frozenset[int]) -> set[bool]:
    """Whether the call is harmful, in each possible world."""
    placed = sorted(calls, key=lambda each: _order(each.call))
    last = max(each.call.start_ns for each in calls) + 1
    ends = [last if each.call.evidence in IN_FLIGHT else each.call.end_ns for each in placed]
    first: dict[int, set[int]] = {}
    for place, (call, _) in enumerate(placed):
        first[place] = set()
        for other, (before, _) in enumerate(placed):
            siblings = before.parent_span_id == call.parent_span_id
            end = max(ends[other], before.start_ns) if siblings else before.start_ns
            if (end, other) < (call.start_ns, place):
                first[place].add(other)
    found: set[bool] = set()
    for order in permutations(range(len(placed))):
        if any(first[place] - set(order[:number]) for number, place in enumerate(order)):
            continue
        states = set(starts)
        for place in order:
            tokens = placed[place].made.tokens(spec)
            steps = {one_step(spec, state, token) for state in states for token in tokens}
            if placed[place] is own:
                found |= {harmful for _, harmful in steps}
                break
            states = {state for state, _ in steps}
    return found


def _order(call: ToolCall) -> tuple[int, int, bytes]:
    return call.start_ns, call.end_ns, call.span_id


def check(decision: Decision, found: set[bool], *, exact: bool) -> Answer | None:
    """The answer is that of the worlds; unknown is always sound, but not where it must be exact."""
    if not decision.specs:
        return None
    [one] = decision.specs
    if one.answer is Answer.DENY:
        assert found == {True}
    elif one.answer is Answer.ALLOW:
        assert found == {False}
    else:
        assert one.missing
        assert found == {True, False} or not exact
    return one.answer


def session(seed: int) -> Counter[str]:
    """A session of which each call is asked about before it is observed; how often each answer came."""
    dice, found = random.Random(seed), Counter[str]()
    spec = (policy if dice.random() < 0.5 else task)(dice, 4)
    if spec is None:
        return found
    spec = replace(spec, concurrent=dice.choice(("any_order", "strict")))
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
        seen.append(asked(dice, number, start, parents, gaps=kind == "gaps"))
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
    group = [asked(dice, number, start, 1, gaps=False) for number in range(91, 94)]
    group = group[: dice.randint(1, 6 - min(5, len(calls)))]
    decisions = monitor.decide_together([each.call for each in group], START + 60 * SECOND)
    made = overlapping([each.call for each in group])
    group = [Asked(call, each.made) for call, each in zip(made, group, strict=True)]
    for each, decision in zip(group, decisions, strict=True):
        check(decision, worlds(spec, [*calls, *group], each, starts), exact=True)


def run(seeds: range) -> Counter[str]:
    """All answers of some sessions."""
    return sum((session(seed) for seed in seeds), Counter[str]())


def test_no_answer_is_given_that_some_world_contradicts() -> None:
    """Random small sessions: sound in all, and exact where all calls have one parent."""
    found = run(range(250))
    assert min(found["allow"], found["deny"], found["unknown"]) > 100


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_no_answer_is_given_that_some_world_contradicts_long(part: int) -> None:
    """The same, often."""
    assert run(range(10_000 + 5_000 * part, 15_000 + 5_000 * part))["unknown"] > 1_000
