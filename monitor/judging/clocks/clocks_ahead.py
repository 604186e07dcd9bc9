"""Corrects the times of calls whose sender's clock is ahead of ours.

Idea: a call cannot have ended after it was received. If its end is later by more than clocks usually
differ, the clock of its sender is ahead. The first such call of a session says by how much, and all
calls of the session from such clocks are moved back by this amount: those that come, and those that
came before and seemed less ahead, as they took longer to arrive (`CallJudge.move_back`). So they keep
their order and their lengths, and calls of hosts with right clocks keep their places among them.

Without the correction, such a call would be placed at its receipt and end far in the future. It would
overlap all calls of the next minutes, and each new call would cause all of them to be judged again.

A clock that is ahead by less is not corrected, since spans may take as long to arrive (`monitor.judging.clocks.leading_calls`).

Example: a sender is 100 s ahead. A call of 2 s is received 1 s after its end, so its end is 99 s after
its receipt. The calls of this sender are moved back by 99 s: this one ends when it was received.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeVar

from monitor.judging.clocks.lagging_calls import LaggingCalls
from monitor.judging.clocks.leading_calls import LEAD_NS, LeadingCalls
from monitor.limits import SECOND
from monitor.records import SessionKey, ToolCall
from monitor.session.log.log import is_led
from monitor.visibility.cause import OF_ONE_SESSION
from monitor.visibility.gap import EVER, Gap

__all__ = ["AHEAD_MAX_NS", "SenderClocks", "moved_back"]

AHEAD_MAX_NS: Final = 60 * SECOND
"""Clocks of two hosts differ by less, unless one of them is wrong: 60 s."""

SESSIONS_MAX: Final = 4_096

Known = TypeVar("Known")


class SenderClocks:
    """The lead of senders' clocks over the clock of receipts, by session.

    Args:
        sessions_max: limit of the sessions whose lead is known. The next call of a forgotten session
            gives it again.
    """

    def __init__(self, sessions_max: int = SESSIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self.ahead_max_ns = AHEAD_MAX_NS
        """A lead of more than this is corrected, in nanoseconds."""
        self.corrections = 0
        """Calls that were observed with corrected times."""
        self._ahead: OrderedDict[SessionKey, int] = OrderedDict()
        self.leading: OrderedDict[SessionKey, LeadingCalls] = OrderedDict()
        """Session -> its calls whose clock is ahead by less than is corrected; nearly always empty."""
        self.lagging: OrderedDict[SessionKey, LaggingCalls] = OrderedDict()
        """Session -> its calls whose clock may be behind; nearly always empty."""

    def clock_moved(self, by: int) -> None:
        """Adapts to a jump of the clock of receipts: if it is set back, a lead by as much is allowed."""
        self.ahead_max_ns = max(AHEAD_MAX_NS, self.ahead_max_ns - by)

    def twin(self) -> SenderClocks:
        """The same, to be changed apart; it counts for itself."""
        twin = SenderClocks(self._sessions_max)
        twin.ahead_max_ns = self.ahead_max_ns
        twin._ahead, twin.leading = self._ahead.copy(), self.leading.copy()
        twin.lagging = self.lagging.copy()
        return twin

    @property
    def are_doubted(self) -> bool:
        """Whether the clocks of any session's senders are known to be ahead or behind."""
        return bool(self.leading or self._ahead or self.lagging)

    def is_doubted(self, key: SessionKey) -> bool:
        """Whether the clocks of a session's senders are known to be ahead or behind."""
        return key in self.leading or key in self._ahead or key in self.lagging

    @property
    def lead_min_ns(self) -> int:
        """A lead of more than this means that a clock is wrong, in nanoseconds."""
        return self.ahead_max_ns - AHEAD_MAX_NS + LEAD_NS

    def by_other_clock(self, key: SessionKey, gaps: Iterable[Gap], window_ns: int) -> list[Gap]:
        """Gaps that reach a session, as its calls' times have them if they were told by another clock.

        Calls that are moved back have our times: only what hosts of a service tell may be ahead. Of other calls whose clock is
        ahead or behind, each gap may be told by a right one, ours or a host's. By how much they are ahead is known up to the
        window; they are behind by no more than they took to arrive.
        """
        told = [each for each in gaps if _is_told_by_a_clock(each)]
        found: list[Gap] = []
        lagging = self.lagging.get(key)
        if lagging is not None:
            found += [each.by_clock(-lagging.late_ns, -lagging.behind_ns) for each in told]
        lead, leading = self.lead_of(key), self.leading.get(key)
        if lead is not None:
            found += [each.by_clock(-lead, -lead) for each in gaps if each.service]
        elif leading is not None:
            least_ns, most_ns = leading.lead_ns, leading.lead_ns + window_ns
            found += [e.by_clock(least_ns, most_ns) for e in told if e.until_ns != EVER]
        return found

    def rename(self, old: SessionKey, new: SessionKey) -> None:
        """Moves the lead of one session to another, which takes over its calls."""
        ahead = self._ahead.pop(old, None) if self._ahead else None
        if ahead is not None:
            self._ahead.setdefault(new, ahead)
        leading = self.leading.pop(old, None) if self.leading else None
        if leading is not None:
            self.leading.setdefault(new, leading)
        lagging = self.lagging.pop(old, None) if self.lagging else None
        if lagging is not None:
            known = self.lagging.get(new)
            self.lagging[new] = lagging if known is None else known.and_(lagging)

    def lead_of(self, key: SessionKey) -> int | None:
        """How far the clock of a session's sender is ahead, in nanoseconds, if it is known to be."""
        return self._ahead.get(key)

    def set_lead(self, key: SessionKey, ahead: int) -> None:
        """Sets what `lead_of` gives."""
        self._keep(self._ahead, key, ahead)

    def set_leading(self, key: SessionKey, leading: LeadingCalls) -> None:
        """Sets the calls of a session whose clock is ahead by less than is corrected."""
        self._keep(self.leading, key, leading)

    def set_lagging(self, key: SessionKey, lagging: LaggingCalls) -> None:
        """Sets the calls of a session whose clock may be behind."""
        self._keep(self.lagging, key, lagging)

    def _keep(self, known: OrderedDict[SessionKey, Known], key: SessionKey, new: Known) -> None:
        """Sets what is known of a session; of too many, the one that was set longest ago is forgotten."""
        known[key] = new
        known.move_to_end(key)
        if len(known) > self._sessions_max:
            known.popitem(last=False)

    def forget(self, key: SessionKey) -> None:
        """The session is none of ours any more."""
        self._ahead.pop(key, None)
        self.leading.pop(key, None)
        self.lagging.pop(key, None)

    def is_ahead(self, call: ToolCall, now: int) -> bool:
        """True if a call cannot have ended when it says, or comes from a clock that is known to be ahead."""
        excess = call.end_ns - now
        if excess > self.ahead_max_ns:
            return True
        if excess <= 0 or not self._ahead:
            return False
        ahead = self._ahead.get(call.session)
        return ahead is not None and is_led(excess, ahead)

    def corrected(self, call: ToolCall, now: int) -> ToolCall:
        """The call with its times moved back to our clock.

        Args:
            call: a call for which `is_ahead` is True.
            now: the time of its receipt, Unix nanoseconds.
        """
        key, ahead = call.session, self._lead(call, now)
        self.set_lead(key, ahead)
        return moved_back(call, ahead)

    def as_corrected(self, call: ToolCall, now: int) -> ToolCall:
        """What `corrected` would return. Remembers nothing of the call."""
        return moved_back(call, self._lead(call, now))

    def _lead(self, call: ToolCall, now: int) -> int:
        """By how much the clock of the call's sender is ahead, in nanoseconds."""
        excess = call.end_ns - now
        ahead = self._ahead.get(call.session)
        # A session may have several hosts. The known lead is used only if it explains this call, too.
        return excess if ahead is None or abs(excess - ahead) > self.ahead_max_ns else ahead


def moved_back(call: ToolCall, ahead: int) -> ToolCall:
    """The call by our clock, if its sender's is ahead by so many nanoseconds."""
    start = max(call.start_ns - ahead, 1) if call.start_ns else 0
    return call._replace(start_ns=start, end_ns=call.end_ns - ahead)


def _is_told_by_a_clock(gap: Gap) -> bool:
    """Whether a gap has times that one clock has told: not those of the calls whose order it leaves open."""
    return gap.until_ns > 0 and (bool(gap.service) or gap.cause not in OF_ONE_SESSION)
