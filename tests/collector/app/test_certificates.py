"""What is said of certificates that end."""

from __future__ import annotations

from typing import Any, cast

import pytest

from collector.app.listening.certificates import CertificateWatch
from collector.app.listening.listeners import Server
from collector.receive.listener.validity import Validity
from monitor.limits import SECOND

HOUR = 3_600
DAY = 24 * HOUR
BEGINS = 1_800_000_000


class _Certificates:
    """Certificates of which the times are set."""

    cert = "file.pem"

    def __init__(self, seconds: int) -> None:
        self.found: Validity | None = Validity(BEGINS, BEGINS + seconds)

    def validity(self) -> Validity | None:
        return self.found


class _Server:
    """A listener, of which the certificates alone are asked for."""

    def __init__(self, certificates: _Certificates | None) -> None:
        self.certificates = certificates


class _Lines:
    """Takes what is logged."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []

    def warning(self, event: str, **more: Any) -> None:
        self.taken.append((event, more["listener"]))


def watch(**seconds: int | None) -> tuple[CertificateWatch, _Lines, dict[str, _Server]]:
    """A watch of listeners, whose certificates live so long; None for one without TLS."""
    servers = {
        name: _Server(None if each is None else _Certificates(each))
        for name, each in seconds.items()
    }
    lines = _Lines()
    return CertificateWatch(cast(dict[str, Server], servers), lines), lines, servers


@pytest.mark.parametrize(
    ("lives", "soon"),
    [(365 * DAY, 351 * DAY), (90 * DAY, 76 * DAY), (6 * DAY, 4.5 * DAY), (DAY, 18 * HOUR)],
)
def test_each_listener_has_a_line_before_and_after(lives: int, soon: float) -> None:
    """It is logged once that a certificate ends soon, and once that it has: also of those that live for a day."""
    found, lines, _ = watch(grpc=lives, http=None)
    logged: list[tuple[float, str]] = []
    for minute in range(0, lives + DAY, 600):
        before = len(lines.taken)
        found.tick((BEGINS + minute) * SECOND)
        logged += [(minute, event) for event, _ in lines.taken[before:]]

    (first, second), (end, last) = logged
    assert (second, last) == ("certificate_expires_soon", "certificate_expired")
    assert soon <= first <= soon + 1_200
    assert lives <= end <= lives + 1_200


def test_one_that_has_ended_before_the_start_is_logged_at_once() -> None:
    """The first tick says it, of each listener; a new one that ends is another line."""
    found, lines, servers = watch(grpc=DAY, http=DAY)
    found.tick((BEGINS + 2 * DAY) * SECOND)
    found.tick((BEGINS + 3 * DAY) * SECOND)
    assert lines.taken == [("certificate_expired", "grpc"), ("certificate_expired", "http")]

    grpc = servers["grpc"].certificates
    assert grpc is not None
    grpc.found = Validity(BEGINS, BEGINS + 4 * DAY)
    found.tick((BEGINS + 5 * DAY) * SECOND)
    assert lines.taken[2:] == [("certificate_expired", "grpc")]


def test_an_ended_one_that_comes_back_is_logged_again() -> None:
    """A renewal that is taken back has a line of its own: it is the same certificate, and a new outage."""
    found, lines, servers = watch(grpc=DAY)
    grpc = servers["grpc"].certificates
    assert grpc is not None
    ended = grpc.found
    for hour, now in enumerate((ended, Validity(BEGINS, BEGINS + 90 * DAY), ended)):
        grpc.found = now
        found.tick((BEGINS + 2 * DAY + hour * HOUR) * SECOND)
    assert lines.taken == [("certificate_expired", "grpc")] * 2


def test_one_that_is_not_valid_yet_is_logged_once() -> None:
    """Senders are refused before its time as they are after: one that was put in place too early has a line."""
    found, lines, _ = watch(grpc=DAY)
    for minute in range(0, HOUR, 600):
        found.tick((BEGINS - HOUR + minute) * SECOND)
    assert lines.taken == [("certificate_not_valid_yet", "grpc")]
    found.tick((BEGINS + HOUR) * SECOND)
    assert len(lines.taken) == 1


def test_times_are_metrics_of_each_listener() -> None:
    """A sample for each listener with TLS, and none where the times cannot be read."""
    found, _, servers = watch(grpc=DAY, http=2 * DAY, metrics=None)
    begins, ends = found.readings()
    assert dict(begins.values) == {("grpc",): BEGINS, ("http",): BEGINS}
    assert dict(ends.values) == {("grpc",): BEGINS + DAY, ("http",): BEGINS + 2 * DAY}

    grpc = servers["grpc"].certificates
    assert grpc is not None
    grpc.found = None
    assert [dict(each.values) for each in found.readings()][1] == {("http",): BEGINS + 2 * DAY}
