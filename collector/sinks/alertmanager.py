"""Pages to Alertmanager's API v2, which keeps its silences, inhibition and routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collector.config.settings.http_client import HttpClientSettings
from collector.sinks.http_client import HttpSender
from collector.telemetry.json_text import as_json

__all__ = ["Alertmanager"]


class Alertmanager:
    """One Alertmanager.

    Args:
        url: its base, such as http://127.0.0.1:9093.
        timeout_seconds: for a whole request.
        client: credentials, certificates, proxy.
    """

    name = "alertmanager"

    def __init__(
        self, url: str, timeout_seconds: float, client: HttpClientSettings | None = None
    ) -> None:
        self.sender = HttpSender(
            url.rstrip("/") + "/api/v2/alerts",
            timeout_seconds,
            client,
            "alerts.alertmanager_http",
        )

    async def send(self, messages: Sequence[dict[str, Any]]) -> None:
        """Each message is an alert; one request carries them all."""
        # Of one alert sent twice only the last counts.
        alerts = {str(alert["labels"]): alert for alert in messages}
        body = as_json(list(alerts.values()))
        await self.sender.post(body, {"content-type": "application/json"})
