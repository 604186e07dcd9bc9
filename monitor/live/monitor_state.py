"""The state of a monitor: one record, over which its faces work."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final

from monitor.aggregate.totals import SessionFinished, Totals
from monitor.alphabet.pattern_words import Show
from monitor.judging.accounting import Accounting
from monitor.judging.deciding.decide_calls import CallDecider
from monitor.judging.judging_parts import JudgingParts
from monitor.judging.judging_state import JudgingState
from monitor.limits import Limits
from monitor.live.deadline_timer import DeadlineTimer
from monitor.live.due_queue import DueQueue
from monitor.live.mention import Mention
from monitor.records import SessionKey, Verdict
from monitor.session.session import Session
from monitor.session.spec_binding import SpecBinder
from monitor.session.table import Table
from monitor.session.tool_names import Names
from monitor.spec.spec import Spec
from monitor.tenants import SharedValues

__all__ = ["MonitorState"]

QUIET_MAX: Final = 10_000
"""Sessions without a call that are remembered; beyond it the oldest of who has too many is counted at once."""

EVICTED_MAX: Final = 100_000
"""Ends of sessions that wait for `tick`; without ticks the oldest are dropped."""


class MonitorState:
    """Sessions, sums, what judges calls, and what was counted.

    Args:
        specs: compiled specs.
        limits: bounds and times.
        started_ns: when this process began to see spans, Unix nanoseconds.
        show: gives what may be shown of an argument's value.
        digest_key: of the digests of things whose values are not shown.
    """

    def __init__(
        self,
        specs: Iterable[Spec],
        limits: Limits,
        started_ns: int,
        show: Show,
        digest_key: bytes,
    ) -> None:
        binder = SpecBinder(specs)
        self.limits = limits
        self.totals = Totals(
            limits.hold_ns, limits.pairs_max, limits.namespace_label, limits.agents_max
        )
        self.names = Names(limits.names_bytes_max)
        self.table = Table(limits.sessions_max, limits.sessions_bytes_max, fold=limits.fold)
        self.accounting = Accounting(self.totals, self.names)
        self.deadline_timer = DeadlineTimer(self.accounting, limits.window_ns)
        self.deadline_timer.use(binder.judges.values())
        self.judging_state = JudgingState(
            binder,
            self.accounting,
            self.names,
            limits,
            started_ns,
            show if limits.keep_arguments else None,
            digest_key=digest_key,
        )
        self.judging = JudgingParts(self.judging_state)
        self.decider = CallDecider(self.judging, self.names)
        self.due = DueQueue()
        self.quiet: SharedValues[Mention] = SharedValues(QUIET_MAX)
        """Sessions that were mentioned and have made no call."""
        self.news: list[Verdict] = []
        """Verdicts that a late session id has revised; returned with the next ones."""
        self.evicted: deque[SessionFinished] = deque(maxlen=EVICTED_MAX)
        """Sessions that were evicted; returned by the next tick."""
        self.on_end: Callable[[Session], None] | None = None
        """Takes each session that ends."""
        self.is_behind: Callable[[], bool] | None = None
        """Tells whether steps of ended sessions are still to be read."""
        self.stale: list[SessionKey] = []
        """Sessions that are to look at the ledger again, since it has changed; the last one first."""
        self.swept = self.judging_state.ledger.version
        """Version of the ledger when these were listed."""
        self.sweep_ns = 0
        """When names of tools are looked through next, at the earliest."""
        self.ended: Counter[str] = Counter()
        """Sessions that have ended, by the reason."""
        self.without_spec = 0
        """Calls of ended sessions that no spec has judged."""
        self.without_calls = 0
        """Sessions that were idle for their time, or too many, and had made no call."""
        self.timed_verdicts = 0
        """Verdicts on sessions that no call has brought."""
        self.resumed = 0
        """Sessions that went on when their state was gone: they are read as joined."""
        self.arguments_given_up = 0
        """Calls whose arguments are not shown any more: sessions were over their bound."""

    def with_news(self, verdicts: list[Verdict]) -> list[Verdict]:
        """The verdicts behind those that were given before them: of one call, the last one holds."""
        if not self.news:
            return verdicts
        news, self.news = self.news, []
        return news + verdicts
