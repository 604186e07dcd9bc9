"""What a call may be, in all worlds that are possible: harmless in some, harmful in some.

Idea: a verdict follows the best order of overlapping calls (or the worst), and the states with the
fewest harms. Before a call is made it matters what else may be true. So every state that the session
may be in before the call is collected: those of all readings of the session, of all ways through
overlapping calls, and of all orders of the calls that overlap this one. In each of them the call is
right or wrong, or either, if its arguments are not known.

Invariant: no possible state is missing. What bounds leave out makes the call both right and wrong.

Example: `approve` and `pay` overlap, and the policy asks for `approve` first. `pay` may have come
first, where it is wrong, or second, where it is right. Its order is what is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from monitor.automaton.position import Position, Stepper
from monitor.decision import Missing
from monitor.session.judge import CONTROL_TOKEN, Judge
from monitor.session.judgement import Judgement
from monitor.session.overlap.chains import Spans, spans_of
from monitor.session.replay import Replay, Stretch
from monitor.session.run import Run

__all__ = ["Outcomes", "outcomes_anywhere", "outcomes_at", "outcomes_next"]

STEPS_MAX: Final = 2_048
"""Limit of the steps that are tried of calls that overlap the call: about a millisecond."""


class Outcomes(NamedTuple):
    """What a call may be."""

    right: bool
    """It is harmless in some possible world."""
    wrong: bool
    """It is harmful in some possible world."""
    missing: tuple[Missing, ...]
    """What is not known and would decide; () unless it is both."""


_RIGHT: Final = Outcomes(True, False, ())
_WRONG: Final = Outcomes(False, True, ())


class _Before(NamedTuple):
    """Where a session may be before a call, by one reading."""

    positions: Collection[Position]
    whole: bool
    """False if it may be elsewhere, too."""


def outcomes_next(
    judge: Judge, readings: Sequence[Run], token: int, *, harmful: bool
) -> Outcomes:
    """What a call behind all others may be.

    Args:
        judge: of the spec.
        readings: the runs after all calls so far, one for each reading.
        token: of the call.
        harmful: whether its verdict is harmful.
    """
    first = readings[0]
    if token == CONTROL_TOKEN:
        return _RIGHT
    one = token < judge.plain and len(readings) == 1 and first.ways is None and first.whole
    if one and isinstance(first.position, int):
        return _WRONG if harmful else _RIGHT
    return _outcomes(judge, token, [_behind(run) for run in readings])


def outcomes_anywhere(judge: Judge, token: int) -> Outcomes:
    """What a call may be of which it is not known where in the session it belongs."""
    if token == CONTROL_TOKEN:
        return _RIGHT
    found = _outcomes(judge, token, [_Before([judge.anywhere], True)])
    return found._replace(missing=("order",)) if found.missing else found


def outcomes_at(judgement: Judgement, place: int) -> Outcomes:
    """What the call at a place of the log may be."""
    judge, token = judgement.judge, judgement.token(place)
    if token == CONTROL_TOKEN:
        return _RIGHT
    return _outcomes(judge, token, _before(judgement, place))


def _behind(run: Run) -> _Before:
    ways = run.ways
    return _Before(
        [run.position] if ways is None else [way.position for way in ways], run.whole
    )


def _outcomes(judge: Judge, token: int, readings: Sequence[_Before]) -> Outcomes:
    stepper = judge.stepper
    missing: set[Missing] = set()
    found: set[tuple[bool, bool]] = set()
    for positions, whole in readings:
        chances = {position: stepper.chances(position, token) for position in positions}
        for position, (right, wrong) in chances.items():
            if right and wrong:
                if not judge.is_certain(token):
                    missing.add("arguments")
                if not isinstance(position, int):
                    missing.add("earlier_calls")
        if not whole or len(set(chances.values())) > 1:
            missing.add("order")
        may_be_right = not whole or any(each.right for each in chances.values())
        may_be_wrong = not whole or any(each.wrong for each in chances.values())
        found.add((may_be_right, may_be_wrong))
    if len(found) > 1:
        missing.add("earlier_calls")
    is_right, is_wrong = any(right for right, _ in found), any(wrong for _, wrong in found)
    if not (is_right and is_wrong):
        return _RIGHT if is_right else _WRONG
    return Outcomes(True, True, tuple(sorted(missing)))


def _before(judgement: Judgement, place: int) -> list[_Before]:
    """Where the session may be before the step at a place, by each reading."""
    readings = list(zip(judgement.replays(), judgement.origins(), strict=True))
    for stretch in readings[0][0].stretches(0):
        if stretch.together and stretch.first <= place < stretch.end:
            return [_amid(replay, run, stretch, place) for replay, run in readings]
        if stretch.first >= place:
            break
        before = stretch._replace(end=min(stretch.end, place))
        for replay, run in readings:
            replay.step(run, before, [])
    for replay, run in readings:
        replay.approach(run, place)
    return [_behind(run) for _, run in readings]


def _amid(replay: Replay, run: Run, stretch: Stretch, place: int) -> _Before:
    """Where the session may be before a call of a group, from a run before the group."""
    judge, log = replay.judge, replay.log
    replay.approach(run, stretch.first)
    amid = replay.amid(run, stretch.first, stretch.end)
    if amid is not None:
        return _Before([amid], True)
    group = range(stretch.first, stretch.end)
    judged = [each for each in group if log.token(each) != CONTROL_TOKEN]
    times = log.group_times(stretch.first, stretch.end)
    spans = spans_of([times[each - stretch.first] for each in judged])
    starts = _behind(run)
    tokens = [replay.token(each) for each in judged]
    found = _orders(judge.stepper, starts.positions, tokens, spans, judged.index(place))
    return found._replace(whole=found.whole and starts.whole)


def _orders(
    stepper: Stepper,
    starts: Collection[Position],
    tokens: Sequence[int],
    spans: Spans,
    own: int,
) -> _Before:
    """The positions before one of some overlapping calls, by all orders that they may have had.

    Args:
        stepper: of the spec.
        starts: positions before the calls.
        tokens: of the calls, in start order.
        spans: of the calls.
        own: place of the one.
    """
    after = [sum(1 << place for place in spans.by_end[:ended]) for ended in spans.ended]
    others = [place for place in _related(stepper, starts, tokens, own) if place != own]
    # What ended before a call that ended before another ended before that one, too. So calls without
    # influence may be left out.
    kept = sum(1 << place for place in others)
    found: set[Position] = set()
    seen = {(0, position) for position in starts}
    todo, steps = list(seen), 0
    while todo:
        done, position = todo.pop()
        if not after[own] & kept & ~done:
            found.add(position)
        for place in others:
            if done >> place & 1 or after[place] >> own & 1 or after[place] & kept & ~done:
                continue
            steps += 1
            if steps > STEPS_MAX:
                return _Before(found, False)
            end, _ = stepper.step(position, tokens[place])
            node = (done | 1 << place, end)
            if node not in seen:
                seen.add(node)
                todo.append(node)
    return _Before(found, True)


def _related(
    stepper: Stepper, starts: Collection[Position], tokens: Sequence[int], own: int
) -> list[int]:
    """The places of the calls that may have influence on one of them, through any others."""
    if not all(isinstance(position, int) for position in starts):
        return [place for place, token in enumerate(tokens) if stepper.heeds[token]]
    heeds, before = stepper.heeds[tokens[own]], 0
    while heeds != before:
        before = heeds
        for token in tokens:
            if stepper.heeds[token] & heeds:
                heeds |= stepper.heeds[token]
    return [place for place, token in enumerate(tokens) if stepper.heeds[token] & heeds]
