"""Notices sessions whose calls have the times of two clocks, one of which is behind the other.

Idea: nothing begins before what has caused it: a span not before its parent, a call not before its model has asked for it.
Where the times say otherwise, and the two spans are of different hosts, the clock of the later one is behind (or that of the
earlier one ahead) by no less than they say. `collector.calls.correlation.clock_contradictions` finds that in the spans, and
tells of it (`Corrections.doubt_clock`).

A call whose clock is behind was made between its start, as it says, and its receipt. Between these two nothing follows from
one call of the session to the next (`Cause.MISTIMED`). Which of the other calls have this clock is not known by their logs.
But a call whose clock is behind arrives that much after its end, or more: calls that arrived sooner do not have it.

If all calls of a session have one clock, their order is right, whatever other spans say.

Not noticed: a clock that no span contradicts by more than a second. Its spans look like late ones.

Example: a tool's host is 40 s behind. `check` is made there, after `pay` on the agent's host. By their times, `check` was first:
nothing is wrong. The agent's span began 39 s after `check`. So `check` may have been behind `pay`, which is possible harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from monitor.judging.clocks.mistimed_calls import in_steps
from monitor.session.log.log import SessionLog
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

__all__ = ["LaggingCalls"]


class LaggingCalls(NamedTuple):
    """The calls of a session whose clock may be behind. Times are Unix nanoseconds."""

    behind_ns: int
    """The least by which their clock is behind, rounded; 0 if one arrived sooner: then it is the other clock that is ahead."""
    first_ns: int
    """The earliest start."""
    until_ns: int
    """The latest receipt: by then all of them had been made."""
    late_ns: int
    """The most by which one of them ended before it was received: its clock is not further behind."""

    @classmethod
    def of(cls, start_ns: int, end_ns: int, received_ns: int, behind_ns: int) -> LaggingCalls:
        """One call that a span of another clock contradicts, by so many nanoseconds."""
        late_ns = max(0, received_ns - end_ns)
        return cls(_rounded(min(behind_ns, late_ns)), start_ns, received_ns, late_ns)

    def and_(self, other: LaggingCalls) -> LaggingCalls:
        """With others of the same session."""
        return LaggingCalls(
            min(self.behind_ns, other.behind_ns),
            min(self.first_ns, other.first_ns),
            max(self.until_ns, other.until_ns),
            max(self.late_ns, other.late_ns),
        )

    def with_call(self, start_ns: int, end_ns: int, received_ns: int) -> LaggingCalls:
        """With one more of the session, unless it arrived too soon to have this clock."""
        late_ns = received_ns - end_ns
        if late_ns < self.behind_ns:
            return self
        return self.and_(LaggingCalls(self.behind_ns, start_ns, received_ns, late_ns))

    def with_all(self, logs: Iterable[SessionLog]) -> LaggingCalls:
        """With the calls of logs."""
        found = self
        for log in logs:
            for place in range(len(log)):
                row = log.row(place)
                found = found.with_call(row.at, row.end, row.receipt)
        return found

    def gap(self, window_ns: int) -> Gap:
        """Where the order of the session's calls is not that of their times.

        If the other clock is ahead, its calls seem to have been made later by less than the window, in which spans arrive.
        """
        until_ns = in_steps(self.until_ns + window_ns, window_ns)
        return Gap(Cause.MISTIMED, max(1, self.first_ns), until_ns)


def _rounded(behind_ns: int) -> int:
    """A power of two that is no more: each call may show a little less, and a lower one has all calls looked at again."""
    return 1 << (behind_ns.bit_length() - 1) if behind_ns else 0
