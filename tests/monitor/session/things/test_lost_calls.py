"""Calls on their way that were forgotten at a bound, and what may be allowed meanwhile."""

from __future__ import annotations

import itertools
from typing import Final, NamedTuple

from monitor import Limits, Monitor
from monitor.decision import Answer, CallDecision
from monitor.limits import SECOND
from monitor.records import SessionKey
from monitor.session.things import lost_calls
from monitor.session.things.lost_calls import LOOKED_AT_MAX, LostCalls
from offrails_guard import LocalGuard
from tests.monitor.session.things.test_shared_things import ACROSS

ALLOWED: Final = CallDecision(Answer.ALLOW, ())
SESSIONS: Final = [SessionKey("", f"s{number}") for number in range(lost_calls.NAMES_MAX + 1)]


class Decided(NamedTuple):
    """A decided call, as the choice among them sees it."""

    name: str
    counts: bool = True
    moves_nothing: bool = False


def guard(monitor: Monitor, session: str, milliseconds: itertools.count[int]) -> LocalGuard:
    return LocalGuard(
        monitor, clock=lambda: next(milliseconds) * SECOND // 1_000, session=session
    )


def test_the_least_needed_call_is_forgotten() -> None:
    """A settled one, wherever it stands; else one that changes nothing; else the oldest, among those that are looked at."""
    moving = [Decided(f"m{number}") for number in range(5)]
    reading, settled = Decided("r", moves_nothing=True), Decided("s", counts=False)

    assert LostCalls.least_needed([*moving, reading, settled]) is settled
    assert LostCalls.least_needed([*moving, reading]) is reading
    assert LostCalls.least_needed(moving) is moving[0]
    assert LostCalls.least_needed([*moving[:1] * LOOKED_AT_MAX, settled]) is moving[0]


def test_too_many_sessions_to_tell_apart_are_all_in_doubt_to_the_last_of_them() -> None:
    """Beyond the bound no session is allowed anything for certain, also when those that are known by name are over."""
    lost = LostCalls()
    for session in SESSIONS[:-1]:
        lost.note(session, (), 10)
    assert lost.weigh(SessionKey("", "other"), ALLOWED, 5) is ALLOWED
    lost.note(SESSIONS[-1], (), 20)
    lost.forget(10)

    assert lost.weigh(SessionKey("", "other"), ALLOWED, 15) is not ALLOWED
    assert lost.weigh(SessionKey("", "other"), ALLOWED, 20) is ALLOWED
    lost.forget(20)
    assert lost.weigh(SESSIONS[0], ALLOWED, 15) is ALLOWED


def test_other_sessions_do_not_count_on_what_was_forgotten_either() -> None:
    """A refund on its way that its session's flood has pushed out is allowed to no other conversation for certain."""
    monitor, time = Monitor([ACROSS], Limits(history_complete=True)), itertools.count(10**12)
    first, second = guard(monitor, "a", time), guard(monitor, "b", time)
    first.outcome(first.check("look_up", {"id": "A1"}).decision_id, "ran")
    assert first.check("refund", {"id": "A1"}).decision == "allow"
    assert second.check("refund", {"id": "A1"}).decision == "deny"
    for number in range(300):
        first.check("look_up", {"id": f"B{number}"})

    assert second.check("refund", {"id": "A1"}).decision == "unknown"
