"""The naive truth: keep every span, and when all is over sort, join and step.

Nothing here is incremental and nothing is forgotten, so nothing can depend on arrival. It shares
with the monitor what a spec means (alphabet and machine), and nothing of how sessions are kept.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from collector.decode.span import Span
from monitor.automaton.dfa import UNDEFINED
from monitor.automaton.position import COST_MAX
from monitor.spec.spec import Spec

__all__ = ["Found", "judge"]

Costs = dict[int, int]
_TOGETHER_MAX = 6


class Found(NamedTuple):
    """What is found of one session under one spec, in one turn where the spec says so."""

    calls: int
    harmful: int
    states: tuple[str, ...]


class _Call(NamedTuple):
    start: int
    end: int
    span_id: bytes
    parent: bytes
    trace: bytes
    tool: str
    arguments: Mapping[str, Any] | None
    error: bool


def judge(
    spans: Iterable[Span], specs: Sequence[Spec]
) -> dict[tuple[str, str, str | None], Found]:
    """Every judgement by (session, spec, turn).

    Args:
        spans: all that were delivered, in any order, doubles included.
        specs: the loaded specs; each matches on `service.name` or on the agent's name, or
            is a policy that applies everywhere.
    """
    unique = {(span.trace_id, span.span_id): span for span in spans}
    sessions: dict[str, list[Span]] = defaultdict(list)
    names = _sessions(unique.values())
    for span in unique.values():
        sessions[names[span.trace_id]].append(span)
    found: dict[tuple[str, str, str | None], Found] = {}
    for name, own in sessions.items():
        calls = _calls(own)
        for spec in specs:
            if not _binds(spec, own):
                continue
            for turn, part in _parts(spec, calls).items():
                result = _judge(spec, part)
                if result is not None:
                    found[name, spec.id, turn] = result
    return found


def _sessions(spans: Iterable[Span]) -> dict[bytes, str]:
    """By trace, the conversation one of its spans tells, else the trace's own id."""
    names: dict[bytes, str] = {}
    for span in spans:
        told = span.attributes().get("gen_ai.conversation.id")
        if told or span.trace_id not in names:
            names[span.trace_id] = told or span.trace_id.hex()
    return names


def _calls(spans: Iterable[Span]) -> list[_Call]:
    """The calls in order; a span below another of the same call id is a piece of it."""
    tools = [span for span in spans if "gen_ai.tool.name" in span.attributes()]
    outer: dict[tuple[bytes, str], list[Span]] = defaultdict(list)
    for span in tools:
        outer[span.trace_id, span.attributes()["gen_ai.tool.call.id"]].append(span)
    return sorted(map(_call, outer.values()))


def _call(pieces: list[Span]) -> _Call:
    first = min(pieces, key=lambda span: span.start_ns)
    known = [_arguments(span) for span in pieces]
    return _Call(
        first.start_ns,
        first.end_ns,
        first.span_id,
        first.parent_span_id,
        first.trace_id,
        first.attributes()["gen_ai.tool.name"],
        next((each for each in known if each is not None), None),
        any(span.status == 2 for span in pieces),
    )


def _arguments(span: Span) -> Mapping[str, Any] | None:
    text = span.attributes().get("gen_ai.tool.call.arguments")
    found: Mapping[str, Any] | None = None if text is None else json.loads(text)
    return found


def _binds(spec: Spec, spans: Sequence[Span]) -> bool:
    """True where the spec matches one of the services, with the agent that is named first."""
    named: dict[str, Any] = {}
    for span in sorted(spans, key=lambda each: (each.start_ns, each.span_id)):
        agent = span.attributes().get("gen_ai.agent.name")
        if agent:
            named.setdefault("gen_ai.agent.name", agent)
    return any(spec.match.matches({**span.resource.attributes, **named}) for span in spans)


def _placed(calls: Sequence[_Call]) -> list[_Call]:
    """The calls in order: none stands before the one it is a part of."""
    known = {(call.trace, call.span_id): call for call in calls}

    def at(call: _Call) -> int:
        above = known.get((call.trace, call.parent))
        return call.start if above is None else max(call.start, at(above) + 1)

    return sorted(call._replace(start=at(call)) for call in calls)


def _parts(spec: Spec, calls: Sequence[_Call]) -> dict[str | None, list[_Call]]:
    parts: dict[str | None, list[_Call]] = defaultdict(list)
    for call in calls:
        parts[call.trace.hex() if spec.scope == "turn" else None].append(call)
    return parts


def _judge(spec: Spec, calls: Sequence[_Call]) -> Found | None:
    """Steps the calls of one judgement; None where a policy names none of them."""
    tokens = [
        (call, spec.alphabet.match(call.tool, call.arguments, call.error)) for call in calls
    ]
    if spec.kind == "policy":
        meanings = spec.alphabet.tokens
        tokens = [
            (call, token)
            for call, token in tokens
            if meanings[token].symbols or meanings[token].symbol is not None
        ]
    if not tokens:
        return None
    token_of = {(call.trace, call.span_id): token for call, token in tokens}
    placed = _placed([call for call, _ in tokens])
    tokens = [(call, token_of[call.trace, call.span_id]) for call in placed]
    costs: Costs = {spec.machine.initial: 0}
    harmful = 0
    for group in _groups(tokens):
        harms, costs = _step_group(spec, costs, group)
        harmful += harms
    states = sorted(state for state, cost in costs.items() if cost == 0)
    return Found(len(tokens), harmful, tuple(spec.machine.name(state) for state in states))


_Group = list[tuple[_Call, int]]


def _groups(tokens: Sequence[tuple[_Call, int]]) -> list[_Group]:
    """Neighbours of one parent that overlap, in order."""
    groups: list[_Group] = []
    for call, token in tokens:
        last = groups[-1] if groups else []
        together = (
            last
            and (call.trace, call.parent) == (last[-1][0].trace, last[-1][0].parent)
            and call.start < max(each.end for each, _ in last)
        )
        if together:
            last.append((call, token))
        else:
            groups.append([(call, token)])
    return groups


def _step_group(spec: Spec, costs: Costs, group: _Group) -> tuple[int, Costs]:
    """The fewest harms (for a strict policy the most) of any order the calls may have had."""
    if len(group) > _TOGETHER_MAX:
        return _run(spec, costs, group)
    tried = [_run(spec, costs, list(order)) for order in _orders(group)]
    if spec.concurrent == "strict":
        worst = max(harms for harms, _ in tried)
        return next(each for each in tried if each[0] == worst)
    least = min(harms for harms, _ in tried)
    ends: Costs = {}
    for harms, end in tried:
        if harms == least:
            for state, cost in end.items():
                ends[state] = min(cost, ends.get(state, cost))
    return least, ends


def _orders(group: _Group) -> Iterable[tuple[tuple[_Call, int], ...]]:
    """Every order in which no call comes before one that had ended when it started."""
    for places in permutations(range(len(group))):
        broken = any(
            later < earlier and group[later][0].end <= group[earlier][0].start
            for at, earlier in enumerate(places)
            for later in places[at + 1 :]
        )
        if not broken:
            yield tuple(group[place] for place in places)


def _run(spec: Spec, costs: Costs, group: _Group) -> tuple[int, Costs]:
    harms = 0
    for _, token in group:
        costs = _step(spec, costs, token)
        least = min(costs.values())
        harms += least > 0
        costs = {state: cost - least for state, cost in costs.items()}
        costs = {state: cost for state, cost in costs.items() if cost <= COST_MAX}
    return harms, costs


def _step(spec: Spec, costs: Costs, token: int) -> Costs:
    meaning, after = spec.alphabet.tokens[token], dict[int, int]()
    for state, cost in costs.items():
        targets = {spec.machine.step(state, symbol) for symbol in meaning.symbols} - {UNDEFINED}
        if targets and not meaning.effect:
            targets = {state}
        if spec.kind == "policy" and (not meaning.exact or not meaning.symbols):
            targets.add(state)
        for target in targets or {state}:
            new = cost + (not targets)
            after[target] = min(new, after.get(target, new))
    return after
