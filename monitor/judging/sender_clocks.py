"""Clocks of senders that are ahead of ours, and by how much.

Idea: a call cannot have ended after it was received. Where it did by more than clocks differ, its
sender's clock is ahead. The first such call of a session says by how much, and all of its calls from
such clocks are taken to have happened so much earlier. So they keep their order and their lengths, and
calls of other hosts of the session, whose clocks are right, stand between them.

Without it, such a call would stand where it was received and end far ahead, so it would overlap all
calls of the next minutes, and each of them would be judged again with each new one.

Example: a sender is 100 s ahead. A call of 2 s is received 1 s after its end, so it ends 99 s after its
receipt. The session's calls are taken 99 s back: this one ends when it was received.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from monitor.limits import SECOND
from monitor.records import SessionKey, ToolCall

__all__ = ["AHEAD_MAX_NS", "SenderClocks"]

AHEAD_MAX_NS: Final = 60 * SECOND
"""Clocks of two hosts differ by less, or one of them is wrong."""

SESSIONS_MAX: Final = 4_096


class SenderClocks:
    """By how much calls of each session are ahead of the clock of receipts.

    Args:
        sessions_max: of so many sessions it is known; a forgotten one's next call says it anew.
    """

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self.ahead_max_ns = AHEAD_MAX_NS
        """Beyond it a clock is not believed."""
        self.corrections = 0
        """Calls that were observed, and taken to have happened earlier than they say."""
        self._ahead: OrderedDict[SessionKey, int] = OrderedDict()

    def clock_moved(self, by: int) -> None:
        """The clock of receipts was set: set back, calls of other hosts are not ahead of it for that."""
        self.ahead_max_ns = max(AHEAD_MAX_NS, self.ahead_max_ns - by)

    def rename(self, old: SessionKey, new: SessionKey) -> None:
        """The calls of a session are another's from now on, which stand where they stood."""
        ahead = self._ahead.pop(old, None) if self._ahead else None
        if ahead is not None:
            self._ahead.setdefault(new, ahead)

    def is_ahead(self, call: ToolCall, now: int) -> bool:
        """True for a call that cannot have ended when it says, or whose session's clock is known to be ahead."""
        excess = call.end_ns - now
        if excess > self.ahead_max_ns:
            return True
        if excess <= 0 or not self._ahead:
            return False
        ahead = self._ahead.get(call.session)
        # A call may take long to arrive, so a clock that is ahead seems to be so less for a moment.
        return ahead is not None and abs(excess - ahead) < excess

    def corrected(self, call: ToolCall, now: int) -> ToolCall:
        """A call that is ahead, as our clock would have seen it.

        Args:
            call: what `is_ahead` is true for.
            now: of its receipt.
        """
        key = call.session
        excess = call.end_ns - now
        ahead = self._ahead.get(key)
        # What is left must be what clocks may differ by: a session may have several hosts.
        if ahead is None or abs(excess - ahead) > self.ahead_max_ns:
            ahead = excess
        self._ahead[key] = ahead
        self._ahead.move_to_end(key)
        if len(self._ahead) > self._sessions_max:
            self._ahead.popitem(last=False)
        start = max(call.start_ns - ahead, 1) if call.start_ns else 0
        return call._replace(start_ns=start, end_ns=call.end_ns - ahead)
