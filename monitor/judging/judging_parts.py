"""The parts that judge calls, over one state."""

from __future__ import annotations

from monitor.judging.accounting import Accounting
from monitor.judging.call_reviser import CallReviser
from monitor.judging.change_reports import ChangeReports
from monitor.judging.held_calls import HeldCalls
from monitor.judging.judge_calls import CallJudge
from monitor.judging.judging_state import JudgingState
from monitor.judging.session_binder import SessionBinder
from monitor.judging.session_sights import SessionSights
from monitor.session.tool_names import Names

__all__ = ["JudgingParts"]


class JudgingParts:
    """Each part does one thing, and knows those above it alone.

    Args:
        state: what they share.
    """

    def __init__(self, state: JudgingState) -> None:
        self.state = state
        self.held = HeldCalls(state)
        self.reports = ChangeReports(state)
        self.sights = SessionSights(state, self.reports)
        self.calls = CallJudge(state, self.held, self.sights, self.reports)
        self.sights.reread = self.calls.reread
        self.binder = SessionBinder(state, self.sights, self.reports, self.calls)
        self.reviser = CallReviser(
            state, self.held, self.sights, self.reports, self.calls, self.binder
        )

    def twin(self, accounting: Accounting, names: Names) -> JudgingParts:
        """Parts that judge alike, for calls that are only asked about (`JudgingState.twin`)."""
        return JudgingParts(self.state.twin(accounting, names))
