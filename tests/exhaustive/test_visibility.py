"""Harm is claimed exactly if every world that the doubts and gaps allow has it: by brute force over the worlds.

A world settles every doubt: a call that may be no call of its own was made or not, one of which it is not known
whether it failed did or did not, and in each gap any sequence of calls was made. Worlds are stepped by an
interpreter of a few lines, which knows nothing of positions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations, product
from random import Random
from typing import Any, NamedTuple

import pytest

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.limits import SECOND
from monitor.records import Evidence, Kind
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from tests.samples import sampled

START = 1_700_000_000 * SECOND
TOOLS = "abc"
STATES = 4
NOW = START + 1_000 * SECOND


class Call(NamedTuple):
    """A call in a second of its own."""

    second: int
    tool: str
    doubt: Cause | None

    def observed(self) -> ToolCall:
        start = START + self.second * SECOND
        return ToolCall(
            session=SessionKey("", "s"),
            agent="",
            tool=self.tool,
            arguments={},
            error=False,
            start_ns=start,
            end_ns=start + 1,
            trace_id=b"t" * 16,
            span_id=(self.second + 1).to_bytes(8, "big"),
            parent_span_id=b"",
            call_id="",
            evidence=Evidence.EXECUTED,
            attributes={"service.name": "x"},
            doubts=() if self.doubt is None else (self.doubt,),
        )


class Hole(NamedTuple):
    """Calls may be missing between two seconds."""

    since: int
    until: int
    tool: str

    def noted(self) -> Gap:
        half = SECOND // 2
        since, until = (START + second * SECOND + half for second in (self.since, self.until))
        return Gap(Cause.OUTAGE, since, until, tool=self.tool)


Moves = dict[tuple[int, str], int]


def machine(dice: Random) -> Moves:
    return {
        (state, tool): dice.randrange(STATES)
        for state in range(STATES)
        for tool in TOOLS
        if dice.random() < 0.45
    }


def compiled(moves: Moves) -> Spec | None:
    transitions: dict[str, dict[str, str]] = {f"q{state}": {} for state in range(STATES)}
    for (state, tool), target in moves.items():
        transitions[f"q{state}"][tool] = f"q{target}"
    document: dict[str, Any] = {
        "id": "s",
        "match": {"service.name": "x"},
        "alphabet": {tool: {"tool": tool} for tool in TOOLS},
        "states": list(transitions),
        "initial": "q0",
        "accepting": list(transitions),
        "transitions": transitions,
    }
    return compile_text(json.dumps(document), "s.yaml")[0]


def led_to(moves: Moves, state: int, tools: str) -> set[int]:
    """The states that any number of right calls lead to."""
    found, todo = {state}, [state]
    while todo:
        here = todo.pop()
        for tool in tools:
            target = moves.get((here, tool))
            if target is not None and target not in found:
                found.add(target)
                todo.append(target)
    return found


def versions(call: Call) -> Iterator[str]:
    """What a call may have been: made, `failed`, or `none`."""
    yield "made"
    if call.doubt is Cause.CONTRADICTED:
        yield "failed"
    elif call.doubt is not None:
        yield "none"


def least(moves: Moves, calls: list[Call], holes: list[Hole]) -> int:
    """The fewest harmful calls over all worlds."""
    best = len(calls) + 1
    ordered = sorted(calls)
    for world in product(*(list(versions(call)) for call in ordered)):
        ends = {0: 0}
        last = -1
        for call, version in zip(ordered, world, strict=True):
            for hole in holes:
                if hole.since < call.second and hole.until >= last:
                    ends = missed(moves, ends, hole.tool or TOOLS)
            last = call.second
            ends = stepped(moves, ends, call, version)
        best = min(best, *ends.values())
    return best


def missed(moves: Moves, ends: dict[int, int], tools: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for state, harms in ends.items():
        for target in led_to(moves, state, tools):
            found[target] = min(harms, found.get(target, harms))
    return found


def stepped(moves: Moves, ends: dict[int, int], call: Call, version: str) -> dict[int, int]:
    found: dict[int, int] = {}
    nowhere = all((state, call.tool) not in moves for state in led_to(moves, 0, TOOLS))
    for state, harms in ends.items():
        target = moves.get((state, call.tool))
        if version == "none" and not (call.doubt is Cause.ORPHAN and nowhere):
            after, cost = state, harms
        elif target is None:
            after, cost = state, harms + 1
        else:
            after, cost = (state if version == "failed" else target), harms
        found[after] = min(cost, found.get(after, cost))
    return found


def world(dice: Random) -> tuple[list[Call], list[Hole]]:
    doubts = (None, None, None, Cause.REPLAYED, Cause.ORPHAN, Cause.CONTRADICTED)
    calls = [
        Call(second, dice.choice(TOOLS), dice.choice(doubts))
        for second in range(dice.randrange(1, 6))
    ]
    holes = []
    for _ in range(dice.randrange(3)):
        since = dice.randrange(-1, 5)
        holes.append(Hole(since, since + dice.randrange(3), dice.choice(("", "", *TOOLS))))
    return calls, holes


def judged(
    spec: Spec, calls: list[Call], holes: list[Hole], *, holes_first: bool, fold: bool
) -> dict[str, Any]:
    monitor = Monitor([spec], Limits(history_complete=True, fold=fold), started_ns=0)
    for hole in holes if holes_first else ():
        monitor.gaps.note(hole.noted())
    for call in calls:
        monitor.observe(call.observed(), NOW)
    for hole in () if holes_first else holes:
        monitor.gaps.note(hole.noted())
    monitor.tick(NOW)
    [found] = monitor.find("s")
    del found["coverage"]  # it describes the arrival itself
    return found


@pytest.mark.parametrize("seed", sampled(range(12), range(0, 12, 4)))
def test_harm_is_claimed_exactly_if_every_world_has_it(seed: int) -> None:
    """The number of harmful calls is the least of all worlds, with any automaton, doubts and gaps."""
    dice = Random(seed)
    tried = claimed = possible = 0
    while tried < 150:
        moves = machine(dice)
        spec = compiled(moves)
        if spec is None:
            continue
        tried += 1
        calls, holes = world(dice)
        found = judged(spec, calls, holes, holes_first=dice.random() < 0.5, fold=True)
        wanted = least(moves, calls, holes)
        told = found["harmful"] or any(step.get("possible") for step in found["steps"])

        assert found["harmful"] == wanted, (moves, calls, holes)
        assert told or not least(moves, [call._replace(doubt=None) for call in calls], []), (
            moves,
            calls,
            holes,
        )
        claimed += wanted > 0
        possible += any(step.get("possible") for step in found["steps"])
    assert claimed > 20
    assert possible > 20


@pytest.mark.parametrize("seed", sampled(range(4), range(0, 4, 2)))
def test_the_order_in_which_it_becomes_known_makes_no_difference(seed: int) -> None:
    """Calls in any order, doubts that come and go, gaps before or after: the judgement is the same."""
    dice = Random(seed)
    tried = 0
    while tried < 15:
        spec = compiled(machine(dice))
        if spec is None:
            continue
        tried += 1
        calls, holes = world(dice)
        wanted = judged(spec, calls, holes, holes_first=True, fold=True)
        for order in list(permutations(calls))[:: dice.randrange(1, 5)]:
            assert judged(spec, list(order), holes, holes_first=False, fold=False) == wanted
        assert doubted_late(spec, calls, holes, dice) == wanted


def doubted_late(
    spec: Spec, calls: list[Call], holes: list[Hole], dice: Random
) -> dict[str, Any]:
    """Each call is first seen with another doubt, and each gap is noted, lifted and noted again."""
    monitor = Monitor([spec], Limits(history_complete=True), started_ns=0)
    for call in calls:
        other = dice.choice((None, Cause.REPLAYED, Cause.ORPHAN, Cause.CONTRADICTED))
        monitor.observe(call._replace(doubt=other).observed(), NOW)
        for hole in holes:
            monitor.gaps.note(hole.noted())
        monitor.corrections.amend(call._replace(doubt=other).observed(), call.observed(), NOW)
    for hole in holes:
        monitor.gaps.note(hole.noted())
        monitor.gaps.lift(hole.noted())
        monitor.gaps.note(hole.noted())
    monitor.tick(NOW)
    [found] = monitor.find("s")
    del found["coverage"]
    return found


def test_a_forbidden_call_stays_certain_whatever_its_conversation() -> None:
    """A call that may be another conversation's is wrong in each of them; one that may be none is not."""
    document = {
        "id": "p",
        "kind": "policy",
        "alphabet": {"wipe": {"tool": "wipe"}},
        "constraints": [{"forbid": "wipe"}],
    }
    spec, _ = compile_text(json.dumps(document), "p.yaml")
    assert spec is not None
    for doubt, kind in ((Cause.ORPHAN, Kind.HARMFUL), (Cause.REPLAYED, Kind.SELF_LOOP)):
        monitor = Monitor([spec], Limits(history_complete=True), started_ns=0)
        [verdict] = monitor.observe(Call(0, "wipe", doubt).observed(), NOW)

        assert (verdict.kind, verdict.possible) == (kind, kind is not Kind.HARMFUL)
