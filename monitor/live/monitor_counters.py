"""What a monitor has counted beside its sums by agent and spec."""

from __future__ import annotations

from collections import Counter

from monitor.live.monitor_state import MonitorState

__all__ = ["MonitorCounters"]


class MonitorCounters:
    """Numbers that only rise."""

    def __init__(self, state: MonitorState) -> None:
        self._state = state
        self._judging = state.judging_state

    @property
    def ended(self) -> Counter[str]:
        """Sessions that have ended, by the reason."""
        return self._state.ended

    @property
    def without_spec(self) -> int:
        """Calls of ended sessions that no spec has judged."""
        return self._state.without_spec

    @property
    def without_calls(self) -> int:
        """Sessions that were idle for their time, or too many, and had made no call."""
        return self._state.without_calls

    @property
    def timed_verdicts(self) -> int:
        """Verdicts on sessions that no call has brought."""
        return self._state.timed_verdicts

    @property
    def resumed(self) -> int:
        """Sessions that went on when their state was gone: they are read as joined."""
        return self._state.resumed

    @property
    def arguments_given_up(self) -> int:
        """Calls whose arguments are not shown any more: sessions were over their bound."""
        return self._state.arguments_given_up

    @property
    def sessions_lost(self) -> int:
        """Ended sessions of which nothing is remembered: one that goes on passes as new."""
        return self._state.table.lost

    @property
    def tools_overflowed(self) -> int:
        """Times that a call's tool got no name of its own, because agents had invented too many."""
        return self._state.names.overflowed

    @property
    def skewed(self) -> int:
        """Calls that by their clocks began before what has caused them, or ended long after their receipt."""
        return self._judging.skewed + self._judging.clocks.corrections

    @property
    def values_dropped(self) -> int:
        """Calls whose values rules over data do not know any more, because there were too many of their session."""
        return self._judging.values_dropped

    @property
    def orders_left_out(self) -> int:
        """Times that overlapping calls were judged by some of the orders they may have had."""
        return self._judging.orders_left_out

    @property
    def out_of_order(self) -> int:
        """Calls that arrived after one that began later, under each spec."""
        return self._judging.out_of_order

    @property
    def folded_young(self) -> int:
        """Steps folded before they were final, in a burst of one session."""
        return self._judging.folded_young
