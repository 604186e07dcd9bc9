"""How an endpoint is reached: as the environment says, but this machine without a proxy."""

from __future__ import annotations

import ipaddress
import ssl
from contextlib import suppress
from typing import Any

__all__ = ["transport_to"]


def transport_to(host: str) -> Any:
    """The transport of the client of models; None for its own, which HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY choose.

    A proxy knows nothing of an endpoint on this machine, and transcripts are not for it.
    """
    if not _is_here(host):
        return None
    from openai import DefaultAsyncHttpxClient

    # Authorities are the system's, or those of SSL_CERT_FILE, which OpenSSL reads itself.
    return DefaultAsyncHttpxClient(trust_env=False, verify=ssl.create_default_context())


def _is_here(host: str) -> bool:
    """True for names and addresses of this machine, 0.0.0.0 among them, at which servers of models say that they listen."""
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    with suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        found = getattr(address, "ipv4_mapped", None) or address
        return bool(found.is_loopback or found.is_unspecified)
    return False
