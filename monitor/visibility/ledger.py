"""The ledger: all gaps that are known, and which of them reach a session.

Idea: a gap is noted once, for all senders that it concerns, whether their sessions are known yet or not. A session asks
when the ledger has changed since it asked last, which is one comparison of numbers for each call.

Invariants: at most `GAPS_MAX` gaps are kept. Where one more comes, the two oldest of the tenant and cause that have most
become one that reaches whatever either did, so nothing is ever forgotten before it is over. A gap is over when every session that it reaches
has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from monitor.visibility.cause import OF_ONE_SESSION, UNTAKEN, Cause
from monitor.visibility.gap import Gap

__all__ = ["GAPS_MAX", "Ledger", "is_within"]

GAPS_MAX: Final = 1_024


class Ledger:
    """The gaps in what was seen.

    Args:
        linger_ns: a session that is first seen this long after the end of a gap began after it.
    """

    def __init__(self, linger_ns: int) -> None:
        self.version = 0
        """Rises with each change."""
        self.merged = 0
        """Times that two gaps became one, because there were too many."""
        self.counts = dict.fromkeys(Cause, 0)
        """Noted gaps, for all senders or for one session, and calls in doubt, by cause."""
        self._linger_ns = linger_ns
        self._forgotten_ns = 0
        """Gaps that were over before this moment are forgotten."""
        self._gaps: dict[Gap, None] = {}

    def __len__(self) -> int:
        return len(self._gaps)

    def __iter__(self) -> Iterator[Gap]:
        return iter(self._gaps)

    def note(self, gap: Gap) -> bool:
        """Takes a gap; returns False if it was known."""
        if gap in self._gaps:
            return False
        self._gaps[gap] = None
        self.version += 1
        self.count(gap.cause)
        if len(self._gaps) > GAPS_MAX:
            self._merge()
        return True

    def count(self, cause: Cause) -> None:
        """Counts a gap or a doubt. A ledger that an earlier version has written lacks the causes that came later."""
        self.counts[cause] = self.counts.get(cause, 0) + 1

    def lift(self, gap: Gap) -> bool:
        """Takes a gap back: its calls have come, or were never made. Returns False if it was not known."""
        if gap not in self._gaps:
            return False
        del self._gaps[gap]
        self.version += 1
        return True

    def forget(self, now: int) -> None:
        """Drops the gaps that reach no session that is first seen from now on."""
        if self._gaps:
            self._forgotten_ns = now
            for gap in [each for each in self._gaps if self.is_over(each)]:
                del self._gaps[gap]

    def is_over(self, gap: Gap) -> bool:
        """True if the gap reaches no session that is first seen from now on."""
        return max(gap.until_ns, gap.told_ns) + self._linger_ns < self._forgotten_ns

    def stands(self, gap: Gap) -> bool:
        """True if a gap that once reached a session was not taken back since."""
        return gap in self._gaps or self.is_over(gap)

    def standing(self, gaps: Iterable[Gap], reaching: Iterable[Gap] = ()) -> list[Gap]:
        """Those of some gaps that `stands`, and those of one session, which it keeps itself.

        `reaching`: some that are known to stand. Mostly these are the very gaps, and an id is hashed quicker.
        """
        # As `is_over`, without a call for each.
        over_ns, known = self._forgotten_ns - self._linger_ns, self._gaps
        ids = {id(each) for each in reaching}
        return [
            each
            for each in gaps
            if id(each) in ids
            or each in known
            or (each.until_ns < over_ns and each.told_ns < over_ns)
            or each.cause in OF_ONE_SESSION
        ]

    def covers(self, now: int) -> bool:
        """True if a session that is first seen now may have begun in a gap or before it."""
        for gap in self._gaps:  # noqa: SIM110 - `any` makes a generator
            if max(gap.until_ns, gap.told_ns) + self._linger_ns > now:
                return True
        return False

    def may_lack(self, namespace: str, since_ns: int, until_ns: int) -> bool:
        """True if spans of a tenant that were sent between two times may not have been taken."""
        return any(
            gap.cause in UNTAKEN and gap.since_ns < until_ns and gap.until_ns > since_ns
            and (gap.namespace is None or is_within(namespace, gap.namespace))
            for gap in self._gaps
        )  # fmt: skip

    def shift(self, by: int) -> None:
        """Adapts to a jump of the clock of receipts, in nanoseconds."""
        self._gaps = {gap.shifted(by): None for gap in self._gaps}
        self._forgotten_ns += by
        self.version += 1

    def reaching(
        self, namespace: str, is_of: Callable[[str], bool], agent: str, opened_ns: int
    ) -> list[Gap]:
        """The gaps that reach a session.

        Args:
            namespace: its tenant.
            is_of: True for the services of its senders, as far as they are known.
            agent: its agent's name.
            opened_ns: when its first call was received, Unix nanoseconds.
        """
        since_ns = opened_ns - self._linger_ns
        found: list[Gap] = []
        # Gaps of one sender often come one after the other: each is asked for once.
        outer, service, is_mine = None, "", True
        for gap in self._gaps:
            if gap.until_ns < since_ns and gap.told_ns < since_ns:
                continue
            if gap.agent and gap.agent != agent:
                continue
            if gap.service != service or gap.namespace != outer:
                outer, service = gap.namespace, gap.service
                is_mine = (outer is None or is_within(namespace, outer)) and (
                    not service or is_of(service)
                )
            if is_mine:
                found.append(gap)
        return found

    def _merge(self) -> None:
        """Makes one of the two oldest gaps of the tenant and cause that have most."""
        kinds: dict[tuple[Cause, str | None], list[Gap]] = {}
        for gap in self._gaps:
            kinds.setdefault((gap.cause, gap.namespace), []).append(gap)
        most = max(kinds.values(), key=len)
        first, second = most[:2] if len(most) > 1 else list(self._gaps)[:2]
        del self._gaps[first], self._gaps[second]
        self._gaps[first.and_(second)] = None
        self.merged += 1


def is_within(namespace: str, outer: str) -> bool:
    """True if a namespace is another one, or part of it."""
    return namespace == outer or namespace.startswith(f"{outer}/")
