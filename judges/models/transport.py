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
    if not _is_loopback(host):
        return None
    from openai import DefaultAsyncHttpxClient

    # Authorities are the system's, or those of SSL_CERT_FILE, which OpenSSL reads itself.
    return DefaultAsyncHttpxClient(trust_env=False, verify=ssl.create_default_context())


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
