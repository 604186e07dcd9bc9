"""Alerts and webhooks."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from collector.config.field_types import (
    AlertLink,
    BoardLink,
    File,
    Labels,
    Number,
    SessionLink,
    Url,
    Urls,
    Whole,
)
from collector.config.section import SettingsSection
from collector.config.settings.http_client import HttpClientSettings

__all__ = ["AlertSettings", "Joined", "WebhookSettings"]


class WebhookSettings(SettingsSection):
    """A receiver of pages of specs in `mode: page`, in the format of Alertmanager's webhook."""

    url: Annotated[Url, Field(description="URL to which pages are posted.")] = ""
    secret: Annotated[
        SecretStr,
        Field(
            description="Key that signs the body (HMAC-SHA256, header x-offrails-signature-256)."
        ),
    ] = SecretStr("")


Joined = Literal["page", "hint", "silent"]
"""How possible harm is reported: calls that are harmful unless something was missed or is in doubt."""


class AlertSettings(SettingsSection):
    """What is sent at once when a call is harmful. Only specs in `mode: page` page."""

    alertmanager: Annotated[
        Urls,
        Field(description="Base URLs of Alertmanagers. Each gets every page."),
    ] = ()
    alertmanager_http: HttpClientSettings = HttpClientSettings()
    webhook: WebhookSettings = WebhookSettings()
    webhook_http: HttpClientSettings = HttpClientSettings()
    jsonl: Annotated[
        File | None,
        Field(description="File to which harmful verdicts are appended as JSON lines."),
    ] = None
    otlp_endpoint: Annotated[
        Url,
        Field(
            description="OTLP/HTTP receiver of log events (`gen_ai.evaluation.result`). Needs `offrails[otlp]`."
        ),
    ] = ""
    otlp_http: HttpClientSettings = HttpClientSettings()
    settle_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="A page waits for this time, so that an earlier call that arrives late can still withdraw it.",
        ),
    ] = 0.5
    group_by: Annotated[
        Literal["agent", "session"],
        Field(
            description="What makes one alert. agent: all harm of an agent under a spec, with counts and the worst session. session: each session and reason."
        ),
    ] = "agent"
    labels: Labels = Field(
        default_factory=dict,
        description="Additional labels of every direct alert, such as `cluster`. Set here what Prometheus adds to the rules' alerts (external and scrape labels). In a variable: `name=value`.",
    )
    resolve_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="An agent's alert resolves when none of its pages fires and no such harm has occurred for this time. The default outlasts the rules' windows of 30 minutes.",
        ),
    ] = 2100.0
    repeat_seconds: Annotated[
        Number,
        Field(
            gt=0,
            description="Interval at which a firing page is sent to Alertmanager again. Other receivers hear of a page when it fires, gets worse (a new reason or tool, 10, 100, 1,000 times the calls; at most once a minute) and is over.",
        ),
    ] = 60.0
    pages_per_minute: Annotated[
        Whole,
        Field(
            ge=1,
            description="New pages per minute. A quarter of them is reserved for critical ones. Further pages wait, and are counted.",
        ),
    ] = 60
    queue: Annotated[
        Whole,
        Field(
            ge=1,
            description="Messages that wait for one sink. Beyond it, the oldest are dropped and counted.",
        ),
    ] = 1000
    timeout_seconds: Annotated[
        Number, Field(gt=0, description="Time for one whole request to a sink.")
    ] = 5.0
    joined: Annotated[
        Joined,
        Field(
            description="How possible harm is reported: calls that are harmful unless something was missed or is in doubt. page: as pages, like harmful calls. hint: in the log, the JSON lines and the OTLP events. silent: only in the API and the metrics."
        ),
    ] = "hint"
    session_url: Annotated[
        SessionLink,
        Field(
            description="Template of a link to a session, with the placeholders {session} and {namespace}."
        ),
    ] = ""
    runbook_url: Annotated[
        AlertLink,
        Field(description="Template of a link to a runbook, with the placeholder {alert}."),
    ] = ""
    dashboard_url: Annotated[
        BoardLink,
        Field(
            description="Template of a link to a dashboard, with the placeholders {agent} and {spec}."
        ),
    ] = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        clients = {
            "alertmanager": (self.alertmanager, self.alertmanager_http),
            "webhook": ((self.webhook.url,), self.webhook_http),
            "otlp": ((self.otlp_endpoint,), self.otlp_http),
        }
        for name, (urls, client) in clients.items():
            if client.has_credentials and any("@" in urlsplit(url).netloc for url in urls):
                raise ValueError(f"expected the user in the URL or in {name}_http, not both")
        return self
