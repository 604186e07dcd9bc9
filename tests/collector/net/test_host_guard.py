"""Who may speak with the admin listener."""

from __future__ import annotations

from typing import Any

import pytest

from collector.net.host_guard import HostGuard


def scope(host: str | None, method: str = "GET", **headers: str) -> dict[str, Any]:
    found = {**({"host": host} if host is not None else {}), **headers}
    return {
        "method": method,
        "headers": [(name.encode(), value.encode()) for name, value in found.items()],
    }


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:4319", "127.0.0.1:1", "127.9.9.9", "[::1]:80", None]
)
def test_loopback_answers_to_its_own_names(host: str | None) -> None:
    """Names and addresses of loopback are taken, whatever the port."""
    assert HostGuard("127.0.0.1:4319").refuses(scope(host)) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]", "a@localhost.evil"],
)
def test_loopback_answers_to_no_other(host: str) -> None:
    """A stranger's name that points at loopback is refused."""
    assert HostGuard("localhost:4319").refuses(scope(host)) is not None


def test_names_are_checked_once_the_settings_list_them() -> None:
    """Elsewhere any name is taken, until names are listed."""
    assert HostGuard("0.0.0.0:4319").refuses(scope("any.example")) is None
    strict = HostGuard("0.0.0.0:4319", ["Monitor.example"])
    assert strict.refuses(scope("monitor.example:4319")) is None
    assert strict.refuses(scope("localhost:4319")) is None
    assert strict.refuses(scope("any.example")) is not None


def test_other_sites_change_nothing() -> None:
    """A request that changes something and comes from another site's page is refused."""
    guard = HostGuard("127.0.0.1:4319")
    other = scope("localhost:4319", "POST", origin="https://evil.example")
    assert guard.refuses(other) is not None
    assert guard.refuses(scope("localhost:4319", "POST")) is None
    own = scope("localhost:4319", "POST", origin="http://localhost:4319")
    assert guard.refuses(own) is None


@pytest.mark.parametrize(
    "host", ["10.0.0.1:9464", "[2001:db8::1]:80", "localhost", "127.0.0.1"]
)
def test_addresses_are_no_names(host: str) -> None:
    """Where senders and scrapers come by an address, any is taken, and still no stranger's name."""
    guard = HostGuard(
        "127.0.0.1:9464", ["Ours.example"], setting="metrics_names", addresses=True
    )
    assert guard.refuses(scope(host)) is None
    assert guard.refuses(scope("ours.example:1")) is None
    said = guard.refuses(scope("10.0.0.1.evil.example"))
    assert said is not None
    assert "metrics_names" in said


@pytest.mark.parametrize(
    ("host", "refused"),
    [
        ("rebound.example", True),
        ("rebound.example:4319", True),
        ("10.0.0.7:4319", False),
        ("monitor:4319", False),
        ("localhost:4319", False),
        ("public.example", False),
    ],
)
def test_a_page_under_a_strange_name_changes_nothing(host: str, refused: bool) -> None:
    """On an exposed listener any name reads, but a page changes something under a name that cannot be rebound alone."""
    guard = HostGuard("0.0.0.0:4319", public="public.example")
    assert guard.refuses(scope(host)) is None
    assert guard.refuses(scope(host, "POST")) is None
    assert (guard.refuses(scope(host, "POST", origin=f"http://{host}")) is not None) == refused
