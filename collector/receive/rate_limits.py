"""Limits for each sender, by the name of its token, so that none takes the room of the others.

Rates are token buckets. A request is let in while its sender's buckets are not empty, and pays for
its bytes as they are read, if need be on credit: then the sender waits until the debt is paid. So a
request that is larger than the bucket is taken too, only not often.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from collector.receive.status import Outcome, Refusal

__all__ = ["REASONS", "RateLimit", "RateLimits", "Reservation", "SenderLimits"]

BURST_SECONDS: Final = 2.0
"""A sender that was quiet may send for so long at once: exporters send in batches."""
INFLIGHT_RETRY_SECONDS: Final = 1
BESIDE_SHARE: Final = 2
"""So large a part of the bound on bodies is for what they become."""
ALMOST_ONE: Final = 1 - 1e-6
REASONS: Final = ("requests_rate", "bytes_rate", "bytes_inflight")
"""Why a sender has to wait: labels of the counter `requests_throttled`."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Limits of each sender; None: no limit."""

    requests_per_second: float | None = None
    bytes_per_second: float | None = None
    """Of bodies as they are read."""
    inflight_bytes: int | None = None
    """Of bodies that are being read or judged."""


class _Bucket:
    """Fills at a rate, up to what it holds in `BURST_SECONDS`; may be in debt."""

    __slots__ = ("_most", "_rate", "_since", "level")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._most = max(1.0, rate * BURST_SECONDS)
        self._since = now
        self.level = self._most

    def wait(self, now: float) -> float:
        """Seconds until it is no longer empty; 0 where it is not."""
        self.level = min(self._most, self.level + (now - self._since) * self._rate)
        self._since = now
        # Of requests a whole one must be there, but for rounding; of bytes, one byte.
        return 0.0 if self.level >= ALMOST_ONE else (1 - self.level) / self._rate


class SenderLimits:
    """One sender's."""

    __slots__ = ("_bytes", "_clock", "_inflight_max", "_name", "_refused", "_requests", "held")

    def __init__(
        self,
        name: str,
        rate_limit: RateLimit,
        clock: Callable[[], float],
        refused: Callable[..., None],
    ) -> None:
        now = clock()
        requests, sent = rate_limit.requests_per_second, rate_limit.bytes_per_second
        self.held = 0
        """Bytes of its bodies that are being read or judged."""
        self._name = name
        self._clock = clock
        self._refused = refused
        self._requests = None if requests is None else _Bucket(requests, now)
        self._bytes = None if sent is None else _Bucket(sent, now)
        self._inflight_max = rate_limit.inflight_bytes

    def enter(self) -> None:
        """Pay for a request.

        Raises:
            Refusal: THROTTLED, with the time after which to try again.
        """
        now = self._clock()
        for bucket, reason in ((self._requests, REASONS[0]), (self._bytes, REASONS[1])):
            seconds = 0.0 if bucket is None else bucket.wait(now)
            if seconds:
                raise self._wait(reason, math.ceil(seconds))
        if self._requests is not None:
            self._requests.level -= 1

    def grow(self, count: int) -> None:
        """Pay for so many bytes, and hold them.

        Raises:
            Refusal: THROTTLED; too many are held already.
        """
        if self._inflight_max is not None and self.held + count > self._inflight_max:
            raise self._wait(REASONS[2], INFLIGHT_RETRY_SECONDS)
        self.held += count
        if self._bytes is not None:
            self._bytes.level -= count

    def _wait(self, reason: str, seconds: int) -> Refusal:
        self._refused("requests_throttled", self._name, reason)
        what = reason.replace("_", " ")
        message = f"over this sender's share ({what}); try again in {seconds} s"
        return Refusal(Outcome.THROTTLED, message, seconds)


class RateLimits:
    """The accounts of all senders; there are as many as tokens have names.

    Args:
        rate_limit: what each of them may take.
        refused: counts a refusal: a counter's name, the sender, the reason.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        rate_limit: RateLimit,
        refused: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate_limit = rate_limit
        self._refused = refused
        self._clock = clock
        self._limits: dict[str, SenderLimits] = {}

    def of(self, sender: str) -> SenderLimits:
        """A sender's limits."""
        found = self._limits.get(sender)
        if found is None:
            name = sender or "unnamed"
            found = SenderLimits(name, self._rate_limit, self._clock, self._refused)
            self._limits[sender] = found
        return found


class _BodyBound(Protocol):
    """Where bodies are let in."""

    beside: int
    """Bytes that requests take beside their bodies."""

    @property
    def max_inflight_bytes(self) -> int: ...

    def has_room(self, count: int) -> bool: ...


class Reservation:
    """What one request takes beside its body: inflated, and decoded. Given back once, by `release`.

    All together may take half of what bodies may, and that is counted with the bodies.

    Args:
        room: where the request was let in.
    """

    __slots__ = ("_room", "bytes")

    def __init__(self, room: _BodyBound) -> None:
        self._room = room
        self.bytes = 0

    def takes(self, count: int) -> bool:
        """Holds so many bytes more, if there is room for them."""
        room = self._room
        if count > 0 and (
            room.beside + count > room.max_inflight_bytes // BESIDE_SHARE
            or not room.has_room(count)
        ):
            return False
        self.bytes += count
        room.beside += count
        return True

    def hold(self, count: int) -> None:
        """Hold so many bytes more, or less where it is below 0.

        Raises:
            Refusal: UNAVAILABLE; there is no room for them now.
        """
        if not self.takes(count):
            message = f"busy: {self._room.beside} bytes of requests are being inflated or decoded; try again"
            raise Refusal(Outcome.UNAVAILABLE, message, INFLIGHT_RETRY_SECONDS)

    def release(self) -> None:
        """Hold nothing any more."""
        self._room.beside -= self.bytes
        self.bytes = 0
