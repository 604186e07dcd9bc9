"""Pages to any HTTP receiver, in the form of Alertmanager's own webhook (version 4)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

from collector.config.settings.http_client import HttpClientSettings
from collector.sinks.http_client import HttpSender
from collector.telemetry.json_text import as_json

__all__ = ["SIGNATURE", "Webhook", "payload", "signature"]

SIGNATURE = "x-offrails-signature-256"


def signature(secret: str, body: bytes) -> str:
    """HMAC-SHA256 of the body, as `sha256=` and hexadecimal digits."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def payload(alerts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The alerts of one session and reason, as receivers of Alertmanager's webhook know them."""
    first = alerts[0]
    common = {
        part: {
            name: value
            for name, value in first[part].items()
            if all(alert[part].get(name) == value for alert in alerts)
        }
        for part in ("labels", "annotations")
    }
    group = {name: first["labels"].get(name, "") for name in ("alertname", "agent", "spec")}
    keys = ",".join(f'{name}="{value}"' for name, value in group.items())
    firing = any(alert["status"] == "firing" for alert in alerts)
    return {
        "version": "4",
        "receiver": "offrails",
        "status": "firing" if firing else "resolved",
        "groupKey": "{}:{" + keys + "}",
        "groupLabels": group,
        "commonLabels": common["labels"],
        "commonAnnotations": common["annotations"],
        "externalURL": "",
        "truncatedAlerts": 0,
        "alerts": list(alerts),
    }


class Webhook:
    """One receiver.

    Args:
        url: where pages are posted.
        secret: signs the body; "" leaves it unsigned.
        timeout_seconds: for a whole request.
        client: credentials, certificates, proxy.
    """

    name = "webhook"

    def __init__(
        self,
        url: str,
        secret: str,
        timeout_seconds: float,
        client: HttpClientSettings | None = None,
    ) -> None:
        self.sender = HttpSender(url, timeout_seconds, client, "alerts.webhook_http")
        self._secret = secret

    async def send(self, messages: Sequence[dict[str, Any]]) -> None:
        """Each message is one alert."""
        body = as_json(payload([_alert(alert) for alert in messages]))
        headers = {"content-type": "application/json"}
        if self._secret:
            headers[SIGNATURE] = signature(self._secret, body)
        await self.sender.post(body, headers)


def _alert(alert: dict[str, Any]) -> dict[str, Any]:
    labels = "".join(f"{name}\0{value}\0" for name, value in sorted(alert["labels"].items()))
    fingerprint = hashlib.sha256(labels.encode(errors="replace")).hexdigest()[:16]
    return {**alert, "fingerprint": fingerprint}
