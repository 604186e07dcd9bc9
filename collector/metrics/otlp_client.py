"""What the pushes of metrics and of traces share: the exporters' package, their HTTP session, the resource.

opentelemetry-exporter-otlp knows `OTEL_EXPORTER_OTLP_*` for headers, certificates and compression. It is loaded when
something is sent, and by a thread.
"""

from __future__ import annotations

import logging
import uuid
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypedDict

from collector import __version__
from collector.net.http_client import proxy_of, without_user

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from requests import Session

__all__ = [
    "TIMEOUT_SECONDS",
    "ExporterArguments",
    "exporter_arguments",
    "prepare",
    "resource",
]

EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"

TIMEOUT_SECONDS: Final = 10.0
"""Time for one request and its retries."""

_INSTANCE: Final = str(uuid.uuid4())


class ExporterArguments(TypedDict):
    """What every exporter is made with."""

    endpoint: str
    headers: dict[str, str] | None
    timeout: float
    session: Session


def prepare() -> None:
    """Has what fails logged by us alone.

    Raises:
        OSError: a sentence; the exporters are not installed.
    """
    if not _is_installed():
        raise OSError(
            "telemetry.otlp_endpoint needs opentelemetry-exporter-otlp: pip install 'offrails[otlp]'"
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


def exporter_arguments(endpoint: str, path: str) -> ExporterArguments:
    """The receiver's URL with the path of a signal, its user as a header, and the proxy of every sink."""
    import requests

    url, authorization = without_user(endpoint.rstrip("/") + path)
    session = requests.Session()
    session.trust_env = False  # proxies are found as for every sink
    proxy = proxy_of(url)
    if proxy is not None:
        session.proxies = {"http": proxy, "https": proxy}
    headers = {"authorization": authorization} if authorization else None
    return {"endpoint": url, "headers": headers, "timeout": TIMEOUT_SECONDS, "session": session}


def resource(**more: Any) -> Resource:
    """Whose telemetry it is; the id is the same for all that this process sends."""
    from opentelemetry.sdk.resources import Resource

    return Resource.create(
        {
            "service.name": "offrails",
            "service.version": __version__,
            "service.instance.id": _INSTANCE,
            **more,
        }
    )
