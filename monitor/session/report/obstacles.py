"""Finds missed limits and traps of a session by walking its calls.

Idea: a `SessionTiming` steps over the calls of the log, from the clocks of the checkpoint on. What it finds
is compared with the verdicts given before (`session_verdicts`).

Invariant: the result depends on the times of the calls, not on their arrival. Limits are left out while calls
may be missing in the time in which they ran (`certain`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from monitor.automaton.position import Position
from monitor.records import Kind, Obstacle
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.replay import taken_of
from monitor.session.time_limits.session_verdicts import News, SessionVerdict, SessionVerdicts
from monitor.session.time_limits.timing import (
    MISSED_MAX,
    MissedLimit,
    SessionTiming,
    TimedCall,
    certain,
)

__all__ = ["cannot_finish", "find_obstacles", "missed_of", "review", "shown"]


def review(
    judgement: Judgement,
    session_verdicts: SessionVerdicts,
    now: int,
    window_ns: int,
    *,
    over: bool,
    explicit: bool,
) -> tuple[list[News], list[MissedLimit]]:
    """Reviews a session: finds what is missed by now, and updates its verdicts.

    Args:
        judgement: of the session.
        session_verdicts: of the judgement.
        now: Unix nanoseconds.
        window_ns: time from a verdict until it is final.
        over: True if the session has ended: every verdict is final.
        explicit: True if a sign said so. Then a deadline that still runs is missed, too.

    Returns:
        The verdicts given or withdrawn, and those that have become final.
    """
    known, waiting = _known(judgement, session_verdicts, now, over=over, explicit=explicit)
    return session_verdicts.revise(
        [*known, *_kept(judgement, session_verdicts, known)], waiting, now, window_ns, over=over
    )


def _kept(
    judgement: Judgement, session_verdicts: SessionVerdicts, known: list[MissedLimit]
) -> list[MissedLimit]:
    """Verdicts on folded calls stay: the checkpoint keeps only the latest `MISSED_MAX`."""
    base = judgement.base.timing if judgement.base else None
    if base is None or len(base.missed) < MISSED_MAX:
        return []
    found = {each.key for each in known}
    return [
        declared.missed
        for key, declared in session_verdicts.declared.items()
        if key not in found and judgement.log.find(key[2]) is None
    ]


def find_obstacles(judgement: Judgement) -> SessionTiming:
    """The clocks after all calls of the log."""
    base, judge = judgement.base, judgement.judge
    timing = base.timing.copy() if base and base.timing else SessionTiming(judge)
    for steps, position in _grouped(judgement):
        timing.take(steps, position)
    return timing


def _grouped(judgement: Judgement) -> Iterator[tuple[list[TimedCall], Position]]:
    """The calls of the log in groups that are judged together, each with the position after it.

    They are read widely where something is not known.
    """
    wide = judgement.rival is not None
    replay = judgement.replay_log(wide=wide)
    for steps, position in replay.grouped(judgement.origin(wide=wide)):
        yield taken_of(replay, steps, judgement.folded), position


def _known(
    judgement: Judgement,
    session_verdicts: SessionVerdicts,
    now: int,
    *,
    over: bool,
    explicit: bool,
) -> tuple[list[MissedLimit], list[MissedLimit]]:
    """The limits that are certainly missed by now, and those that still run."""
    timing = find_obstacles(judgement)
    windows = judgement.sight.windows(wide=True)
    waiting = certain(timing.waiting(), windows)
    known = list(certain(timing.missed, windows))
    for each in waiting:
        never = explicit and each.obstacle is Obstacle.DEADLINE
        if session_verdicts.is_over(each, now) or (over and never):
            known.append(each)
    return known, list(waiting)


def cannot_finish(judgement: Judgement) -> bool:
    """True if a verdict says that the session cannot finish."""
    session_verdicts = judgement.session_verdicts
    return session_verdicts is not None and any(
        each.missed.kind is Kind.CANNOT_FINISH for each in session_verdicts.declared.values()
    )


def missed_of(judgement: Judgement) -> list[SessionVerdict]:
    """The verdicts on the session, ordered by the ends of their limits."""
    session_verdicts = judgement.session_verdicts
    declared = session_verdicts.declared.values() if session_verdicts is not None else ()
    return sorted(declared, key=lambda each: (each.missed.due_ns, *each.missed.key))


def shown(judgement: Judgement) -> list[dict[str, Any]]:
    """The verdicts on the session, as the judgement object shows them."""
    judge = judgement.judge
    state = judge.state(judgement.head.position)
    return [
        {
            "kind": missed.kind.value,
            "reason": missed.obstacle.value,
            "rule": missed.rule or None,
            "detail": missed.explanation(judge.spec, state) or None,
            "step": _step(judgement, missed),
            "span_id": missed.mark.span_id.hex(),
            "since_ns": missed.mark.at_ns,
            "due_ns": missed.due_ns,
            "final": final,
        }
        for missed, final in (
            (declared.missed, declared.final) for declared in missed_of(judgement)
        )
    ]


def _step(judgement: Judgement, missed: MissedLimit) -> int:
    """The present number of the call, which rises if late calls are inserted before it."""
    place = judgement.log.find(missed.mark.span_id)
    return missed.mark.step if place is None else judgement.folded + place + 1
