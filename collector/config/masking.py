"""Settings with what nobody else may know left out, so that they can be shown and pasted."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import yaml

from collector.config.settings.settings import Settings

__all__ = ["MASK", "as_yaml", "masked", "masked_url"]

MASK: Final = "********"

_VALUES: Final = re.compile(r"=[^&{}]+(?=&|$)")
"""Values of a query, but for those that hold a place, such as {trace_id}."""


def as_yaml(settings: Settings) -> str:
    """The settings as a file that `load` reads back, without its secrets."""
    return yaml.safe_dump(masked(settings), sort_keys=False, allow_unicode=True)


def masked(settings: Settings) -> dict[str, Any]:
    """The settings as plain data, without secrets.

    A webhook's path is a secret as a rule (chat services put a token there), so nothing of it but
    the host is kept. Of every other URL user, password, query and fragment are masked. Files of
    keys and tokens are named only; what is in them is never read for this.
    """
    data = _urls(settings.model_dump(mode="json"))
    clients = [data["alerts"][f"{name}_http"] for name in ("alertmanager", "webhook", "otlp")]
    for client in (*clients, *data["forward"]):
        client["headers"] = dict.fromkeys(client["headers"], MASK)
    webhook = data["alerts"]["webhook"]
    if webhook["secret"]:
        webhook["secret"] = MASK
    webhook["url"] = masked_url(settings.alerts.webhook.url, path=True)
    data["archive"]["url"] = masked_url(settings.archive.url.get_secret_value())
    found: dict[str, Any] = data
    return found


def _urls(value: Any) -> Any:
    """Every URL in a tree of plain data masked, whatever its key: a new setting is not forgotten."""
    if isinstance(value, dict):
        return {key: _urls(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_urls(inner) for inner in value]
    return masked_url(value) if isinstance(value, str) else value


def masked_url(url: str, *, path: bool = False) -> str:
    """A URL without user, password, values of the query and fragment; with `path`, none of that.

    What is no URL stays as it is.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    if parts.scheme not in ("http", "https", "postgresql", "postgres") and not url.startswith(
        "/"
    ):
        return url
    return SplitResult(
        parts.scheme,
        _host(parts.netloc),
        f"/{MASK}" if path and parts.path.strip("/") else parts.path,
        _query(parts.query),
        MASK if parts.fragment and "{" not in parts.fragment else parts.fragment,
    ).geturl()


def _host(place: str) -> str:
    user, at, host = place.rpartition("@")
    return f"{MASK}@{host}" if at and user else host


def _query(query: str) -> str:
    if query and "=" not in query and "{" not in query:
        return MASK
    return _VALUES.sub(f"={MASK}", query)
