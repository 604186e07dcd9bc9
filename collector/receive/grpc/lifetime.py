"""The time of an HTTP/2 connection: when its client is pinged, asked to go, and closed.

A connection ends in steps, so that no call is lost. After `age_max`, `idle_max` or at the end of the
service the client gets GOAWAY without a last stream and a ping. Calls that it begins before it answers
are served. With the answer, or after one second, a second GOAWAY names the last stream, and the
connection closes when its streams are over, or after `age_grace`.

No clock: every method takes the time of the event loop, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collector.receive.listener.connections import NEVER

__all__ = ["Keepalive", "Lifetime"]

PING_SECONDS_MIN: Final = 300.0
PING_STRIKES_MAX: Final = 2
"""Pings that may come too soon, without an answer of ours between them; as gRPC counts."""
PING_TIMEOUT_SECONDS: Final = 20.0
"""Time to answer a ping; gRPC's default."""
FAREWELL_SECONDS: Final = 1.0
"""A client that has not answered the ping behind GOAWAY by then is taken to know."""


@dataclass(frozen=True, slots=True)
class Keepalive:
    """How long connections are kept; times in seconds, None: no such limit."""

    ping_interval: float | None = None
    """A client that is silent for so long gets a ping."""
    ping_timeout: float | None = None
    """Time to answer the ping."""
    ping_interval_min: float | None = None
    """A client that pings more often is sent away."""
    idle_max: float | None = None
    age_max: float | None = None
    """Age at which a client is asked to connect anew, so that load spreads over new replicas."""
    age_grace: float | None = None


class Lifetime:
    """Where one connection is in its life, and what is due.

    Args:
        keepalive: the limits.
        now: the time of its beginning.
        head_seconds: the time that a client has to begin its first call.
    """

    __slots__ = (
        "_asked_at",
        "_client_ping_at",
        "_head_seconds",
        "_keepalive",
        "born_at",
        "is_parted",
        "leaving_since",
        "ping_strikes",
        "quiet_since",
        "read_at",
    )

    def __init__(self, keepalive: Keepalive, now: float, head_seconds: float) -> None:
        self._keepalive = keepalive
        self._head_seconds = head_seconds
        self.born_at = now
        self.read_at = now
        """When the client last sent something."""
        self.quiet_since = now
        """Time at which the last stream ended."""
        self.ping_strikes = -1
        """Pings of the client that came too soon since we last wrote an answer; -1: it sent none since."""
        self._client_ping_at = now
        self._asked_at: float | None = None
        """When we sent a ping that is not answered."""
        self.leaving_since: float | None = None
        """Time at which the client was asked to go."""
        self.is_parted = False
        """True once the client knows that it is to go: calls that it begins later are not looked
        at."""

    # --- the client's pings ----------------------------------------------------------------------

    def takes_ping(self) -> bool:
        """Counts a ping of the client; False if it sends too many."""
        least = self._keepalive.ping_interval_min
        if self.ping_strikes < 0:
            self.ping_strikes = 0
        elif self.read_at - self._client_ping_at < (
            PING_SECONDS_MIN if least is None else least
        ):
            self.ping_strikes += 1
            if self.ping_strikes > PING_STRIKES_MAX:
                return False
        self._client_ping_at = self.read_at
        return True

    # --- our pings -------------------------------------------------------------------------------

    def wants_ping(self, now: float) -> bool:
        """True if the client is silent and is to get a ping now; it has that then."""
        interval = self._keepalive.ping_interval
        if self._asked_at is not None or interval is None or now < self.read_at + interval:
            return False
        self._asked_at = now
        return True

    def ping_answered(self) -> None:
        self._asked_at = None

    def is_unanswered(self, now: float) -> bool:
        """True if the client did not answer a ping in time."""
        return self._asked_at is not None and now >= self._asked_at + self._ping_timeout

    @property
    def _ping_timeout(self) -> float:
        limit = self._keepalive.ping_timeout
        return PING_TIMEOUT_SECONDS if limit is None else limit

    # --- the end ---------------------------------------------------------------------------------

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
        if self._asked_at is not None:
            times.append(self._asked_at + self._ping_timeout)
        elif keepalive.ping_interval is not None:
            times.append(self.read_at + keepalive.ping_interval)
        return min(times)
