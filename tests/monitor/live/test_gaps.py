"""How sessions take up that calls may be missing: all with a tick, or some of them before it."""

from __future__ import annotations

from monitor import Monitor
from monitor.limits import SECOND
from monitor.live.gaps import STALE_AT_ONCE
from monitor.records import SessionKey
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from tests.monitor.test_engine import START
from tests.monitor.test_possible import POLICY, made, young

REFUSED = Gap(Cause.REFUSED, START, START + SECOND)
SESSIONS = 2 * STALE_AT_ONCE + 5


def _told() -> Monitor:
    """A harm in each of the sessions, all of which are to look at a new gap."""
    monitor = young(POLICY, history_complete=True)
    for number in range(SESSIONS):
        call = made(2, "pay")._replace(session=SessionKey("", str(number)))
        monitor.observe(call, call.end_ns, quiet=True)
    monitor.gaps.note(REFUSED)
    return monitor


def test_a_part_has_a_bounded_number_of_sessions_look() -> None:
    """Each part revises the verdicts of so many sessions, and says whether there are more; the tick repeats none."""
    monitor = _told()
    parts, more = [], True
    while more:
        more = monitor.gaps.look_at_some()
        parts.append(sum(each.possible for each in monitor.news()))
    assert parts == [STALE_AT_ONCE, STALE_AT_ONCE, 5]
    monitor.gaps.look_again()
    assert monitor.news() == []


def test_parts_and_a_tick_tell_the_same() -> None:
    """However many parts come before a tick, the verdicts are those of the tick alone, in the same order."""
    whole, begun = _told(), _told()
    whole.gaps.look_again()
    while begun.gaps.look_at_some():
        pass
    assert begun.news() == whole.news() != []


def test_what_becomes_known_between_parts_and_a_tick_waits_for_the_next_parts() -> None:
    """The tick itself has nobody look at once, also if there was nothing to look at before."""
    monitor = _told()
    monitor.gaps.look_again()
    assert not monitor.gaps.look_at_some()
    assert len(monitor.news()) == SESSIONS
    monitor.gaps.lift(REFUSED)
    monitor.gaps.look_again()
    assert monitor.news() == []
    assert monitor.gaps.look_at_some()
    assert len(monitor.news()) == STALE_AT_ONCE


def test_what_parts_have_begun_goes_on_after_the_tick() -> None:
    """A tick after the first part leaves the others to the parts that follow it, or else to the next tick."""
    monitor = _told()
    assert monitor.gaps.look_at_some()
    monitor.gaps.look_again()
    assert len(monitor.news()) == STALE_AT_ONCE
    monitor.gaps.look_again()
    assert len(monitor.news()) == SESSIONS - STALE_AT_ONCE
