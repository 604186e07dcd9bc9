"""Rate limits for each sender, by the name of its token.

Idea: token buckets. A request is admitted if its sender's buckets are not empty. Its bytes are charged as
they are read, and the bucket may fall below zero. Then the sender's next request is refused until the
bucket has refilled. So a request larger than the bucket is accepted, only not often.

Example: 1 MB/s allows 2 MB at once. A request of 5 MB is accepted and leaves a debt of 3 MB; the next
one is accepted 3 s later.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from collector.receive.status_codes import ExportStatus, Refusal

__all__ = ["REASONS", "RateLimit", "RateLimits", "Reservation", "SenderLimits"]

BURST_SECONDS: Final = 2.0
"""Capacity of a bucket, in seconds of its rate. Exporters send in batches."""
INFLIGHT_RETRY_SECONDS: Final = 1
BESIDE_SHARE: Final = 2
"""Inflated and decoded bodies may take at most this fraction (1/2) of the bound on bodies."""
ALMOST_ONE: Final = 1 - 1e-6
REASONS: Final = ("requests_rate", "bytes_rate", "bytes_inflight")
"""Why a sender must wait: labels of the counter `requests_throttled`."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Limits of each sender; None: no limit."""

    requests_per_second: float | None = None
    bytes_per_second: float | None = None
    """Bytes of bodies as they are on the wire."""
    inflight_bytes: int | None = None
    """Bytes of bodies that are being read or judged."""


class _Bucket:
    """A token bucket: fills at `rate` per second up to `BURST_SECONDS` of it; may fall below zero."""

    __slots__ = ("_most", "_rate", "_since", "level")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._most = max(1.0, rate * BURST_SECONDS)
        self._since = now
        self.level = self._most

    def wait(self, now: float) -> float:
        """Seconds until it holds a token; 0 if it does now."""
        self.level = min(self._most, self.level + (now - self._since) * self._rate)
        self._since = now
        # One whole token, less a rounding error: a request, or a byte.
        return 0.0 if self.level >= ALMOST_ONE else (1 - self.level) / self._rate


class SenderLimits:
    """The buckets and the held bytes of one sender."""

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
        """Charges one request.

        Raises:
            Refusal: THROTTLED, with the time after which to retry.
        """
        now = self._clock()
        for bucket, reason in ((self._requests, REASONS[0]), (self._bytes, REASONS[1])):
            seconds = 0.0 if bucket is None else bucket.wait(now)
            if seconds:
                raise self._wait(reason, math.ceil(seconds))
        if self._requests is not None:
            self._requests.level -= 1

    def grow(self, count: int) -> None:
        """Charges and holds `count` bytes.

        Raises:
            Refusal: THROTTLED; the sender would hold more than `inflight_bytes`.
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
        return Refusal(ExportStatus.THROTTLED, message, seconds)


class RateLimits:
    """The limits of all senders. Their number is that of the token names.

    Args:
        rate_limit: limits of each sender.
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
        """The limits of a sender; made on first use."""
        found = self._limits.get(sender)
        if found is None:
            name = sender or "unnamed"
            found = SenderLimits(name, self._rate_limit, self._clock, self._refused)
            self._limits[sender] = found
        return found


class _BodyBound(Protocol):
    """What a `Reservation` needs of `Admission`."""

    beside: int
    """Bytes that requests take in addition to their bodies."""

    @property
    def max_inflight_bytes(self) -> int: ...

    def has_room(self, count: int) -> bool: ...


class Reservation:
    """Bytes that one request takes in addition to its body: inflated and decoded. Freed once, by `release`.

    All reservations together may take half of the bound on bodies, and count towards that bound.

    Args:
        room: the admission of the request.
    """

    __slots__ = ("_room", "bytes")

    def __init__(self, room: _BodyBound) -> None:
        self._room = room
        self.bytes = 0

    def takes(self, count: int) -> bool:
        """Holds `count` more bytes; False if there is no room for them."""
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
        """Holds `count` more bytes, or fewer if it is negative.

        Raises:
            Refusal: UNAVAILABLE; there is no room now.
        """
        if not self.takes(count):
            message = f"busy: {self._room.beside} bytes of requests are being inflated or decoded; try again"
            raise Refusal(ExportStatus.UNAVAILABLE, message, INFLIGHT_RETRY_SECONDS)

    def release(self) -> None:
        """Frees all held bytes."""
        self._room.beside -= self.bytes
        self.bytes = 0
