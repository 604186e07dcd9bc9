"""Notices sessions whose calls have the times of two clocks, one of which is ahead by less than is corrected.

Idea: a call that ended more than a second after it was received has a clock that is ahead. If all calls of its session have
this clock, their order is right. If others have another one, or arrive as if they had, a call may stand behind calls that were
made after it. By how much the clock is ahead is not known: by no less than was seen, and by no more than that and the window,
in which spans arrive. So around these calls nothing follows from one call to the next (`Cause.MISTIMED`).

Not noticed here: a clock that is ahead by less than its spans take to arrive, and one that is behind. Their spans look like late
ones, unless a span of another clock contradicts them (`lagging_calls`).

Example: a browser's clock is 40 s ahead. `look` is made there, and `refund` on a server, a second later. By their times,
`refund` was 39 s earlier. `refund` without `look` before it is possible harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from monitor.judging.clocks.mistimed_calls import COARSE_NS, in_steps, is_mistimed
from monitor.limits import SECOND
from monitor.records import ToolCall
from monitor.session.hosts import has_one_clock
from monitor.session.log.log import is_led
from monitor.session.session import Session
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = [
    "LEAD_NS",
    "LeadingCalls",
    "corrected_calls",
    "leading_calls",
    "mixed_with",
    "set_meanwhile",
]

LEAD_NS: Final = SECOND
"""Clocks of two hosts often differ by so much, and that changes no order: models take longer."""


class LeadingCalls(NamedTuple):
    """The calls of a session that ended after they were received. Times are Unix nanoseconds."""

    lead_ns: int
    """The most by which one did."""
    first_ns: int
    """The earliest start."""
    last_ns: int
    """The latest start."""
    late_ns: int
    """The most by which a call of the session ended before it was received; negative if none did."""
    sender: Mapping[str, Any]
    """Attributes of the resource of the first of them."""
    is_mixed: bool
    """Whether other calls of the session have another clock."""

    def and_(self, call: ToolCall, lead_ns: int) -> LeadingCalls:
        """With one more, which ended so long after it was received."""
        return self._replace(
            lead_ns=max(self.lead_ns, lead_ns),
            first_ns=min(self.first_ns, call.start_ns),
            last_ns=max(self.last_ns, call.start_ns),
        )

    def gap(self, window_ns: int) -> Gap:
        """Where the order of the session's calls is not that of their times."""
        around_ns = self.lead_ns + window_ns
        return Gap(
            Cause.MISTIMED,
            max(1, self.first_ns - around_ns),
            in_steps(self.last_ns + around_ns, window_ns),
        )


def leading_calls(
    known: LeadingCalls | None,
    session: Session,
    call: ToolCall,
    now: int,
    window_ns: int,
    lead_ns: int = LEAD_NS,
) -> LeadingCalls | None:
    """The leading calls of a session with one more call, which may be none of them.

    Args:
        known: those before; None for nearly all sessions.
        session: of the call, before it is seen.
        call: with its times as they came.
        now: the time of its receipt, Unix nanoseconds.
        window_ns: so long spans take to arrive.
        lead_ns: a clock that is ahead by no more is right.

    Returns:
        None as long as there are none.
    """
    late_ns = now - call.end_ns
    leads = late_ns < -lead_ns
    if known is None:
        if not leads:
            return None
        known = _first(session, call, late_ns, lead_ns)
    elif leads:
        known = known.and_(call, -late_ns)
    if not is_mistimed(call):
        known = known._replace(late_ns=max(known.late_ns, late_ns))
    is_other = not has_one_clock(known.sender, call.attributes)
    return known._replace(is_mixed=known.is_mixed or is_other or _differ(known, window_ns))


def corrected_calls(
    known: LeadingCalls | None, session: Session, call: ToolCall, lead_ns: int, moved_ns: int
) -> LeadingCalls:
    """The same in a session whose clock is ahead by so much that its calls are moved back, all by as much.

    Only those of another host may be in a wrong place then, whose clock may be ahead, too, by more or less; and those before a clock
    was set forward that was ahead already: they are not moved.

    Args:
        known: those before.
        session: of the call, before it is seen.
        call: with its times by our clock.
        lead_ns: the most by which clocks differ whose calls are moved by as much.
        moved_ns: by so much they are moved.
    """
    if known is None:
        known = _first(session, call, -lead_ns, LEAD_NS)
    elif known.lead_ns < lead_ns and not is_led(known.lead_ns, moved_ns):
        known = known._replace(is_mixed=True)
    known = known.and_(call, lead_ns)
    is_other = not has_one_clock(known.sender, call.attributes)
    return known._replace(is_mixed=known.is_mixed or is_other)


def set_meanwhile(call: ToolCall, moved_ns: int) -> Gap | None:
    """Where a call may have begun that is moved back whole, though its clock may have been set forward while it ran.

    Then its start was right: it had begun before it was received, as its sender told it.

    Args:
        call: with its times by our clock.
        moved_ns: by so much calls of its session are moved back.
    """
    if call.end_ns - call.start_ns < moved_ns:
        return None
    return Gap(Cause.MISTIMED, max(1, call.start_ns), call.start_ns + moved_ns + 1)


def mixed_with(
    known: LeadingCalls, session: Session, window_ns: int, *, corrected: bool
) -> LeadingCalls:
    """The leading calls of a session that has got the calls of another one.

    Args:
        known: those before.
        session: with all calls.
        window_ns: so long spans take to arrive.
        corrected: whether calls are moved back: then they arrive as if with a right clock.
    """
    known = known._replace(late_ns=_latest_ns(session, known.late_ns))
    differ = not corrected and _differ(known, window_ns)
    return known._replace(is_mixed=known.is_mixed or differ or _has_others(session, known))


def _first(session: Session, call: ToolCall, late_ns: int, lead_ns: int) -> LeadingCalls:
    found = LeadingCalls(
        -late_ns, call.start_ns, call.start_ns, late_ns, call.attributes, is_mixed=False
    )
    if not session.seen:
        return found
    latest_ns = _latest_ns(session, late_ns)
    is_mixed = latest_ns >= -lead_ns and _has_others(session, found)
    return found._replace(late_ns=latest_ns, is_mixed=is_mixed)


def _differ(known: LeadingCalls, window_ns: int) -> bool:
    """Whether calls of one clock would have to have arrived later, one than the other, than spans do."""
    return known.late_ns + known.lead_ns > window_ns


def _has_others(session: Session, known: LeadingCalls) -> bool:
    """Whether some of the session's spans have another clock."""
    return not all(has_one_clock(known.sender, each) for each in session.attributes)


def _latest_ns(session: Session, latest_ns: int) -> int:
    """The most by which a call in the session's logs ended before it was received, if that is more than what is given.

    Those whose times cannot be right stand at their receipt, which logs know to the millisecond.
    """
    for judgement in session.judgements:
        log = judgement.log
        for place in range(len(log)):
            row = log.row(place)
            late_ns = row.receipt - row.end
            has_times = row.at < row.end or (row.at == row.end and abs(late_ns) > COARSE_NS)
            if has_times and late_ns > latest_ns:
                latest_ns = late_ns
    return latest_ns
