"""Twins: other truths of which the same spans are written, so that nobody can tell which of the two is true.

Idea: a harm that is told for certain and is not true is no fault of the monitor's if it is true in a twin. That is proven, not
said: the twin's truth is made by the fault's own function, its spans by the same emitters and the other faults, and the set
of these spans is that of the spans sent, byte for byte. When they arrive proves nothing, as a request may be late, or sent again,
whatever it holds.

What was sent is taken at its word. A call of which nothing was sent by then was not made. An agent whose span was not sent
is still at work, and so is a call that a span names as its parent. What a fault has chosen by chance, it may have chosen in the twin, too.

Example: an exporter drops the spans of `check` and of the agent. What is left is `pay`, below a span that was not sent. In the
twin the agent made no call but `pay`, which is harmful, and its run goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from tests.simulation.worlds.fault import Fault
from tests.simulation.worlds.spans import Span, body
from tests.simulation.worlds.truth import Answer, Turn
from tests.simulation.worlds.world import Change, Plan, World, build


def twins(world: World, until: float) -> Iterator[World]:
    """The twins of a world as of a moment, in seconds since it began; none if what was sent by then tells it from all others."""
    sent = [span for span in world.spans if span.sent <= until]
    for other in _candidates(world, sent):
        if _is_written_as(other, sent, is_over=until >= world.end()):
            yield other


def _candidates(world: World, sent: Sequence[Span]) -> Iterator[World]:
    """Worlds of another truth that may be written alike."""
    assert world.plan is not None
    for plan in _stories(world.plan):
        if plan != world.plan:
            yield build(plan, choices=world.choices)
        kinds = [each for each in plan.faults if each.twin is not None]
        for number in range(1, len(kinds) + 1):
            for chosen in combinations(kinds, number):
                for without in (chosen, plan.faults):  # nor need the others happen there
                    change = _change(chosen, sent)
                    yield _in_order(build(plan, change, without=without, choices=world.choices))


def _stories(plan: Plan) -> list[Plan]:
    """The plan; and the one in which its faults have the other story that writes the same spans."""
    others = tuple([replace(each, change=each.instead or each.change) for each in plan.faults])
    return [plan] if others == plan.faults else [plan, replace(plan, faults=others)]


def _change(faults: Sequence[Fault], sent: Sequence[Span]) -> Change:
    """What makes the truth another one."""

    def change(other: World) -> None:
        for each in faults:
            if each.twin is not None:
                each.twin(other, sent)

    return change


def _is_written_as(world: World, sent: Sequence[Span], *, is_over: bool) -> bool:
    """Whether these spans are what is written of a world.

    If nothing is sent any more, that is all of it, but for agents and calls that are still at work.
    """
    known, at_work = _written(sent), {span.parent for span in sent}
    missing = [span for span in world.spans if body([span]) not in known]
    return (
        known <= _written(world.spans)
        and all(span.start <= span.end for span in sent)
        and not (
            is_over and any(span.role != "root" and span.id not in at_work for span in missing)
        )
    )


def _in_order(world: World) -> World:
    """The world, its answers in the order of their times."""
    for conversation in world.conversations:
        answers = [each for each in conversation.answers() if each.calls]
        conversation.turns = [Turn(sorted(answers, key=_start))]
    return world


def skipped(world: World, sent: Sequence[Span]) -> None:
    """Calls without a span were never made, but for those that a model asks for, or that a span names as its parent."""
    told = {call.number for span in sent for call in span.calls}
    told |= set(_open(world, sent))
    for conversation in world.conversations:
        for answer in conversation.answers():
            answer.calls = [call for call in answer.calls if call.number in told]
        for turn in conversation.turns:
            turn.answers = [answer for answer in turn.answers if answer.calls]


def at_their_times(world: World, sent: Sequence[Span]) -> None:
    """Calls were made when their spans say, and none was made of which no span was sent."""
    skipped(world, sent)
    moved = _moved(world, sent)
    for conversation in world.conversations:
        for turn in conversation.turns:
            by = 0.0
            for call in [call for answer in turn.answers for call in answer.calls]:
                by = moved.get(call.number, by)
                call.start, call.end = call.start + by, call.end + by
            turn.start, turn.end = turn.start + by, turn.end + by
            turn.answers.sort(key=_start)
        conversation.turns.sort(key=lambda turn: turn.start)


def _moved(world: World, sent: Sequence[Span]) -> dict[int, float]:
    """By how much the faults that have twins have moved the times of each call, by its number."""
    assert world.plan is not None
    kinds = [each for each in world.plan.faults if each.twin is not None]
    begun = {
        span.id: span.start
        for span in build(world.plan, without=kinds, choices=world.choices).spans
    }
    found = {
        span.calls[0].number: span.start - begun[span.id]
        for span in sent
        if span.role == "tool" and span.id in begun
    }
    for outer, inner in _open(world, sent).items():
        found.setdefault(outer, inner.start - begun.get(inner.id, inner.start))
    for span in sent:
        for call in span.calls if span.id in begun else ():
            found.setdefault(call.number, span.start - begun[span.id])
    return found


def _open(world: World, sent: Sequence[Span]) -> dict[int, Span]:
    """Calls of which no span was sent, though one below it was: they go on. By number, with that span."""
    assert world.plan is not None
    kinds = [each for each in world.plan.faults if each.twin is not None]
    parents = {span.parent: span for span in sent if span.parent}
    return {
        span.calls[0].number: parents[span.id]
        for span in build(world.plan, without=kinds, choices=world.choices).spans
        if span.role == "tool" and span.id in parents and span.calls
    }


def at_once(world: World, sent: Sequence[Span]) -> None:
    """Calls that other calls' tools made were asked for together with these: the tracer has written them as their children."""
    answers = [each for conversation in world.conversations for each in conversation.answers()]
    holders = {call.number: answer for answer in answers for call in answer.calls}
    for inner, outer in world.within.items():
        own, upper = holders.get(inner), holders.get(outer)
        if own is not None and upper is not None and own is not upper:
            upper.calls += own.calls
            holders |= {call.number: upper for call in own.calls}
            own.calls = []


def _written(spans: Sequence[Span]) -> set[bytes]:
    return {body([span]) for span in spans}


def _start(answer: Answer) -> float:
    return min(call.start for call in answer.calls)
