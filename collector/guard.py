"""Keeps other sites out of the admin listener: a browser sends what any page tells it to.

A name that a stranger points at 127.0.0.1 makes his page same-origin with ours (DNS rebinding).
So a listener on loopback answers only to loopback's own names.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from collector.asgi import Scope

__all__ = ["Guard", "is_loopback"]


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


class Guard:
    """Says why a request is refused.

    Args:
        address: where the listener is bound, as in the settings. Bound to anything but loopback,
            it is meant to be reached by other names, and takes any.
        names: the names it takes beside loopback's, wherever it is bound.
    """

    def __init__(self, address: str, names: Sequence[str] = ()) -> None:
        host = address.rpartition(":")[0]
        self._names = frozenset(name.lower() for name in names)
        self._strict = bool(names) or (not address.startswith("unix:") and is_loopback(host))

    def refuses(self, scope: Scope) -> str | None:
        """What is wrong with the request; None where nothing is."""
        headers = dict(scope["headers"])
        host = headers.get(b"host")
        if self._strict and host is not None and not self._takes(_name(host)):
            return "this listener does not answer to that name (admin_names)"
        origin = headers.get(b"origin")
        changes = scope["method"] not in ("GET", "HEAD")
        if changes and origin is not None and origin.partition(b"://")[2] != (host or b""):
            return "requests from other sites change nothing here"
        return None

    def _takes(self, name: str) -> bool:
        return is_loopback(name) or name in self._names
