"""How long connections are kept, and the pings of one HTTP/2 connection: its client's and ours.

A client that pings too often is sent away. A client that is silent gets a ping, and has some seconds to answer it.

No clock: every method takes the time of the event loop, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collector.receive.listener.connections import NEVER

__all__ = ["Keepalive", "Pings"]

PING_SECONDS_MIN: Final = 300.0
PING_STRIKES_MAX: Final = 2
"""Pings that may come too soon, without an answer of ours between them; as gRPC counts."""
PING_TIMEOUT_SECONDS: Final = 20.0
"""Time to answer a ping; gRPC's default."""


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


class Pings:
    """The pings of one connection.

    Args:
        keepalive: the limits.
        now: the time of its beginning.
    """

    __slots__ = ("_asked_at", "_client_ping_at", "_keepalive", "read_at", "strikes")

    def __init__(self, keepalive: Keepalive, now: float) -> None:
        self._keepalive = keepalive
        self.read_at = now
        """When the client last sent something."""
        self.strikes = -1
        """Pings of the client that came too soon since we last wrote an answer; -1: it sent none since."""
        self._client_ping_at = now
        self._asked_at: float | None = None
        """When we sent a ping that is not answered."""

    def takes(self) -> bool:
        """Counts a ping of the client; False if it sends too many."""
        least = self._keepalive.ping_interval_min
        if self.strikes < 0:
            self.strikes = 0
        elif self.read_at - self._client_ping_at < (
            PING_SECONDS_MIN if least is None else least
        ):
            self.strikes += 1
            if self.strikes > PING_STRIKES_MAX:
                return False
        self._client_ping_at = self.read_at
        return True

    def sends(self, now: float) -> bool:
        """True if the client is silent and is to get a ping now; it counts as sent."""
        interval = self._keepalive.ping_interval
        if self._asked_at is not None or interval is None or now < self.read_at + interval:
            return False
        self._asked_at = now
        return True

    def answered(self) -> None:
        """The client has answered our ping."""
        self._asked_at = None

    def is_unanswered(self, now: float) -> bool:
        """True if the client did not answer a ping in time."""
        return self._asked_at is not None and now >= self._asked_at + self._timeout

    @property
    def _timeout(self) -> float:
        limit = self._keepalive.ping_timeout
        return PING_TIMEOUT_SECONDS if limit is None else limit

    def due_at(self) -> float:
        """The time at which a ping is to be sent, or its answer is late."""
        if self._asked_at is not None:
            return self._asked_at + self._timeout
        interval = self._keepalive.ping_interval
        return NEVER if interval is None else self.read_at + interval
