"""Notices calls whose times cannot be right: without a start, or with an end before it.

Idea: such a call was made at some time before it was received. It is placed at its receipt or where its times say, and from
the window before its receipt on, nothing follows from one call to the next (`Cause.MISTIMED`).

A sender's clock that is set back in mid-session is noticed elsewhere, by what its spans contradict (`collector.calls.set_clocks`).
Without that, its calls look like calls that are late, as a request is that was sent again. Late calls are placed by their
times: that is right nearly always, and does not depend on the order of arrival.

Example: an exporter writes no start times. `pay` is received at 3.0 s; `approve` was received at 2.5 s. Which was first is
not known, so `pay` without `approve` before it is possible harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from monitor.records import Evidence, ToolCall
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = [
    "COARSE_NS",
    "beside",
    "in_steps",
    "is_mistimed",
    "latest_ns",
    "mistimed",
    "without_rounding",
]

COARSE_NS: Final = 1_000_000
"""A clock that ends spans may be coarser by so much than the one that begins them: a millisecond."""


def is_mistimed(call: ToolCall) -> bool:
    """True if a call has no start, or ended before it."""
    if not call.start_ns:
        return True
    return call.end_ns < call.start_ns and call.evidence is Evidence.EXECUTED


def latest_ns(call: ToolCall, now: int) -> int:
    """By when a call had been made whose times cannot be right, Unix nanoseconds.

    That is its receipt; of a call without a start that is told again, it is its end (`ToolCall.end_ns`).
    """
    return min(now, call.end_ns) if call.end_ns and not call.start_ns else now


def mistimed(call: ToolCall, now: int, window_ns: int) -> Gap | None:
    """The time span in which a call may have been made, if its times leave that open; None for nearly all.

    Args:
        call: with its times by our clock.
        now: the time of its receipt, Unix nanoseconds.
        window_ns: so long before its receipt it may have been made.
    """
    if not is_mistimed(call):
        return None
    latest = latest_ns(call, now)
    return Gap(Cause.MISTIMED, max(1, latest - window_ns), latest + 1)


def beside(
    gaps: Iterable[Gap], start_ns: int, end_ns: int, now: int, window_ns: int
) -> Gap | None:
    """What follows for calls without times from one with times, if its sender's clock is wrong, or it is late.

    By its times it was before all calls that may be in a gap; but it was received when they were, so it may have
    been behind them. Or by its times it was behind them, and ended after it was received: so it may have been before them.

    Args:
        gaps: of its session.
        start_ns: its start, Unix nanoseconds.
        end_ns: its end.
        now: the time of its receipt.
        window_ns: so long before its receipt a call may have ended whose clock is right.

    Returns:
        The first of these gaps, so long that it reaches the call; None for nearly all.
    """
    if end_ns > now:
        # A gap begins the window before the receipt of its call, which a call that came later by more than that cannot precede.
        for each in gaps:
            is_near = each.until_ns <= start_ns and now - each.since_ns <= 2 * window_ns
            if is_near and each.cause is Cause.MISTIMED:
                return each._replace(until_ns=start_ns + 1)
        return None
    if now - end_ns <= window_ns:
        return None
    for each in gaps:
        if each.cause is Cause.MISTIMED and start_ns < each.since_ns <= now:
            return each._replace(since_ns=start_ns)
    return None


def in_steps(until_ns: int, window_ns: int) -> int:
    """The end of a gap that each further call may move: with a new end, all steps of the session are judged again.

    Args:
        until_ns: the last moment in the gap.
        window_ns: the gap ends at a multiple of it.
    """
    step_ns = max(1, window_ns)
    return (until_ns // step_ns + 1) * step_ns


def without_rounding(call: ToolCall) -> ToolCall:
    """The call, of no length if its end was rounded to before its start; its start is right."""
    early_ns = call.start_ns - call.end_ns
    return call._replace(end_ns=call.start_ns) if 0 < early_ns <= COARSE_NS else call
