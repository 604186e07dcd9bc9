"""Next hops that are our own listeners: each request would come back, for ever."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from collector.config.settings.forward import NextHopSettings
from collector.net.watched_files import UnusableFileError
from collector.receive.listener.address import Address, parse_address

__all__ = ["refuse_loops"]

PORTS: Final = {"http": 80, "https": 443}
LISTENERS: Final = ("grpc", "http")


def refuse_loops(hops: Iterable[NextHopSettings], addresses: Mapping[str, str]) -> None:
    """Refuses an endpoint at which one of our OTLP listeners answers. Resolves names, which may take time.

    Args:
        hops: settings of the next hops.
        addresses: listener -> the address to which it is bound.

    Raises:
        UnusableFileError: names the setting and the listener.
    """
    own = {name: parse_address(addresses[name]) for name in LISTENERS if name in addresses}
    for place, hop in enumerate(hops):
        parts = urlsplit(hop.endpoint)
        port = parts.port or PORTS[parts.scheme]
        for name, address in own.items():
            if address.path or address.port != port:
                continue
            if any(_answers(address, each) for each in _resolved(parts.hostname or "", port)):
                setting = f"forward[{place}].endpoint"
                why = f"it is this service's own listener receiver.{name}"
                raise UnusableFileError(setting, f"{parts.hostname}:{port}", why)


def _resolved(host: str, port: int) -> set[str]:
    """Addresses that are reached under a host; none where it is not known now."""
    with suppress(OSError, ValueError):
        return {
            _reached(str(found[4][0]))
            for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        }
    return set()


def _reached(address: str) -> str:
    """The address at which a connection to it arrives: who connects to no address in particular stays on the machine."""
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_unspecified:
        return "127.0.0.1" if found.version == 4 else "::1"
    return str(found)


def _answers(own: Address, host: str) -> bool:
    """True if who connects to the host, at the listener's port, reaches the listener."""
    if own.host in ("", "::", "0.0.0.0"):  # noqa: S104 - it is compared, not bound
        return _is_ours(host) and (own.host != "0.0.0.0" or ":" not in host)  # noqa: S104
    return host in _resolved(own.host, own.port)


def _is_ours(host: str) -> bool:
    """True for an address of this machine: only those can be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return True
    return False
