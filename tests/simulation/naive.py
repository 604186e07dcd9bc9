"""The naive truth: keep every span, and when all is over sort, join and step.

Nothing here is incremental and nothing is forgotten, so nothing can depend on arrival. It shares
with the monitor what a spec means (alphabet and machine), and nothing of how sessions are kept.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from collector.decode.span import Span
from monitor.automaton.dfa import UNDEFINED
from monitor.automaton.position import COST_MAX
from monitor.spec.spec import Spec

__all__ = ["Found", "judge"]

Costs = dict[int, int]
_End = tuple[tuple[int, int], ...]
_Path = tuple[int, tuple[int, ...]]
"""Harms, and the order as places."""


class Found(NamedTuple):
    """The result of one session under one spec, in one turn if the spec judges turns."""

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
    answer: bytes = b""
    """The first call of a chain of which one model answer may have asked for all; b"" for a call in no chain."""


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
    return _chained(sorted(map(_call, outer.values())))


def _chained(calls: Sequence[_Call]) -> list[_Call]:
    """Has each call of a chain name its first one: a call below another one may not be made by it, if both overlap."""
    known = {(call.trace, call.span_id): call for call in calls}

    def head(call: _Call) -> bytes:
        above = known.get((call.trace, call.parent))
        return call.span_id if above is None or not _overlap(above, call) else head(above)

    heads = [(call.trace, head(call)) for call in calls]
    several = {each for each in heads if heads.count(each) > 1}
    return [
        call._replace(answer=first[1]) if first in several else call
        for call, first in zip(calls, heads, strict=True)
    ]


def _overlap(one: _Call, other: _Call) -> bool:
    first, second = sorted((one, other))
    return first.end > second.start or first.start == second.start


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
    """The calls in order; a call never precedes the one it is a part of."""
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
            if meanings[token].symbols
            or meanings[token].named
            or meanings[token].symbol is not None
        ]
    if not tokens:
        return None
    token_of = {(call.trace, call.span_id): token for call, token in tokens}
    placed = _placed([call for call, _ in tokens])
    tokens = [(call, token_of[call.trace, call.span_id]) for call in placed]
    ways: dict[_End, _Path] = {((spec.machine.initial, 0),): (0, ())}
    for group in _groups(tokens, by_answer=spec.concurrent != "strict"):
        ways = _step_group(spec, ways, group)
    sign = -1 if spec.concurrent == "strict" else 1
    harmful = sign * min(sign * harms for harms, _ in ways.values())
    best = {end: places for end, (harms, places) in ways.items() if harms == harmful}
    if sign < 0:
        best = {end: places for end, places in best.items() if places == min(best.values())}
    states = sorted({state for end in best for state, cost in end if cost == 0})
    return Found(len(tokens), harmful, tuple(spec.machine.name(state) for state in states))


_Group = list[tuple[_Call, int]]


def _groups(tokens: Sequence[tuple[_Call, int]], *, by_answer: bool) -> list[_Group]:
    """Groups of calls that are judged together, in order.

    Siblings that hang together by overlap are (calls without a parent are siblings in all traces), and those that one answer may have asked for, and so are the calls that
    stand between them. One of these that overlaps none of its own siblings stands where it started: it ends there.
    """
    asked = _asked(tokens) if by_answer else []
    runs: list[list[int]] = []
    open_: dict[tuple[bytes, bytes], list[int]] = {}
    for place, (call, _) in enumerate(tokens):
        siblings = (call.trace if call.parent else b"", call.parent)
        run = open_.get(siblings, [])
        if run and call.start < max(tokens[before][0].end for before in run):
            run.append(place)
        else:
            open_[siblings] = [place]
            runs.append(open_[siblings])
    beside = {place for run in runs + asked for place in run if len(run) > 1}
    until = {place: tokens[run[-1]][0].start + 1 for run in asked for place in run}
    groups: list[_Group] = []
    over = -1
    for place, (call, token) in enumerate(tokens):
        if place > over:
            groups.append([])
        over = max(
            [over, place, *(run[-1] for run in runs + asked if run[0] <= place <= run[-1])]
        )
        end = max(call.end, until.get(place, 0)) if place in beside else call.start
        groups[-1].append((call._replace(end=end), token))
    return groups


def _asked(tokens: Sequence[tuple[_Call, int]]) -> list[list[int]]:
    """The places of the calls of each answer that has several."""
    places: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
    for place, (call, _) in enumerate(tokens):
        if call.answer:
            places[call.trace, call.answer].append(place)
    return [each for each in places.values() if len(each) > 1]


def _step_group(spec: Spec, ways: Mapping[_End, _Path], group: _Group) -> dict[_End, _Path]:
    """The best order to each end: of the fewest harms, for a strict policy of the most.

    Of equals it is the one nearest to the starts.
    """
    sign = -1 if spec.concurrent == "strict" else 1
    found: dict[_End, _Path] = {}
    for before, (harms, places) in ways.items():
        for end, (more, own) in _tried(spec, dict(before), group).items():
            path = (harms + more, (*places, *own))
            known = found.get(end, path)
            found[end] = min(path, known, key=lambda each: (sign * each[0], each[1]))
    return found


def _tried(spec: Spec, costs: Costs, group: _Group) -> dict[_End, _Path]:
    """Tries every order in which no call precedes one that had ended when it started.

    Of those that have taken the same calls and led to the same costs, the best goes on, and of
    equals the one nearest to the start order.
    """
    sign = -1 if spec.concurrent == "strict" else 1
    after = [
        {place for place, (other, _) in enumerate(group[:own]) if other.end <= call.start}
        for own, (call, _) in enumerate(group)
    ]
    layer: dict[tuple[frozenset[int], _End], _Path] = {
        (frozenset(), tuple(sorted(costs.items()))): (0, ())
    }
    for _ in group:
        following: dict[tuple[frozenset[int], _End], _Path] = {}
        for (done, before), (harms, places) in layer.items():
            for place in set(range(len(group))) - done:
                if after[place] <= done:
                    harm, end = _run(spec, dict(before), group[place])
                    path = (harms + harm, (*places, place))
                    key = (done | {place}, tuple(sorted(end.items())))
                    known = following.get(key, path)
                    following[key] = min(
                        path, known, key=lambda each: (sign * each[0], each[1])
                    )
        layer = following
    return {end: path for (_, end), path in layer.items()}


def _run(spec: Spec, costs: Costs, call: tuple[_Call, int]) -> tuple[int, Costs]:
    costs = _step(spec, costs, call[1])
    least = min(costs.values())
    costs = {state: cost - least for state, cost in costs.items()}
    return int(least > 0), {state: min(cost, COST_MAX) for state, cost in costs.items()}


def _step(spec: Spec, costs: Costs, token: int) -> Costs:
    """Takes a call in every state by every reading: allowed ones move, refused ones stay at one harm more."""
    meaning, after = spec.alphabet.tokens[token], dict[int, int]()
    none = not meaning.symbols or not meaning.sure
    for state, cost in costs.items():
        targets = {spec.machine.step(state, symbol) for symbol in meaning.symbols}
        refused = UNDEFINED in targets or (none and spec.kind != "policy")
        targets -= {UNDEFINED}
        if targets and not meaning.effect:
            targets = {state}
        if none and spec.kind == "policy":
            targets.add(state)
        for target in targets:
            after[target] = min(cost, after.get(target, cost))
        if refused:
            after[state] = min(cost + 1, after.get(state, cost + 1))
    return after
