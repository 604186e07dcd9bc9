"""Overlapping calls in small sessions: the results equal those of trying every order.

A world is a small random spec and a few calls of several parents, which overlap, and arrive in any
order while time goes on; some were misread at first, and some are no calls at all. The oracle knows
the machine of the spec and the times of the calls, and tries every order that they may have had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from random import Random
from typing import Any, NamedTuple

import pytest

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.automaton.dfa import UNDEFINED
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

START = 1_700_000_000 * SECOND
KEY = SessionKey("", "s")
LETTERS = "abcd"
GROUP_MAX = 5
TEMPLATES = (
    *("precedence", "alternate_precedence", "chain_precedence", "response"),
    *("alternate_response", "chain_response", "succession", "alternate_succession"),
    *("chain_succession", "not_succession", "not_chain_succession", "not_co_existence"),
)
ARRIVAL = ("late_calls", "coverage", "steps_folded", "ended")
"""What of an object tells of the arrival."""
SCORES = ("harm_rate", "prefix_crit", "pc", "pc_ktc", "pc_hlr", "efficiency")


class World(NamedTuple):
    """A spec, and the calls of one session in the order of their starts."""

    spec: Spec
    calls: list[ToolCall]


# --- worlds -------------------------------------------------------------------------------------


def spec_of(chance: Random, *, arguments: bool = False) -> Spec:
    """A task of golden paths or of any automaton, or a policy; one symbol may ask for arguments."""
    told = {each: f"{each}: {{tool: {each}}}" for each in LETTERS}
    if arguments:
        told["b"] = "b: {tool: b, arguments: {n: 1}}"
    alphabet = ", ".join(told.values())
    text = f"id: small\nmatch: {{service.name: shop}}\nalphabet: {{{alphabet}}}\n"
    kind = chance.choice(("golden", "automaton", "policy", "policy"))
    if kind == "policy":
        rules = []
        for _ in range(chance.randint(1, 3)):
            pair = ", ".join(chance.sample(LETTERS, 2))
            limit = f"{{at_most: [{chance.choice(LETTERS)}, {chance.randint(1, 2)}]}}"
            rules.append(chance.choice((f"{{{chance.choice(TEMPLATES)}: [{pair}]}}", limit)))
        text += f"kind: policy\nconstraints: [{', '.join(rules)}]\n"
    elif kind == "golden":
        paths = [chance.choices(LETTERS, k=chance.randint(1, 4)) for _ in range(3)]
        text += f"golden: [{', '.join('[' + ', '.join(path) + ']' for path in paths)}]\n"
    else:
        states = ["p", "q", "r", "s"]
        edges = {
            state: {each: chance.choice(states) for each in LETTERS if chance.random() < 0.5}
            for state in states
        }
        moves = [
            f"{state}: {{{', '.join(f'{each}: {to}' for each, to in goes.items() if to != state)}}}"
            for state, goes in edges.items()
        ]
        reads = [
            f"{state}: [{', '.join(each for each, to in goes.items() if to == state)}]"
            for state, goes in edges.items()
        ]
        text += f"initial: p\naccepting: [s]\ntransitions: {{{', '.join(moves)}}}\n"
        text += f"reads: {{{', '.join(reads)}}}\n"
    if chance.random() < 0.5:
        text += f"concurrent: {chance.choice(('strict', 'any_order'))}\n"
    if kind != "policy" and chance.random() < 0.3:
        text += "again: true\n"
    spec, _ = compile_text(text, "small.yaml")
    return spec_of(chance, arguments=arguments) if spec is None else spec


def call(number: int, tool: str, start: int, end: int, parent: int = 0) -> ToolCall:
    """A call of some seconds; its span id is its number, from 1."""
    return ToolCall(
        session=KEY,
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=START + start * SECOND // 10,
        end_ns=START + end * SECOND // 10,
        trace_id=b"t" * 16,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"" if not parent else (1000 + parent).to_bytes(8, "big"),
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"service.name": "shop"},
    )


def world_of(chance: Random, most: int = 7) -> World:
    """Calls of one to three parents, with groups of at most five that are judged together."""
    spec, parents = spec_of(chance), chance.randint(1, 3)
    while True:
        made, start = [], 0
        for _ in range(chance.randint(2, most)):
            start += chance.choice((0, 1, 1, 2, 3, 6))
            tool = chance.choice(LETTERS) if chance.random() < 0.95 else "zzz"
            length = chance.choice((0, 1, 2, 3, 5, 9))
            made.append((start, start + length, chance.randint(1, parents), tool))
        made.sort(key=lambda each: each[:2])
        calls = [
            call(number, tool, start, end, parent)
            for number, (start, end, parent, tool) in enumerate(made, 1)
        ]
        if all(len(group) <= GROUP_MAX for group in groups(calls)):
            return World(spec, calls)


# --- the oracle -----------------------------------------------------------------------------------


def groups(calls: Sequence[ToolCall]) -> list[list[int]]:
    """Places that are judged together: siblings connected by overlap, and all places between them."""
    count = len(calls)
    reach = list(range(count))
    for siblings in _siblings(calls):
        for place in range(siblings[0], siblings[-1] + 1):
            reach[place] = max(reach[place], siblings[-1])
    found: list[list[int]] = []
    over = -1
    for place in range(count):
        if place > over:
            found.append([])
        found[-1].append(place)
        over = max(over, reach[place])
    return found


def _siblings(calls: Sequence[ToolCall]) -> list[list[int]]:
    """Places of calls of one parent connected by overlap, if there are several."""
    found: list[list[int]] = []
    for parent in {each.parent_span_id for each in calls}:
        run: list[int] = []
        for place, each in enumerate(calls):
            if each.parent_span_id != parent:
                continue
            if run and each.start_ns < max(calls[before].end_ns for before in run):
                run.append(place)
                continue
            found.append(run)
            run = [place]
        found.append(run)
    return [run for run in found if len(run) > 1]


def orders(calls: Sequence[ToolCall]) -> Iterator[list[int]]:
    """Every order that keeps "ended before it started", the one nearest to the starts first."""
    beside = {place for run in _siblings(calls) for place in run}
    ends = [each.end_ns if n in beside else each.start_ns for n, each in enumerate(calls)]

    def may_be(places: Sequence[int]) -> bool:
        return not any(
            later < earlier and ends[later] <= calls[earlier].start_ns
            for index, earlier in enumerate(places)
            for later in places[index + 1 :]
        )

    each_group = [
        [places for places in permutations(group) if may_be(places)] for group in groups(calls)
    ]
    for chosen in product(*each_group):
        yield [place for places in chosen for place in places]


def harms(spec: Spec, tools: Sequence[str]) -> int:
    """How many calls are harmful where they came one after the other."""
    machine, count = spec.machine, 0
    state = machine.initial
    for tool in tools:
        if tool not in LETTERS:
            count += spec.kind == "task"
            continue
        symbol = machine.symbols.index(tool) if tool in machine.symbols else None
        if symbol is None:
            count += spec.kind == "task"
            continue
        target = machine.step(state, symbol)
        if target == UNDEFINED and spec.again and machine.accepts(state):
            target = machine.step(machine.initial, symbol)
        if target == UNDEFINED:
            count += 1
        else:
            state = target
    return count


def best_order(world: World) -> tuple[int, list[int]]:
    """The fewest harms, or the most where the spec is strict; and the first order that has them."""
    sign = -1 if world.spec.concurrent == "strict" else 1
    best: tuple[int, list[int]] | None = None
    for places in orders(world.calls):
        found = sign * harms(world.spec, [world.calls[place].tool for place in places])
        if best is None or found < best[0]:
            best = found, places
    assert best is not None
    return sign * best[0], best[1]


# --- what is told -----------------------------------------------------------------------------------


class Told(NamedTuple):
    """The results of a session: its judgement, final verdicts by span, and the final counter."""

    found: dict[str, Any]
    final: list[bytes]
    counted: int


def told(spec: Spec, events: Sequence[tuple[int, str, Any]], *, fold: bool = True) -> Told:
    """Sends (now, event, calls) to a monitor, and returns the results at the end."""
    monitor, final = Monitor([spec], Limits(history_complete=True, fold=fold)), list[bytes]()
    monitor.on_final(lambda verdict: final.append(verdict.span_id))
    for now, what, made in events:
        if what == "tick":
            monitor.tick(now)
        elif what == "retract":
            monitor.corrections.retract(made)
        elif what == "amend":
            monitor.corrections.amend(made[0], made[1], now)
        else:
            monitor.observe(made, now)
    monitor.close(START + 600 * SECOND)
    counted = sum(sum(pair.final.values()) for pair in monitor.totals.pairs.values())
    objects = monitor.find("s")
    return Told(objects[0] if objects else {}, sorted(final), counted)


def arrival(chance: Random, calls: Sequence[ToolCall]) -> list[tuple[int, str, Any]]:
    """Calls in any order within the window, with ticks and corrected readings."""
    begin = max(each.end_ns for each in calls)
    spread = 9 * SECOND
    events: list[tuple[int, str, Any]] = []
    for each in calls:
        now = begin + chance.randrange(spread)
        if chance.random() < 0.15:
            other = each._replace(
                tool=chance.choice(LETTERS),
                end_ns=each.end_ns + chance.randrange(SECOND),
            )
            events += [(now - SECOND // 2, "call", other), (now, "amend", (other, each))]
        else:
            events.append((now, "call", each))
    for number in range(chance.choice((0, 0, 1, 2))):
        start = chance.randrange(20)
        none = call(90 + number, chance.choice(LETTERS), start, start + chance.randrange(9), 1)
        now = begin + chance.randrange(spread)
        events += [(now, "call", none), (now + 1, "retract", none)]
    for _ in range(chance.randint(0, 40)):
        events.append((begin + chance.randrange(25 * SECOND), "tick", None))
    return sorted(events, key=lambda each: each[0])


def in_turn(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls as if each had started after the one before it ended."""
    return [
        each._replace(start_ns=START + n * SECOND, end_ns=START + n * SECOND + 1)
        for n, each in enumerate(calls)
    ]


def check(seed: int) -> None:
    """Checks one world: its harms and scores do not depend on arrival or folding."""
    chance = Random(seed)
    world = world_of(chance)
    spec, calls = world
    events = arrival(chance, calls)
    live = told(spec, events)
    if not live.found or live.found["spec"] is None:
        return
    judged = [
        each for each in calls if spec.kind == "task" or each.tool in spec.machine.symbols
    ]
    count, places = best_order(World(spec, judged))
    assert live.found["harmful"] == count, seed
    harmful = [s["span_id"] for s in live.found["steps"] if s["kind"] == "harmful"]
    assert len(harmful) == live.counted == count, seed
    assert [each.hex() for each in live.final] == sorted(harmful), seed
    assert all(step["final"] for step in live.found["steps"]), seed

    turn = [
        (START + 100 * SECOND, "call", each) for each in in_turn([judged[p] for p in places])
    ]
    plain = told(spec, turn).found
    assert plain["harmful"] == count, seed
    for key in (*SCORES, "substantive", "calls", "accepting"):
        if key == "accepting" and spec.concurrent != "strict":
            continue
        assert live.found[key] == plain[key], (seed, key, live.found[key], plain[key])
    assert _episodes(live.found) == _episodes(plain), seed

    ordered = told(spec, [(START + 100 * SECOND, "call", each) for each in calls], fold=False)
    assert _lasting(live.found) == _lasting(ordered.found), seed
    assert live[1:] == ordered[1:], seed


def _episodes(found: dict[str, Any]) -> list[dict[str, Any]]:
    episodes: list[dict[str, Any]] = found["episodes"]
    return episodes


def _lasting(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in ARRIVAL}


def long_session(chance: Random, *, arguments: bool) -> list[tuple[int, str, Any]]:
    """Calls of minutes, most of them one by one, received seconds late; ticks between them.

    With `arguments` some of these are wrong or not known, and some calls fail.
    """
    events: list[tuple[int, str, Any]] = []
    start, parents = 0, chance.randint(1, 2)
    crowded = chance.choice((0.05, 0.2))
    for number in range(1, chance.randint(90, 220)):
        beside = chance.random() < crowded
        start += chance.choice((0, 1)) if beside else 10
        length = chance.choice((3, 8)) if beside else chance.choice((0, 1, 12))
        tool = chance.choice(LETTERS) if chance.random() < 0.6 else "a"
        made = call(number, tool, start, start + length, chance.randint(1, parents))
        if arguments:
            given = chance.choices(({"n": 1}, {"n": 2}, None), (20, 1, 1))[0]
            made = made._replace(arguments=given, error=chance.random() < 0.05)
        now = made.end_ns + chance.randrange(4 * SECOND)
        events += [(now, "call", made), (now + chance.randrange(SECOND), "tick", None)]
    return sorted(events, key=lambda each: each[0])


def check_long(seed: int) -> bool:
    """Checks that folding changes no result of a long session; True if it was folded."""
    chance = Random(seed)
    arguments = chance.random() < 0.5
    spec = spec_of(chance, arguments=arguments)
    events = long_session(chance, arguments=arguments)
    folded, whole = told(spec, events), told(spec, events, fold=False)
    ordered = sorted((made for _, what, made in events if what == "call"), key=_in_order)
    now = events[-1][0]
    replayed = told(spec, [(now, "call", made) for made in ordered], fold=False)
    for found in (folded.found, whole.found, replayed.found):
        found.pop("steps", None)
    assert _lasting(folded.found) == _lasting(whole.found) == _lasting(replayed.found), seed
    assert folded[1:] == whole[1:] == replayed[1:], seed
    return bool(folded.found.get("steps_folded"))


def _in_order(made: ToolCall) -> tuple[int, int, bytes]:
    return made.start_ns, made.end_ns, made.span_id


def test_long_sessions() -> None:
    """Folded or not, received as they come or replayed in order: one object, and the same counters."""
    assert sum(check_long(seed) for seed in range(6)) > 2


def test_what_is_folded_goes_on_along_its_own_way() -> None:
    """Overlapping calls of unknown arguments end in one uncertain position; the scores follow one order of them."""
    assert check_long(1_472)


@pytest.mark.long
def test_many_long_sessions() -> None:
    """The same of many more."""
    for seed in range(1_000, 5_000):
        check_long(seed)


def test_small_worlds() -> None:
    """Harms, final verdicts, final counters and scores are those of the best of all orders."""
    for seed in range(80):
        check(seed)


@pytest.mark.long
def test_many_small_worlds() -> None:
    """The same of many more."""
    for seed in range(10_000, 60_000):
        check(seed)
