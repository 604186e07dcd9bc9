"""A limit with quotas by severity and by tenant.

Idea: one limit holds for all, but the last quarter of it is kept. Lesser harm may use three quarters, so that
critical harm always finds room. Once two namespaces have asked, each may use three quarters of what its
severity may, so that a tenant that floods leaves room for the others.

Invariant: `has` and `enter` only count. Who uses a quota keeps the things themselves, and calls `leave` once for
each `enter`. No clock: `now` is an argument, in nanoseconds.

Example, with a limit of 60: warnings may take 45, critical ones 60. When namespace b asks as well, a may take
45 critical ones, and b the 15 that are left.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

__all__ = ["CRITICAL", "Quota", "RateQuota"]

CRITICAL = "critical"

KEPT = 4
"""The last of so many parts of a room is kept: for critical harm, and for other tenants."""


class Quota:
    """How many there may be, and for whom there is room.

    A quarter is for critical harm alone. Once several namespaces have asked, each leaves a quarter
    of what there is for its severity to the others; one that is alone may have all of it.

    Args:
        most: so many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._of: Counter[str] = Counter()
        """Used places by namespace; only namespaces that have some."""
        self._first: str | None = None
        self._several = False

    def __len__(self) -> int:
        """How many there are."""
        return self._taken

    @property
    def full(self) -> bool:
        """True if there is room for nobody."""
        return self._taken >= self._most

    def has(self, severity: str, namespace: str) -> bool:
        """True if there is room for one more."""
        if self._first is None:
            self._first = namespace
        self._several = self._several or namespace != self._first
        most = self._most if severity == CRITICAL else _less(self._most)
        if self._taken >= most:
            return False
        return not self._several or self._of[namespace] < _less(most)

    def enter(self, namespace: str) -> None:
        """One more is there."""
        self._taken += 1
        self._of[namespace] += 1

    def leave(self, namespace: str) -> None:
        """One that was there is not any more."""
        self._taken -= 1
        self._of[namespace] -= 1
        if not self._of[namespace]:
            del self._of[namespace]


def _less(most: int) -> int:
    """Without what is kept, but never nothing."""
    return max(1, most - -(-most // KEPT))


class _Taken(NamedTuple):
    at_ns: int
    namespace: str


class RateQuota:
    """Lets so many through in a stretch of time; what they took is free again when it has passed.

    Args:
        most: so many there may be.
        stretch_ns: in so long.
    """

    def __init__(self, most: int, stretch_ns: int) -> None:
        self._quota = Quota(most)
        self._stretch_ns = stretch_ns
        self._taken: deque[_Taken] = deque()

    @property
    def full(self) -> bool:
        """True if there is room for nobody."""
        return self._quota.full

    def has(self, severity: str, namespace: str) -> bool:
        """True if there is room for one more."""
        return self._quota.has(severity, namespace)

    def takes(self, severity: str, namespace: str, now: int) -> bool:
        """True if there is room for one more, which has it then."""
        if not self.has(severity, namespace):
            return False
        self._quota.enter(namespace)
        self._taken.append(_Taken(now, namespace))
        return True

    def passes(self, now: int) -> bool:
        """Time passes; True if that made room."""
        taken = len(self._taken)
        while self._taken and self._taken[0].at_ns <= now - self._stretch_ns:
            self._quota.leave(self._taken.popleft().namespace)
        return len(self._taken) < taken
