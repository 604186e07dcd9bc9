"""Tells of changed verdicts: counts them, words them, and adds the harms that are only possible.

A harm that was only possible when its verdict became final may turn out to be certain later: a doubt ends. Its verdict is
open again then, and becomes final when the session is looked at next, so that the final counters have the harm, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.judging.judging_state import JudgingState
from monitor.records import Verdict
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.step_marks import VerdictChange, reopen
from monitor.session.session import Session

__all__ = ["ChangeReports"]


class ChangeReports:
    """Makes verdicts of the changes of judgements."""

    def __init__(self, state: JudgingState) -> None:
        self._state = state
        self._accounting = state.accounting

    def report(
        self, session: Session, judgement: Judgement, changes: Sequence[VerdictChange]
    ) -> list[Verdict]:
        """Counts changes of a judgement, and words them."""
        self._accounting.count(judgement, changes)
        judgement.final_excess = reopen(judgement.log, changes, judgement.final_excess)
        self._accounting.alarms.compare(session, judgement)
        verdicts = [self._accounting.verdict(session, judgement, each) for each in changes]
        if judgement.suspicious:
            return self.with_suspicions(session, judgement, verdicts)
        return verdicts

    def with_suspicions(
        self, session: Session, judgement: Judgement, verdicts: Sequence[Verdict]
    ) -> list[Verdict]:
        """The verdicts with the session's possible harms, one verdict per call."""
        told = {verdict.span_id: verdict for verdict in verdicts}
        found = self._accounting.suspicions(session, judgement, self._state.started_ns, told)
        news = {
            each.span_id: each._replace(revised_from=told[each.span_id].revised_from)
            if each.span_id in told
            else each
            for each in found
        }
        return [each for each in verdicts if each.span_id not in news] + list(news.values())

    def let_go(self, session: Session, judgement: Judgement) -> list[Verdict]:
        """Removes a judgement whose spec is the session's no more, and withdraws what was reported of it.

        The times of its calls stay the session's, unless these are judged again.
        """
        if (span := judgement.span()) is not None and session.held is None:
            session.leave_behind(span)
        verdicts = self._accounting.withdrawn_limits(session, judgement)
        for place in range(len(judgement.log)):
            verdicts += self._accounting.withdrawn(session, judgement, place)
        session.remove(judgement)
        self._accounting.leave(judgement)
        return verdicts
