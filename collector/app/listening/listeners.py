"""The OTLP listeners of a service, by its settings."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from collector.config.field_types import OFF
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.settings import Settings
from collector.config.settings.tls_and_auth import TlsSettings, TokenLimitSettings
from collector.net.asgi import Application
from collector.net.host_guard import HostGuard
from collector.net.watched_files import UnusableFileError
from collector.receive.admission import Admission
from collector.receive.bearer_tokens import Tokens
from collector.receive.export import Export
from collector.receive.http.asgi_server import WebApp
from collector.receive.http.service import HttpApp
from collector.receive.listener.address import parse_address
from collector.receive.listener.connections import ConnectionBounds
from collector.receive.listener.listener import Listener
from collector.receive.listener.tls import Certificates
from collector.receive.memory_guard import MemoryGuard
from collector.receive.rate_limits import RateLimit, RateLimits
from collector.receive.tenant_stamp import SENDER_KEY
from collector.telemetry.counters import MetricReading, Stats
from collector.telemetry.logs import log

if TYPE_CHECKING:
    from collector.receive.grpc.builtin_server import GrpcReceiver
    from collector.receive.grpc.grpcio_server import GrpcioReceiver

__all__ = [
    "Capacity",
    "ConnectionMetrics",
    "Server",
    "build_admission",
    "build_observer",
    "build_receivers",
    "capacity_of",
    "certificates_of",
    "http_bounds",
    "metrics_guard",
    "namespace_keys",
    "rate_limits_of",
    "warn_if_few",
    "warn_if_open",
]

OBSERVER_CONNECTIONS: Final = 256
"""Connections of the metrics and of the admin listener, each: few people and programs use them."""
ENOUGH_CONNECTIONS: Final = 1_024
"""Connections of a listener. If the file descriptors allow fewer, the log always says so."""
RESERVED_FILES: Final = 64
"""Descriptors for sinks, and for files that are read anew."""
OWN_FILES: Final = 16
"""Descriptors that the process opens from its start on: its listeners' and its loop's."""
GUESSED_FILES: Final = 16


class Server(Protocol):
    """A listener."""

    @property
    def connections(self) -> int | None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def certificates(self) -> Certificates | None: ...
    async def start(self) -> str: ...
    async def stop(self, grace_seconds: float) -> None: ...


def build_admission(
    settings: ReceiverSettings, stats: Stats, memory: MemoryGuard | None = None
) -> Admission:
    """Return what lets requests in, for all listeners together.

    Raises:
        OSError: a sentence; the tokens cannot be used.
    """
    tokens_file = settings.auth.bearer.tokens_file
    return Admission(
        max(settings.max_inflight_bytes, settings.max_request_bytes),
        settings.max_inflight_requests,
        Tokens(tokens_file) if tokens_file else None,
        settings.body_seconds,
        rate_limits_of(settings.auth.bearer.limits, settings.max_request_bytes, stats),
        stats.count,
        memory,
    )


def build_observer(
    name: Literal["metrics", "admin"],
    app: Application,
    settings: Settings,
    connections: int = OBSERVER_CONNECTIONS,
    stats: Stats | None = None,
) -> Listener:
    """The metrics or the admin listener."""
    address, tls = (
        (settings.metrics, settings.metrics_tls)
        if name == "metrics"
        else (settings.admin, settings.admin_tls)
    )
    return Listener(
        WebApp(app),
        address,
        certificates=certificates_of(tls, f"{name}_tls"),
        bounds=ConnectionBounds(connections),
        stats=stats,
        name=name,
    )


def metrics_guard(settings: Settings) -> HostGuard:
    """Which names of hosts the metrics listener answers to."""
    return HostGuard(
        settings.metrics, settings.metrics_names, setting="metrics_names", addresses=True
    )


def build_receivers(
    settings: ReceiverSettings, export: Export, admission: Admission, connections: int
) -> dict[str, Server]:
    """Return the listeners that are not off, by name.

    Args:
        settings: of the receiver.
        export: takes the bodies.
        admission: who is let in.
        connections: how many each may have.

    Raises:
        OSError: a sentence; the certificates cannot be used.
    """
    receivers: dict[str, Server] = {}
    if settings.grpc != OFF:
        receivers["grpc"] = _grpc(settings, export, admission, connections)
    if settings.http != OFF:
        receivers["http"] = _http(settings, export, admission, connections)
    return receivers


def rate_limits_of(
    limits: TokenLimitSettings, request_bytes: int, stats: Stats
) -> RateLimits | None:
    """The limits of each sender; None if there are none.

    Args:
        limits: as the settings have them.
        request_bytes: the largest request, which must fit, or its sender would try for ever.
        stats: counts refusals.
    """
    rate_limit = RateLimit(
        limits.requests_per_second,
        limits.bytes_per_second,
        limits.inflight_bytes and max(limits.inflight_bytes, request_bytes),
    )
    return None if rate_limit == RateLimit() else RateLimits(rate_limit, stats.count)


def _grpc(
    settings: ReceiverSettings, export: Export, admission: Admission, connections: int
) -> Server:
    # Loaded only where it is on.
    from collector.receive.grpc.http2.keepalive import Keepalive

    keepalive = settings.keepalive
    return _grpc_server(settings.grpc_server)(
        export,
        settings.grpc,
        settings.max_request_bytes,
        admission=admission,
        certificates=certificates_of(settings.tls, "receiver.tls"),
        bounds=ConnectionBounds(connections, settings.head_seconds),
        keepalive=Keepalive(
            ping_interval=keepalive.ping_seconds,
            ping_timeout=keepalive.ping_timeout_seconds,
            ping_interval_min=keepalive.ping_min_seconds,
            idle_max=keepalive.max_idle_seconds,
            age_max=keepalive.max_age_seconds,
            age_grace=keepalive.max_age_grace_seconds,
        ),
        reflection=settings.reflection,
    )


def _grpc_server(name: str) -> type[GrpcReceiver | GrpcioReceiver]:
    """The gRPC server of that name.

    Raises:
        UnusableFileError: it needs packages that are not installed.
    """
    if name == "builtin":
        from collector.receive.grpc.builtin_server import GrpcReceiver

        return GrpcReceiver
    try:
        from collector.receive.grpc.grpcio_server import GrpcioReceiver
    except ModuleNotFoundError as error:
        reason = f"{error.msg}; pip install 'offrails[grpcio]'"
        raise UnusableFileError("receiver.grpc_server", name, reason) from error
    return GrpcioReceiver


def _http(
    settings: ReceiverSettings, export: Export, admission: Admission, connections: int
) -> Server:
    app = HttpApp(
        export,
        settings.max_request_bytes,
        admission=admission,
        origins=settings.cors.origins,
        guard=HostGuard(
            settings.http, settings.names, setting="receiver.names", addresses=True
        ),
    )
    return Listener(
        app,
        settings.http,
        certificates=certificates_of(settings.tls, "receiver.tls"),
        bounds=http_bounds(settings, connections),
        stats=export.stats,
    )


def http_bounds(settings: ReceiverSettings, connections: int) -> ConnectionBounds:
    """What a listener for HTTP of senders grants their connections."""
    return ConnectionBounds(
        connections,
        settings.head_seconds,
        settings.body_seconds,
        settings.keepalive.max_age_seconds,
    )


def certificates_of(tls: TlsSettings, setting: str) -> Certificates | None:
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
    decide = settings.decide
    tokens = decide.auth.bearer.tokens_file or receiver.auth.bearer.tokens_file
    unprotected = {
        "decide.tls": decide.tls.cert is None,
        "decide.auth or decide.tls.client_ca": tokens is None and decide.tls.client_ca is None,
    }
    _warn(
        "decide",
        addresses,
        [each for each in unprotected if unprotected[each]],
        "who reaches this port can have calls judged that nobody makes, and learn what specs allow",
    )
    if settings.admin_tls.client_ca is None and not settings.admin_auth.is_asked:
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


class Capacity(NamedTuple):
    """How many connections fit the process' file descriptors."""

    receiver: int
    """Connections of each OTLP listener, and of the listener for decisions."""
    observer: int
    """Connections of the metrics and of the admin listener, each."""
    descriptors: int
    """File descriptors that the process may have open."""


def capacity_of(settings: Settings) -> Capacity:
    """Raise the bound on open files as far as it is wanted, and share out what there is.

    Where it is less than wanted, up to half of it is kept for the metrics and admin listeners, for
    sinks and for files: so a flood of senders leaves the service observable.
    """
    receiver = settings.receiver
    wanted = receiver.max_connections
    places = (receiver.grpc, receiver.http, settings.decide.listen)
    listeners = sum(address != OFF for address in places)
    observed = 2 * OBSERVER_CONNECTIONS
    used = _open_files() + OWN_FILES
    needed = used + listeners * wanted + observed + RESERVED_FILES
    found = _raise_limit(needed)
    if found >= needed:
        return Capacity(wanted, OBSERVER_CONNECTIONS, found)
    free = max(found - used, 0)
    reserve = min(observed + RESERVED_FILES, free // 2)
    observer = min(OBSERVER_CONNECTIONS, max(2, reserve // 3))
    each = (free - reserve) // max(listeners, 1)
    return Capacity(min(wanted, max(each, 1)), observer, found)


def _raise_limit(needed: int) -> int:
    """Raise the soft bound on open files as far as the hard one lets it; return what it is."""
    try:
        import resource
    except ImportError:  # pragma: no cover - a system without such a bound
        return needed
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return needed
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return soft


def _open_files() -> int:
    """How many descriptors the process has open; a guess where the system does not show it."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return GUESSED_FILES


def warn_if_few(settings: ReceiverSettings, capacity: Capacity) -> None:
    """Log a warning where fewer connections fit the file descriptors than are set."""
    wanted = settings.max_connections
    if wanted == ReceiverSettings().max_connections:
        wanted = ENOUGH_CONNECTIONS  # nobody asked for as many as the default allows
    if capacity.receiver < wanted:
        log.warning(
            "connections_limited",
            setting="receiver.max_connections",
            configured=settings.max_connections,
            each_listener=capacity.receiver,
            descriptors=capacity.descriptors,
            consequence="raise the limit on open files (ulimit -n), or lower the setting",
        )


class ConnectionMetrics:
    """How many connections each listener has, as metrics.

    Args:
        servers: the listeners by name.
    """

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def readings(self) -> Iterator[MetricReading]:
        servers = self._servers.items()
        open_ones = [(name, each.connections) for name, each in servers]
        counted = [((name,), count) for name, count in open_ones if count is not None]
        yield MetricReading("connections", counted)
        yield MetricReading(
            "connections_capacity", [((name,), each.capacity) for name, each in servers]
        )
