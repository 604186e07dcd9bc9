"""What the pushes of metrics and of traces share: what an exporter is made with, and the resource."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, TypedDict

from collector import __version__
from collector.net.http_client import without_user
from collector.net.otlp_exporter import session_for

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from requests import Session

__all__ = ["TIMEOUT_SECONDS", "ExporterArguments", "exporter_arguments", "resource"]

TIMEOUT_SECONDS: Final = 10.0
"""Time for one request and its retries."""

_INSTANCE: Final = str(uuid.uuid4())


class ExporterArguments(TypedDict):
    """What every exporter is made with."""

    endpoint: str
    headers: dict[str, str] | None
    timeout: float
    session: Session


def exporter_arguments(endpoint: str, path: str) -> ExporterArguments:
    """The receiver's URL with the path of a signal, its user as a header, and the proxy of every sink."""
    url, authorization = without_user(endpoint.rstrip("/") + path)
    return {
        "endpoint": url,
        "headers": {"authorization": authorization} if authorization else None,
        "timeout": TIMEOUT_SECONDS,
        "session": session_for(url),
    }


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
