"""Where calls on things that several sessions have in common may be missing: gaps of others, also those before a session.

Idea: a gap reaches the sessions whose calls may be missing. But under `across` a missing call of one session is missing in
what all others know of its things, also of those that begin later, for as long as a thing is known. So these gaps are kept
here beyond the ledger, which forgets one when every session that it reaches has ended.

Invariant: a gap that was taken back is not kept. Of too many that are over, two become one that reaches whatever either did.

Example: a request with `look_up(A1)` is refused at 12:00 and never sent again. A conversation that refunds A1 at 15:00 allows
for the look-up, under `within: 24h`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.limits import SHARED_LATE_NS
from monitor.session.judge.judge import Judge
from monitor.session.session import Session
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from monitor.visibility.ledger import GAPS_MAX, Ledger, is_within

__all__ = ["SharedGaps"]

CAUSES: Final = frozenset(
    {
        Cause.OUTAGE,
        Cause.REFUSED,
        Cause.LOST,
        Cause.SILENT_TOOL,
        Cause.REPEATED_WITHIN,
    }
)
"""Causes by which calls of other sessions are missing. Spaces know what was before the start; calls without a place are known."""

KEPT_MAX: Final = 2 * GAPS_MAX
"""Gaps that are kept: twice the bound of the ledger, so that at most half of them are not over."""


class SharedGaps:
    """The gaps that reach things of several sessions."""

    def __init__(self) -> None:
        self._version = 0
        """Version of the ledger when it was last looked at."""
        self._gaps: dict[Gap, None] = {}

    def follow(self, ledger: Ledger, before_ns: int) -> None:
        """Takes up what the ledger has learnt; forgets the gaps that were over before a time."""
        if ledger.version == self._version:
            return
        self._version = ledger.version
        kept = [gap for gap in self._gaps if ledger.stands(gap) and gap.until_ns >= before_ns]
        found = [gap for gap in ledger if gap.cause in CAUSES]
        self._gaps = dict.fromkeys([*kept, *found])
        while len(self._gaps) > KEPT_MAX:
            self._merge(ledger)

    def shift(self, by: int) -> None:
        """Adapts to a jump of the clock of receipts, in nanoseconds, as the ledger does."""
        self._gaps = {gap.shifted(by): None for gap in self._gaps}

    def _merge(self, ledger: Ledger) -> None:
        """Makes one of the two oldest gaps that are over, of the cause that has most."""
        kinds: dict[Cause, list[Gap]] = {}
        for gap in self._gaps:
            if ledger.is_over(gap):
                kinds.setdefault(gap.cause, []).append(gap)
        first, second = max(kinds.values(), key=len)[:2]
        del self._gaps[first], self._gaps[second]
        self._gaps[first.and_(second)] = None

    def of(self, session: Session, judge: Judge) -> Iterator[Gap]:
        """The gaps that reach the things of a session under a spec with `across`, tool by tool of those that `each` names."""
        each = judge.each
        assert each is not None
        since_ns = min(session.started_ns, session.opened_ns) - each.within_ns - SHARED_LATE_NS
        agent = session.agent if each.across == "agent" else ""
        for gap in self._gaps:
            is_mine = gap.namespace is None or is_within(session.key.namespace, gap.namespace)
            is_other = bool(agent and gap.agent) and gap.agent != agent
            if gap.until_ns < since_ns or is_other or not is_mine:
                continue
            named = (
                (gap.tool, *judge.spec.alphabet.nearly(gap.tool)) if gap.tool else each.tools
            )
            for tool in each.tools:
                if tool in named:
                    yield gap._replace(tool=tool)
