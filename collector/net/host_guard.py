"""Refuses requests that a browser sends for the page of another site.

DNS rebinding: an attacker's name resolves to 127.0.0.1, so the attacker's page has the same origin as
the listener. So a listener on loopback accepts only loopback's own names as Host. An IP address cannot
be rebound, so senders and scrapers may use any address.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from collector.net.asgi import Scope

__all__ = ["HostGuard", "is_foreign", "is_local_name", "is_loopback"]


def is_loopback(host: str) -> bool:
    """True for `localhost`, names under it, and addresses such as 127.0.0.1 and ::1."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _name(host: bytes) -> str:
    """The name in a Host header, without its port; "" if the header is malformed."""
    try:
        return urlsplit(f"//{host.decode('latin-1')}").hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_local_name(host: bytes) -> bool:
    """True for a name without a dot, such as a host's or a container's: public DNS has none."""
    return b"." not in host


def is_foreign(origin: bytes | None, host: bytes | None) -> bool:
    """True if the request comes from the page of another site."""
    return origin is not None and origin.partition(b"://")[2] != (host or b"")


class HostGuard:
    """Decides which requests are refused, and why.

    Args:
        address: where the listener is bound, as in the settings. If that is not loopback, and no
            names are given, any name is accepted.
        names: accepted names, in addition to loopback's.
        setting: key of the setting that holds them.
        addresses: whether any IP address is accepted, too.
        public: the name under which people reach it, which is accepted; "" if none is known.
    """

    def __init__(
        self,
        address: str,
        names: Sequence[str] = (),
        *,
        setting: str = "admin_names",
        addresses: bool = False,
        public: str = "",
    ) -> None:
        host = address.rpartition(":")[0]
        self._setting = setting
        self._addresses = addresses
        self._names = frozenset(name.lower() for name in (*names, public) if name)
        self._strict = bool(names) or (not address.startswith("unix:") and is_loopback(host))

    def refuses(self, scope: Scope) -> str | None:
        """The fault of the request; None if it is accepted."""
        headers = dict(scope["headers"])
        host = headers.get(b"host")
        refused = self.refuses_host(host)
        if refused is not None:
            return refused
        changes = scope["method"] not in ("GET", "HEAD")
        if changes and is_foreign(headers.get(b"origin"), host):
            return "requests from other sites change nothing here"
        if changes and b"origin" in headers and not self._is_ours(host or b""):
            return f"a page changes something only under a known name ({self._setting})"
        return None

    def _is_ours(self, host: bytes) -> bool:
        """Whether a Host cannot be a stranger's name that resolves to this listener."""
        name = _name(host)
        return self._takes(name) or _is_address(name) or is_local_name(host)

    def refuses_host(self, host: bytes | None) -> str | None:
        """The fault of a Host header; None if it is accepted or absent."""
        if not self._strict or host is None or self._takes(_name(host)):
            return None
        return f"this listener does not answer to that name ({self._setting})"

    def _takes(self, name: str) -> bool:
        if is_loopback(name) or name in self._names:
            return True
        return self._addresses and _is_address(name)
