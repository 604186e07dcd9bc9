"""Limits of each token's name: one sender's flood leaves the others' room alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.receivers.door import Door
from collector.receivers.shares import BURST_SECONDS, Share, Shares
from collector.receivers.status import Outcome, Refusal
from collector.stats import Stats


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def door(share: Share, clock: Clock, stats: Stats | None = None) -> Door:
    return Door(shares=Shares(share, (stats or Stats()).count, clock))


def send(to: Door, sender: str | None, size: int = 1) -> None:
    with to.enter(sender) as ticket:
        ticket.grow(size)


def test_a_rate_of_requests_is_kept() -> None:
    """Two seconds' worth at once, then so many a second; the sender is told how long to wait."""
    clock, stats = Clock(), Stats()
    to = door(Share(requests_per_second=0.5), clock, stats)
    send(to, "a")
    with pytest.raises(Refusal) as refusal:
        send(to, "a")
    assert (refusal.value.outcome, refusal.value.retry_seconds) == (Outcome.THROTTLED, 2)
    send(to, "b")
    send(to, None)
    clock.now += refusal.value.retry_seconds
    send(to, "a")
    assert stats.counts == {("requests_throttled", "a", "requests_rate"): 1}


def test_a_rate_of_bytes_is_paid_on_credit() -> None:
    """A request larger than the bucket is taken; then its sender waits until it is paid for."""
    clock, stats = Clock(), Stats()
    to = door(Share(bytes_per_second=100), clock, stats)
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
    to = door(Share(inflight_bytes=10), Clock(), stats)
    with to.enter("a") as first:
        first.grow(8)
        with pytest.raises(Refusal) as refusal:
            send(to, "a", 3)
        assert (refusal.value.outcome, refusal.value.retry_seconds) == (Outcome.THROTTLED, 1)
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
    """Whatever the times of the requests; and who waits as long as told is let in."""
    clock = Clock()
    to = door(Share(requests_per_second=rate), clock)
    for taken, gap in enumerate(gaps, 1):
        clock.now += gap
        try:
            send(to, "a")
        except Refusal as refusal:
            clock.now += refusal.retry_seconds
            send(to, "a")
        assert taken <= max(1, rate * BURST_SECONDS) + rate * clock.now + 1e-3
