"""What the session view says of the service itself: where to send spans, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from collector import __version__
from collector.config.first_minutes import OFF_BY

__all__ = ["ServiceInfo"]


class ServiceInfo(NamedTuple):
    """The service, as somebody needs to know it who sets up an agent."""

    trace_url: str = ""
    addresses: Mapping[str, str] = {}
    """Bound address of each listener, by its name; filled when the service starts."""
    tls: bool = False
    """True if the receivers speak TLS alone."""
    token: bool = False
    """True if senders need a bearer token."""
    show_arguments: bool = False
    joined_until_ns: Callable[[], int] = lambda: 0
    """End of the time in which a session may have begun before the start, Unix nanoseconds; 0 if
    none can."""

    def as_json(self) -> dict[str, Any]:
        """`/api/v1/about`."""
        until = self.joined_until_ns()
        return {
            "version": __version__,
            "trace_url": self.trace_url,
            "show_arguments": self.show_arguments,
            "tls": self.tls,
            "token": self.token,
            "history": {
                "complete": not until,
                "joined_until": until or None,
                "off_by": OFF_BY,
            },
            "receivers": {
                name: self.addresses[name]
                for name in ("http", "grpc")
                if name in self.addresses
            },
        }
