"""Pings of a client: how many may come too soon."""

from __future__ import annotations

from collector.receive.grpc.http2.keepalive import PING_STRIKES_MAX, Keepalive, Pings


def test_pings_that_come_too_soon() -> None:
    """Two strikes are forgiven, and all of them once we have answered something."""
    pings = Pings(Keepalive(), 0.0)
    for _ in range(3):
        assert all(pings.takes() for _ in range(1 + PING_STRIKES_MAX))
        pings.strikes = -1  # an answer was written
    assert all(pings.takes() for _ in range(1 + PING_STRIKES_MAX))
    assert not pings.takes()


def test_a_slow_client_may_ping_for_ever() -> None:
    """Pings as far apart as they may be are no strikes."""
    pings = Pings(Keepalive(ping_interval_min=5), 0.0)
    for number in range(10):
        pings.read_at = 5.0 * number
        assert pings.takes()
    assert pings.strikes == 0
