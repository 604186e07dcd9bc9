"""Keeps other sites out of our listeners: a browser sends whatever a web page has it send.

A name that a stranger points at 127.0.0.1 makes his page same-origin with ours (DNS rebinding).
So a listener on loopback answers only to loopback's own names. An address is no name: it cannot be
pointed elsewhere, so senders and scrapers may use any.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from collector.net.asgi import Scope

__all__ = ["Guard", "is_foreign", "is_local_name", "is_loopback"]


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
    """The name of a Host header, without its port; "" where it is none."""
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
    """True for a name without a dot, for which no public DNS answers: a host's own, or a container's."""
    return b"." not in host


def is_foreign(origin: bytes | None, host: bytes | None) -> bool:
    """True for the page of another site than the one that is asked."""
    return origin is not None and origin.partition(b"://")[2] != (host or b"")


class Guard:
    """Says why a request is refused.

    Args:
        address: where the listener is bound, as in the settings. Bound to anything but loopback,
            it is meant to be reached by other names, and takes any.
        names: the names it takes beside loopback's, wherever it is bound.
        setting: which holds them.
        addresses: whether any IP address is taken, too.
    """

    def __init__(
        self,
        address: str,
        names: Sequence[str] = (),
        *,
        setting: str = "admin_names",
        addresses: bool = False,
    ) -> None:
        host = address.rpartition(":")[0]
        self._setting = setting
        self._addresses = addresses
        self._names = frozenset(name.lower() for name in names)
        self._strict = bool(names) or (not address.startswith("unix:") and is_loopback(host))

    def refuses(self, scope: Scope) -> str | None:
        """What is wrong with the request; None where nothing is."""
        headers = dict(scope["headers"])
        host = headers.get(b"host")
        refused = self.refuses_host(host)
        if refused is not None:
            return refused
        changes = scope["method"] not in ("GET", "HEAD")
        if changes and is_foreign(headers.get(b"origin"), host):
            return "requests from other sites change nothing here"
        return None

    def refuses_host(self, host: bytes | None) -> str | None:
        """What is wrong with a Host header; None where nothing is, or there is none."""
        if not self._strict or host is None or self._takes(_name(host)):
            return None
        return f"this listener does not answer to that name ({self._setting})"

    def _takes(self, name: str) -> bool:
        if is_loopback(name) or name in self._names:
            return True
        return self._addresses and _is_address(name)
