"""The OTLP listeners of a service, by its settings."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Protocol

from collector.logs import log
from collector.receivers.address import parse_address
from collector.receivers.crowd import Bounds
from collector.receivers.door import Door
from collector.receivers.export import Export
from collector.receivers.http import HttpApp
from collector.receivers.listener import Listener
from collector.receivers.senders import SENDER_KEY
from collector.receivers.shares import Share, Shares
from collector.receivers.tls import Certificates
from collector.receivers.tokens import Tokens
from collector.settings import OFF, Receiver, Settings, Tls
from collector.stats import Stats

__all__ = [
    "Server",
    "allow_connections",
    "build_door",
    "build_receivers",
    "certificates_of",
    "namespace_keys",
    "warn_if_open",
]

RESERVED_FILES = 64
"""Descriptors for everything that is no connection of a sender."""


class Server(Protocol):
    """A listener."""

    async def start(self) -> str: ...
    async def stop(self, grace_seconds: float) -> None: ...


def build_door(settings: Receiver, stats: Stats) -> Door:
    """Return what lets requests in, for all listeners together.

    Raises:
        OSError: a sentence; the tokens cannot be used.
    """
    tokens_file = settings.auth.bearer.tokens_file
    return Door(
        max(settings.max_inflight_bytes, settings.max_request_bytes),
        settings.max_inflight_requests,
        Tokens(tokens_file) if tokens_file else None,
        settings.body_seconds,
        _shares(settings, stats),
    )


def build_receivers(settings: Receiver, export: Export, door: Door) -> dict[str, Server]:
    """Return the listeners that are not off, by name.

    Raises:
        OSError: a sentence; the certificates cannot be used.
    """
    receivers: dict[str, Server] = {}
    if settings.grpc != OFF:
        receivers["grpc"] = _grpc(settings, export, door)
    if settings.http != OFF:
        receivers["http"] = _http(settings, export, door)
    return receivers


def _shares(settings: Receiver, stats: Stats) -> Shares | None:
    limits = settings.auth.bearer.limits
    share = Share(
        limits.requests_per_second,
        limits.bytes_per_second,
        # The largest request must fit, or its sender would try for ever.
        limits.inflight_bytes and max(limits.inflight_bytes, settings.max_request_bytes),
    )
    return None if share == Share() else Shares(share, stats.count)


def _grpc(settings: Receiver, export: Export, door: Door) -> Server:
    # Loaded only where it is on.
    from collector.receivers.grpc import GrpcReceiver
    from collector.receivers.http2 import Keeping

    keepalive = settings.keepalive
    return GrpcReceiver(
        export,
        settings.grpc,
        settings.max_request_bytes,
        door=door,
        certificates=certificates_of(settings.tls, "receiver.tls"),
        bounds=Bounds(settings.max_connections, settings.head_seconds),
        keeping=Keeping(
            ping_interval=keepalive.ping_seconds,
            ping_timeout=keepalive.ping_timeout_seconds,
            ping_interval_min=keepalive.ping_min_seconds,
            idle_max=keepalive.max_idle_seconds,
            age_max=keepalive.max_age_seconds,
            age_grace=keepalive.max_age_grace_seconds,
        ),
        reflection=settings.reflection,
    )


def _http(settings: Receiver, export: Export, door: Door) -> Server:
    app = HttpApp(export, settings.max_request_bytes, door=door, origins=settings.cors.origins)
    bounds = Bounds(
        settings.max_connections,
        settings.head_seconds,
        settings.body_seconds,
        settings.keepalive.max_age_seconds,
    )
    return Listener(
        app,
        settings.http,
        certificates=certificates_of(settings.tls, "receiver.tls"),
        bounds=bounds,
        stats=export.stats,
    )


def certificates_of(tls: Tls, setting: str) -> Certificates | None:
    """The certificates of a listener; each looks at the files by itself.

    Args:
        tls: the listener's section.
        setting: what it is called in the settings.
    """
    if tls.cert is None or tls.key is None:
        return None
    return Certificates(tls.cert, tls.key, tls.client_ca, setting)


def namespace_keys(settings: Settings) -> Sequence[str]:
    """Where tokens are asked for, the name of the sender's comes first in the namespace."""
    given = settings.sessions.namespace_attributes
    return (SENDER_KEY, *given) if settings.receiver.auth.bearer.tokens_file else given


def warn_if_open(settings: Settings, addresses: Mapping[str, str]) -> None:
    """Log a warning for each listener that others can reach and nothing protects."""
    receiver = settings.receiver
    known = receiver.tls.client_ca is not None or receiver.auth.bearer.tokens_file is not None
    missing = {
        "receiver.tls": receiver.tls.cert is None,
        "receiver.auth or receiver.tls.client_ca": not known,
    }
    consequence = "who reaches this port can " + (
        "read what agents send" if known else "send what it likes"
    )
    for name in ("grpc", "http"):
        _warn(name, addresses, [each for each in missing if missing[each]], consequence)
    if settings.admin_tls.client_ca is None:
        _warn(
            "admin",
            addresses,
            ["admin_tls.client_ca"],
            "who reaches this port can read every session, and have the specs read anew",
        )


def _warn(
    name: str, addresses: Mapping[str, str], missing: Sequence[str], consequence: str
) -> None:
    if missing and name in addresses and _is_public(addresses[name]):
        log.warning(
            "open_to_others",
            listener=name,
            address=addresses[name],
            missing=list(missing),
            consequence=consequence,
        )


def _is_public(address: str) -> bool:
    parsed = parse_address(address)
    if parsed.path or parsed.host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parsed.host or "::").is_loopback
    except ValueError:  # a name
        return True


def allow_connections(settings: Receiver) -> None:
    """Raise the process' bound on open files, as far as it may, to hold the connections."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        wanted = 2 * settings.max_connections + RESERVED_FILES
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
