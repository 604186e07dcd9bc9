"""Notices calls whose times cannot be right, or contradict the order in which calls were received.

Idea: a sender exports its spans about in the order in which they end. So a call that comes much later than one of its session
that ended after it was late by far, or its sender's clock was set back between the two. Nothing tells which: the call
is placed by its start, and may as well have come after all that was known when it was received. Between these two moments
nothing follows from one call to the next (`Cause.MISTIMED`).

A call without times was made at some time before it was received.

Example: a call ended at 100.0 s and was received at 100.1 s. The next one is received at 105.0 s and says that it ended at
74.9 s. Either its span took 30 s, or the clock was set back by 30 s.
"""

from __future__ import annotations

from typing import Final

from monitor.records import Evidence, ToolCall
from monitor.session.session import Session
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["COARSE_NS", "mistimed", "without_rounding"]

COARSE_NS: Final = 1_000_000
"""A clock that ends spans may be coarser by so much than the one that begins them: a millisecond."""


def mistimed(session: Session, call: ToolCall, now: int, window_ns: int) -> tuple[Gap, ...]:
    """The time spans in which a call may have been made, if its times leave that open; none for nearly all.

    Args:
        session: as it was before the call.
        call: with its times by our clock.
        now: the time of its receipt, Unix nanoseconds.
        window_ns: spans that are late by less are no news.
    """
    end_ns = call.end_ns
    is_executed = call.evidence is Evidence.EXECUTED
    if not call.start_ns or (is_executed and end_ns < call.start_ns):
        return (Gap(Cause.MISTIMED, max(1, now - window_ns), now + 1),)
    if not is_executed or not session.seen:
        return ()  # a request, or a call that runs, is no span that has ended
    if not session.heard_ns:
        return _set_back(session, call)
    heard_ns, last_ns = session.heard_by(now)
    if end_ns < last_ns:
        # How much further the clock was ahead when the other call was received, at least.
        behind_ns = (last_ns - heard_ns) - (end_ns - now)
        if behind_ns > window_ns:
            return (Gap(Cause.MISTIMED, call.start_ns, max(now, last_ns) + 1),)
    if now != session.heard_ns:
        return ()
    # Calls of one moment come in no order. If one is ahead, the clock may have been set in either direction between the two.
    first_ns, second_ns = sorted((end_ns, min(session.heard_last_ns, session.last_ns)))
    if second_ns - max(now, first_ns) > window_ns:
        return (Gap(Cause.MISTIMED, max(1, now - window_ns), second_ns + 1),)
    return ()


def _set_back(session: Session, call: ToolCall) -> tuple[Gap, ...]:
    """The first call since our clock was set back: its sender's may have been set with it.

    Calls with times before all others are then one part, which came after the others, or before them. Within it, the
    order is certain: so are limits that begin and end there.
    """
    until_ns = session.last_ns + 1
    if call.start_ns >= session.last_ns:
        return ()
    if call.end_ns >= session.started_ns:
        return (Gap(Cause.MISTIMED, call.start_ns, until_ns),)
    return Gap(Cause.MISTIMED, 0, 0), Gap(Cause.MISTIMED, session.started_ns, until_ns)


def without_rounding(call: ToolCall) -> ToolCall:
    """The call, of no length if its end was rounded to before its start; its start is right."""
    early_ns = call.start_ns - call.end_ns
    return call._replace(end_ns=call.start_ns) if 0 < early_ns <= COARSE_NS else call
