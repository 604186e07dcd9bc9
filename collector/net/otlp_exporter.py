"""What all that is sent by opentelemetry-exporter-otlp has in common.

The package knows `OTEL_EXPORTER_OTLP_*` for headers, certificates and compression. It costs memory and time to import:
whoever sends something loads it then, in a thread.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from collector.net.http_client import proxy_of

if TYPE_CHECKING:
    from requests import Session

__all__ = ["require_exporter", "session_for"]

EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"


def require_exporter(setting: str) -> None:
    """Has what fails logged by us alone.

    Args:
        setting: what is set, and needs the exporter.

    Raises:
        OSError: a sentence; the exporter is not installed.
    """
    if not _is_installed():
        raise OSError(
            f"{setting} needs opentelemetry-exporter-otlp: pip install 'offrails[otlp]'"
        )
    for name in ("opentelemetry.exporter", "opentelemetry.sdk._shared_internal"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _is_installed() -> bool:
    try:
        return find_spec(EXPORTER) is not None
    except ModuleNotFoundError:
        return False


def session_for(url: str, given: str = "") -> Session:
    """An exporter's HTTP session, with the proxy that every sink takes for a URL; see `proxy_of`."""
    import requests

    session = requests.Session()
    session.trust_env = False
    proxy = proxy_of(url, given)
    if proxy is not None:
        session.proxies = {"http": proxy, "https": proxy}
    return session
