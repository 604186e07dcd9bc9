"""Limits of each token's name: one sender's flood leaves the others' room alone."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from collector.receive.admission import Admission
from collector.receive.content_coding import LUMP_BYTES, inflate, inflate_beside
from collector.receive.rate_limits import BURST_SECONDS, RateLimit, RateLimits, Reservation
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import Stats

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def admission(rate_limit: RateLimit, clock: Clock, stats: Stats | None = None) -> Admission:
    return Admission(rate_limits=RateLimits(rate_limit, (stats or Stats()).count, clock))


def send(to: Admission, sender: str | None, size: int = 1) -> None:
    with to.enter(sender) as place:
        place.grow(size)


def test_a_rate_of_requests_is_kept() -> None:
    """A burst of two seconds' worth passes, then the rate holds. The sender is told how long to wait."""
    clock, stats = Clock(), Stats()
    to = admission(RateLimit(requests_per_second=0.5), clock, stats)
    send(to, "a")
    with pytest.raises(Refusal) as refusal:
        send(to, "a")
    assert (refusal.value.status, refusal.value.retry_seconds) == (ExportStatus.THROTTLED, 2)
    send(to, "b")
    send(to, None)
    clock.now += refusal.value.retry_seconds
    send(to, "a")
    assert stats.counts == {("requests_throttled", "a", "requests_rate"): 1}


def test_a_rate_of_bytes_is_paid_on_credit() -> None:
    """A request larger than the bucket is taken; then its sender waits until it is paid for."""
    clock, stats = Clock(), Stats()
    to = admission(RateLimit(bytes_per_second=100), clock, stats)
    send(to, "a", 1_000)
    with pytest.raises(Refusal) as refusal:
        send(to, "a")
    assert 8 <= refusal.value.retry_seconds <= 9
    send(to, "b", 150)
    clock.now += refusal.value.retry_seconds
    send(to, "a", 10)
    assert stats.counts == {("requests_throttled", "a", "bytes_rate"): 1}


def test_bytes_in_flight_are_each_senders_own() -> None:
    """Held while a request is read or judged, given back whatever ends it."""
    stats = Stats()
    to = admission(RateLimit(inflight_bytes=10), Clock(), stats)
    with to.enter("a") as first:
        first.grow(8)
        with pytest.raises(Refusal) as refusal:
            send(to, "a", 3)
        assert (refusal.value.status, refusal.value.retry_seconds) == (
            ExportStatus.THROTTLED,
            1,
        )
        send(to, "b", 10)
        first.release()
        send(to, "a", 10)
    send(to, "a", 10)
    assert to.bytes == 0
    assert stats.counts == {("requests_throttled", "a", "bytes_inflight"): 1}


@given(
    gaps=st.lists(st.floats(0, 3), max_size=60),
    rate=st.floats(0.5, 20),
)
def test_no_more_than_the_rate_gets_in(gaps: list[float], rate: float) -> None:
    """The rate holds for requests at any times, and a sender that waits as told is accepted."""
    clock = Clock()
    to = admission(RateLimit(requests_per_second=rate), clock)
    for taken, gap in enumerate(gaps, 1):
        clock.now += gap
        try:
            send(to, "a")
        except Refusal as refusal:
            clock.now += refusal.retry_seconds
            send(to, "a")
        assert taken <= max(1, rate * BURST_SECONDS) + rate * clock.now + 1e-3


# --- what bodies become ------------------------------------------------------------------------------


def _inflated(body: bytes, coding: str, admission: Admission, most: int = 64 << 20) -> bytes:
    room = Reservation(admission)

    async def run() -> bytes:
        with ThreadPoolExecutor(1) as beside:
            try:
                return await inflate_beside(body, coding, most, beside, room.hold)
            finally:
                held.append(admission.beside)
                room.release()

    held: list[int] = []
    found = asyncio.run(run())
    assert held == [len(found)]
    assert admission.beside == 0
    return found


@pytest.mark.parametrize("size", [0, 1, LUMP_BYTES - 1, LUMP_BYTES, LUMP_BYTES + 1, 5_000_000])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_what_is_inflated_is_held_as_it_is_made(coding: str, size: int) -> None:
    """Inflated bytes are reserved chunk by chunk and held to the end; the result equals one inflation."""
    whole = bytes(number * number % 251 for number in range(1_000)) * (size // 1_000 + 1)
    whole = whole[:size]
    packed = PACK[coding](whole)

    assert inflate(packed, coding, 64 << 20) == whole
    assert _inflated(packed, coding, Admission()) == whole


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_without_room_nothing_more_is_inflated(coding: str) -> None:
    """A body that outgrows the free memory while inflating is refused at once as retryable."""
    packed = PACK[coding](bytes(20_000_000))
    admission = Admission(max_inflight_bytes=8 << 20)
    room = Reservation(admission)
    most = 0

    def hold(count: int) -> None:
        nonlocal most
        room.hold(count)
        most = max(most, admission.beside)

    async def run() -> None:
        with ThreadPoolExecutor(1) as beside:
            await inflate_beside(packed, coding, 64 << 20, beside, hold)

    with pytest.raises(Refusal) as refused:
        asyncio.run(run())
    assert refused.value.status is ExportStatus.UNAVAILABLE
    assert most <= 4 << 20 or coding == "zstd"
    room.release()
    assert admission.beside == 0


def test_bodies_find_no_room_that_others_have_become() -> None:
    """Data held beside the bodies counts with them, up to half of their bound."""
    admission = Admission(max_inflight_bytes=100)
    room = Reservation(admission)

    assert not room.takes(51)
    assert room.takes(50)
    assert not admission.has_room(51)
    room.release()
    assert admission.has_room(100)
