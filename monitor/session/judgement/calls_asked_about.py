"""Where a session may be before calls that are asked about, in all worlds that are possible.

Idea: a verdict follows one order of overlapping calls, and the states with the fewest harms. Before a call is made it
matters what else may be true. So every position that the session may be in is collected, each with the fewest harms
that lead to it (`positions_before`): by all ways through overlapping calls, and in the reading that allows for all that
may be missing. Behind the first call in flight, all orders of the calls are possible that keep "ended before it started"
(`concurrent_calls`).

A call in flight may take effect at any later time, whoever makes it: it overlaps all later calls, also those of other
parents and traces.

Invariant: no possible position is missing. If bounds leave some out, a call is right or wrong only if it is so in every
state that the calls can lead to.

Example: `approve` and `pay` overlap, and the policy asks for `approve` first. `pay` may have come first, where it is
wrong, or second, where it is right. Its order is what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.automaton.position import Position, StepEffect
from monitor.decision import Missing
from monitor.session.judge.concurrent_calls import (
    CallPossibilities,
    ConcurrentCalls,
    possibilities_at,
)
from monitor.session.judge.judge import CONTROL_TOKEN, Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.replay import Replay, Stretch
from monitor.session.log.log import SessionLog
from monitor.session.overlap.chain_merges import ENDS_MAX
from monitor.session.overlap.question_budget import QuestionBudget
from monitor.visibility.gap import EVER
from monitor.visibility.sight import between

__all__ = [
    "RIGHT",
    "certain_head",
    "concurrent_calls",
    "possibilities_amid",
    "possibilities_anywhere",
    "possibilities_behind",
    "possibilities_beside",
    "widest",
]

Costs = dict[Position, int]
"""Positions, each with the fewest harms that lead to it."""

RIGHT = CallPossibilities(True, False, False)


def widest(judgement: Judgement) -> AutomatonRun:
    """The run after all steps in the reading that allows for everything."""
    rival = judgement.readings[-1]
    return judgement.head if judgement.swapped else rival


def _replay(judgement: Judgement) -> Replay:
    """What steps the log in that reading."""
    return judgement.replay_log(wide=judgement.is_doubtful())


def _origin_run(judgement: Judgement) -> AutomatonRun:
    """The run before the log in that reading, as a copy."""
    return judgement.origin(wide=judgement.is_doubtful())


def possibilities_behind(judgement: Judgement, token: int) -> CallPossibilities:
    """What a call behind all others may be, if none of them is in flight."""
    if token == CONTROL_TOKEN:
        return RIGHT
    judge, position = judgement.judge, certain_head(judgement)
    if position is None:
        budget = QuestionBudget()
        costs = positions_before(judgement, len(judgement.log), budget)
        if costs is None:
            (found, _), *_ = _anywhere_reached(judgement, [token], budget)
        else:
            found = ConcurrentCalls(judge, costs, [token], [(0, 1)], (0,), (), budget)
        return found.possibilities(0, rises=found.rises(0))
    harmful = judge.stepper.step(position, token).effect is StepEffect.HARMFUL
    if token < judge.plain and isinstance(position, int):
        return CallPossibilities(False, True, True, (), False, position) if harmful else RIGHT
    possibilities = possibilities_at(judge, token, (position,))
    if not harmful:
        return possibilities
    return possibilities._replace(rises=True, missing=(), refused=position)


def possibilities_beside(
    judge: Judge, before: Position, flying: Sequence[int], token: int
) -> CallPossibilities:
    """What a call may be beside calls in flight, which began behind all others.

    Args:
        judge: of the spec.
        before: the position before all of them.
        flying: tokens of the calls in flight.
        token: of the call.
    """
    if token == CONTROL_TOKEN:
        return RIGHT
    tokens = [each for each in flying if each != CONTROL_TOKEN]
    own, times = len(tokens), [(0, 1)] * (len(tokens) + 1)
    found = ConcurrentCalls(
        judge, {before: 0}, [*tokens, token], times, (own,), range(own), QuestionBudget()
    )
    return found.possibilities(own, rises=found.rises(own))


def possibilities_amid(
    judgement: Judgement, flying: Sequence[int], token: int, at: int
) -> CallPossibilities | None:
    """What a call behind all others may be, if some of them are in flight.

    Args:
        judgement: has the others.
        flying: the places of those in flight.
        token: of the call.
        at: its time in the order.

    Returns:
        None if calls may be missing there, or there are too many orders of earlier ones.
    """
    if token == CONTROL_TOKEN:
        return RIGHT
    judge, log, replay = judgement.judge, judgement.log, _replay(judgement)
    first = _begin(log, flying[0])
    if between(replay.windows, log.at(first), at):
        return None
    budget = QuestionBudget()
    costs = positions_before(judgement, first, budget)
    if costs is None:
        return None
    times = log.possible_times(first, flying, at)
    certain = log.certain_times(first, flying, at, ()) if log.grouped else None
    places = [place for place in range(first, len(log)) if log.token(place) != CONTROL_TOKEN]
    number, own = {place: each for each, place in enumerate(places)}, len(places)
    found = ConcurrentCalls(
        judge,
        costs,
        [*[replay.token(place) for place in places], token],
        [*[times[place - first] for place in places], (at, at + 1)],
        (own,),
        [number[place] for place in flying if place in number],
        budget,
        [*[certain[place - first] for place in places], (at, at + 1)] if certain else None,
    )
    return found.possibilities(own, rises=found.rises(own))


def certain_head(judgement: Judgement) -> Position | None:
    """The position behind all calls, if it holds every world; None if others are possible."""
    head, judge = widest(judgement), judgement.judge
    if head.ways is not None or not head.whole:
        return None
    # An episode may be read to have begun for certain that has begun in some worlds only.
    return None if judge.once is not None and not head.exact else head.position


def possibilities_anywhere(judge: Judge, token: int) -> CallPossibilities:
    """What a call may be of which it is not known where in the session it belongs."""
    if token == CONTROL_TOKEN:
        return RIGHT
    found = possibilities_at(judge, token, [judge.anywhere])
    if found.rises:
        return found._replace(refused=judge.anywhere)
    return found._replace(missing=("order",)) if found.missing else found


def concurrent_calls(
    judgement: Judgement, asked: Sequence[int], budget: QuestionBudget
) -> dict[int, tuple[ConcurrentCalls, int]]:
    """Calls that are asked about, and those that may take effect before or after them.

    Args:
        judgement: whose log has all of them.
        asked: the places of those that are asked about, ascending; none is a control call.
        budget: what the searches may take.

    Returns:
        By place, the calls that it is among, and its number there.
    """
    judge, log, replay = judgement.judge, judgement.log, _replay(judgement)
    flying = log.in_flight()
    first = _begin(log, min([*asked, *flying]))
    costs = positions_before(judgement, first, budget)
    if costs is None:
        tokens = [replay.token(place) for place in asked]
        return dict(zip(asked, _anywhere_reached(judgement, tokens, budget), strict=True))
    amid = _amid(replay, costs, first, len(log))
    if amid is not None:
        tokens = [replay.token(place) for place in asked]
        return dict(zip(asked, _one_by_one(judge, tokens, amid, budget), strict=True))
    places = [place for place in range(first, len(log)) if log.token(place) != CONTROL_TOKEN]
    # Calls of one question are made in parallel, whoever makes them.
    overlapping = {*flying, *asked} if len(asked) > 1 else flying
    open_ended, last = [place for place in overlapping if place >= first], log.at(len(log) - 1)
    times = log.possible_times(first, open_ended, last)
    certain = log.certain_times(first, open_ended, last, asked) if log.grouped else None
    number = {place: each for each, place in enumerate(places)}
    found = ConcurrentCalls(
        judge,
        costs,
        [replay.token(place) for place in places],
        [times[place - first] for place in places],
        {number[place] for place in asked},
        {number[place] for place in flying if place in number},
        budget,
        [certain[place - first] for place in places] if certain else None,
    )
    return {place: (found, number[place]) for place in asked}


def _one_by_one(
    judge: Judge, tokens: Sequence[int], position: Position, budget: QuestionBudget
) -> list[tuple[ConcurrentCalls, int]]:
    """Calls that may find their session at one position, whatever the calls beside them do."""
    starts = {position: 0}
    return [
        (ConcurrentCalls(judge, starts, [token], [(0, 1)], {0}, (), budget), 0)
        for token in tokens
    ]


def _anywhere_reached(
    judgement: Judgement, tokens: Sequence[int], budget: QuestionBudget
) -> list[tuple[ConcurrentCalls, int]]:
    """Calls behind groups with more orders than can be tried: in every state that the log can lead to."""
    found = _one_by_one(judgement.judge, tokens, _reached(judgement), budget)
    earlier: tuple[Missing, ...] = ("earlier_calls",) if _is_unknown(judgement) else ()
    for calls, _ in found:
        calls.untried = frozenset(("budget", *earlier))
    return found


def _is_unknown(judgement: Judgement) -> bool:
    """True if calls of the log may be missing, or their arguments."""
    replay, judge = _replay(judgement), judgement.judge
    tokens = {replay.token(place) for place in range(len(replay.log))} - {CONTROL_TOKEN}
    return bool(replay.windows) or not all(judge.is_certain(token) for token in tokens)


def _amid(replay: Replay, costs: Costs, first: int, end: int) -> Position | None:
    """Where each of some calls may come, if calls may be missing among them; None if none may be."""
    log, judge = replay.log, replay.judge
    tools = between(replay.windows, log.at(first), log.at(end - 1))
    if not tools:
        return None
    if None in tools:
        return judge.anywhere
    tokens = {replay.token(place) for place in range(first, end)} - {CONTROL_TOKEN}
    return judge.reached(costs, {*tokens, *judge.missing(tools)})


def _begin(log: SessionLog, place: int) -> int:
    """The first step of the group that a step is in; the step itself if it is in none."""
    groups = log.groups(end=place + 1) if log.grouped else ()
    return next((first for first, end in groups if first <= place < end), place)


def _reached(judgement: Judgement) -> Position:
    """Every state that the calls of the log can lead to, in any order and number."""
    replay, origin = _replay(judgement), _origin_run(judgement)
    if replay.windows:
        return judgement.judge.anywhere
    tokens = {replay.token(place) for place in range(len(replay.log))} - {CONTROL_TOKEN}
    return judgement.judge.reached([way.position for way in origin.ways or [origin]], tokens)


def positions_before(judgement: Judgement, place: int, budget: QuestionBudget) -> Costs | None:
    """Where the session may be before a step that is in no group, or is the first of one.

    Behind the last step, `place` is the length of the log. None if there are too many orders of overlapping calls for
    all of them to be tried.
    """
    costs, replay = _origin(judgement), _replay(judgement)
    if costs is None:
        return None
    last = replay.begin_ns
    for stretch in replay.stretches(0, place):
        costs = _through(replay, stretch, costs, last, budget)
        if costs is None:
            return None
        last = replay.log.at(stretch.end - 1)
        if len(costs) > ENDS_MAX:
            least = min(costs.values())
            behind = [harms - least for harms in costs.values()]
            costs = {judgement.judge.stepper.union(costs, behind): least}
    behind_ns = replay.log.at(place) if place < len(replay.log) else EVER
    return _passed(replay, costs, last, behind_ns)


def _origin(judgement: Judgement) -> Costs | None:
    """The positions before the log, in the reading that allows for everything."""
    run = _origin_run(judgement)
    if not run.whole:
        return None
    if run.ways is None:
        return {run.position: 0}
    # The ways of a strict spec have the most harms of their orders, not the fewest.
    strict, least = judgement.judge.strict, run.tally.harmful_steps
    return {way.position: 0 if strict else way.tally.harmful_steps - least for way in run.ways}


def _through(
    replay: Replay, stretch: Stretch, costs: Costs, last: int, budget: QuestionBudget
) -> Costs | None:
    """The positions behind a stretch; None if not all orders of a group can be tried.

    `last` is the time of the step before it.
    """
    log, judge = replay.log, replay.judge
    if not stretch.together:
        for place in range(stretch.first, stretch.end):
            costs, last = _passed(replay, costs, last, log.at(place)), log.at(place)
            if log.token(place) != CONTROL_TOKEN:
                costs = _stepped(judge, costs, replay.token(place))
        return costs
    costs = _passed(replay, costs, last, log.at(stretch.first))
    amid = _amid(replay, costs, stretch.first, stretch.end)
    if amid is not None:
        return {amid: 0}
    places = [p for p in range(stretch.first, stretch.end) if log.token(p) != CONTROL_TOKEN]
    tokens = tuple([replay.token(place) for place in places])
    times = log.group_times(stretch.first, stretch.end)
    mine = tuple([times[place - stretch.first] for place in places])
    after: Costs = {}
    for position, harms in costs.items():
        found = judge.order(position, tokens, mine, strict=False, budget=budget)
        if not found.listed:
            return None
        for end in found.every:
            _put(after, end.position, harms + end.harms)
    return after


def _passed(replay: Replay, costs: Costs, before_ns: int, after_ns: int) -> Costs:
    """The positions behind the time between two steps, in which calls may be missing."""
    tools = between(replay.windows, before_ns, after_ns) if replay.windows else ()
    if not tools:
        return costs
    if None in tools:
        return {replay.judge.anywhere: 0}
    after: Costs = {}
    for position, harms in costs.items():
        reach = replay.judge.stepper.reach(position, replay.judge.missing(tools))
        _put(after, reach, harms)
    return after


def _stepped(judge: Judge, costs: Costs, token: int) -> Costs:
    after: Costs = {}
    for position, harms in costs.items():
        end, effect = judge.stepper.step(position, token)
        _put(after, end, harms + (effect is StepEffect.HARMFUL))
    return after


def _put(costs: Costs, position: Position, harms: int) -> None:
    known = costs.get(position)
    if known is None or harms < known:
        costs[position] = harms
