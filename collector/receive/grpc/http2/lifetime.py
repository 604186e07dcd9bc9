"""The time of an HTTP/2 connection: when its client is asked to go, and closed. Its pings: `keepalive`.

A connection ends in steps, so that no call is lost. After `age_max`, `idle_max` or at the end of the
service the client gets GOAWAY without a last stream and a ping. Calls that it begins before it answers
are served. With the answer, or after one second, a second GOAWAY names the last stream, and the
connection closes when its streams are over, or after `age_grace`.

No clock: every method takes the time of the event loop, in seconds.
"""

from __future__ import annotations

from typing import Final

from collector.receive.grpc.http2.keepalive import Keepalive
from collector.receive.listener.connections import NEVER

__all__ = ["Lifetime"]

FAREWELL_SECONDS: Final = 1.0
"""A client that has not answered the ping behind GOAWAY by then is taken to know."""


class Lifetime:
    """Where one connection is in its life, and what is due.

    Args:
        keepalive: the limits.
        now: the time of its beginning.
        head_seconds: the time that a client has to begin its first call.
    """

    __slots__ = (
        "_head_seconds",
        "_keepalive",
        "born_at",
        "is_parted",
        "leaving_since",
        "quiet_since",
    )

    def __init__(self, keepalive: Keepalive, now: float, head_seconds: float) -> None:
        self._keepalive = keepalive
        self._head_seconds = head_seconds
        self.born_at = now
        self.quiet_since = now
        """Time at which the last stream ended."""
        self.leaving_since: float | None = None
        """Time at which the client was asked to go."""
        self.is_parted = False
        """True once the client knows that it is to go: calls that it begins later are not looked
        at."""

    @property
    def has_idle_limit(self) -> bool:
        return self._keepalive.idle_max is not None

    def is_mute(self, now: float) -> bool:
        """True if a client has had the time to begin."""
        return now >= self.born_at + self._head_seconds

    def is_over(self, now: float, *, is_unused: bool, is_quiet: bool) -> bool:
        """True if the client is to be asked to go.

        Args:
            now: the time.
            is_unused: no call has ever begun.
            is_quiet: no call is open.
        """
        age, idle = self._keepalive.age_max, self._keepalive.idle_max
        return (
            (age is not None and now >= self.born_at + age)
            or (idle is not None and is_quiet and now >= self.quiet_since + idle)
            or (is_unused and self.is_mute(now))
        )

    def knows_to_go(self, now: float) -> bool:
        """True if the client that was asked to go knows by now."""
        since = self.leaving_since
        return since is not None and now >= since + FAREWELL_SECONDS

    def is_grace_over(self, now: float) -> bool:
        since, grace = self.leaving_since, self._keepalive.age_grace
        return since is not None and grace is not None and now >= since + grace

    def due_at(self, *, is_unused: bool, is_quiet: bool) -> float:
        """The time of the next of all these; arguments as in `is_over`."""
        keepalive = self._keepalive
        times = [NEVER]
        if self.leaving_since is not None:
            if not self.is_parted:
                times.append(self.leaving_since + FAREWELL_SECONDS)
            if keepalive.age_grace is not None:
                times.append(self.leaving_since + keepalive.age_grace)
        else:
            if is_unused:
                times.append(self.born_at + self._head_seconds)
            if keepalive.age_max is not None:
                times.append(self.born_at + keepalive.age_max)
            if keepalive.idle_max is not None and is_quiet:
                times.append(self.quiet_since + keepalive.idle_max)
        return min(times)
