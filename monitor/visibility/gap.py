"""A gap: a time span in which calls may be missing, and whose calls these are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from monitor.visibility.cause import Cause

__all__ = ["EVER", "Gap", "since", "with_own"]

EVER: Final = 2**63 - 1
"""End of a gap that does not end, in nanoseconds."""


OWN_MAX: Final = 16
"""Gaps of one cause that a session has for itself."""


class Gap(NamedTuple):
    """Calls may be missing whose start is in a time span, in the sessions of a scope.

    A scope names what is known of the senders concerned: a gap reaches the sessions that agree with all that it names.
    """

    cause: Cause
    since_ns: int
    """Unix nanoseconds; 0 for the beginning of time."""
    until_ns: int
    """Unix nanoseconds; `EVER` if it does not end."""
    tool: str = ""
    """The only tool whose calls may be missing; "" for any."""
    namespace: str | None = None
    """The tenant, by its namespace or by the first parts of it; None for all."""
    service: str = ""
    """`service.name` of the sender; "" for all."""
    agent: str = ""
    """The agent of that service; "" for all."""
    received_ns: int = 0
    """Calls that were received up to then are judged as they were: their verdicts were final. To the millisecond."""
    told_ns: int = 0
    """When it was told, by our clock, if its times are those of a sender whose clock may be far behind; else 0."""

    def shifted(self, by: int) -> Gap:
        """The same gap by a clock that was set by so many nanoseconds."""
        since_ns = self.since_ns + by if self.since_ns else 0
        until_ns = self.until_ns + by if self.until_ns != EVER else EVER
        received_ns = self.received_ns + by if self.received_ns else 0
        told_ns = self.told_ns + by if self.told_ns else 0
        return self._replace(
            since_ns=max(since_ns, 0),
            until_ns=max(until_ns, 0),
            received_ns=max(received_ns, 0),
            told_ns=max(told_ns, 0),
        )

    def by_clock(self, least_ns: int, most_ns: int) -> Gap:
        """The same gap by a clock that is ahead by between so many nanoseconds. Its times of receipt stay ours."""
        since_ns = max(self.since_ns + least_ns, 0) if self.since_ns else 0
        until_ns = max(self.until_ns + most_ns, 0) if self.until_ns != EVER else EVER
        return self._replace(since_ns=since_ns, until_ns=until_ns)

    def covers(self, other: Gap) -> bool:
        """Whether it has the scope of another one, and reaches all that this one does."""
        if other.since_ns < self.since_ns or other.until_ns > self.until_ns:
            return False
        return other._replace(since_ns=self.since_ns, until_ns=self.until_ns) == self

    def and_(self, other: Gap) -> Gap:
        """A gap that reaches whatever either of two does."""
        return Gap(
            self.cause,
            min(self.since_ns, other.since_ns),
            max(self.until_ns, other.until_ns),
            self.tool if self.tool == other.tool else "",
            self.namespace if self.namespace == other.namespace else None,
            self.service if self.service == other.service else "",
            self.agent if self.agent == other.agent else "",
            min(self.received_ns, other.received_ns),
            max(self.told_ns, other.told_ns),
        )


def since(gaps: Iterable[Gap], begin_ns: int) -> list[Gap]:
    """What is left of some gaps for a session that began at a moment."""
    return [
        each._replace(since_ns=max(each.since_ns, begin_ns))
        for each in gaps
        if each.until_ns > begin_ns
    ]


def with_own(gaps: tuple[Gap, ...], gap: Gap) -> tuple[Gap, ...]:
    """The gaps of a session with one more of this session alone. Of too many of one cause, the first two become one.

    It replaces shorter ones that it covers.
    """
    gaps = tuple([each for each in gaps if not gap.covers(each)])
    alike = [each for each in gaps if each.cause is gap.cause]
    if len(alike) >= OWN_MAX:
        first, second = alike[:2]
        gaps = (*(each for each in gaps if each not in (first, second)), first.and_(second))
    return (*gaps, gap)
