"""All user configuration. Options override `OFFRAILS_*` variables, and variables override the YAML file.

Unknown keys are refused. Each message names the file, line and key, or the variable or option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self, get_args
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, model_validator

from collector.calls.decisions.decided_calls import BYTES_MAX as DECIDED_BYTES_MAX
from collector.calls.sessions.session_ids import NAMESPACE_KEYS
from collector.calls.tree.trace_store import ARGUMENTS_BYTES_MAX, SPANS_BYTES_MAX
from collector.config.field_types import (
    OFF,
    Address,
    AlertLink,
    BoardLink,
    Endpoint,
    Expressions,
    File,
    HeaderName,
    HeaderNames,
    Headers,
    Labels,
    Names,
    NamesByName,
    Networks,
    NextHops,
    Number,
    Paths,
    Positive,
    Proxy,
    Roles,
    SessionLink,
    Signals,
    Switch,
    TraceLink,
    Url,
    Urls,
    Whole,
)
from collector.decode.sizes import VALUE_BYTES_MAX, VALUE_BYTES_MIN
from collector.dialects.choose import AGENT_KEYS, SESSION_KEYS
from monitor.limits import SESSION_BYTES_MAX
from monitor.spec.document.validation import DocumentFault, StrictModel, validated
from monitor.spec.document.yaml_text import Document, parse
from monitor.spec.suggestions import closest

__all__ = [
    "ENVIRONMENT",
    "OFF",
    "HttpClientSettings",
    "Leaf",
    "NextHopSettings",
    "Settings",
    "SettingsError",
    "leaves",
    "load",
    "place",
    "standby",
    "unknown",
]

PREFIX = "OFFRAILS_"


class SettingsError(Exception):
    """The configuration cannot be used; the message says where and what was expected."""


class _Section(StrictModel):
    """A section of the settings. Numbers are finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class TlsSettings(_Section):
    """Certificates of a listener, in PEM. They are reloaded when the files change."""

    cert: Annotated[
        File | None,
        Field(
            description="PEM file with the certificate chain. If set, the listener accepts TLS only. Needs `key`."
        ),
    ] = None
    key: Annotated[
        File | None, Field(description="PEM file with the unencrypted private key of `cert`.")
    ] = None
    client_ca: Annotated[
        File | None,
        Field(
            description="PEM file with the authorities of clients' certificates (mTLS). If set, a client without a certificate of theirs is refused."
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("expected both cert and key, or neither")
        if self.client_ca is not None and self.cert is None:
            raise ValueError("client_ca needs cert and key")
        return self


class TokenLimitSettings(_Section):
    """Limits for the senders of each token name. None: no limit."""

    requests_per_second: Annotated[
        Positive | None,
        Field(
            description="Requests per second for each token name. Beyond it, the sender is told to retry later (429, RESOURCE_EXHAUSTED). Two seconds' worth may come at once. Unset: no limit."
        ),
    ] = None
    bytes_per_second: Annotated[
        Positive | None,
        Field(
            description="Bytes of bodies per second for each token name. Beyond it, as for `requests_per_second`. Unset: no limit."
        ),
    ] = None
    inflight_bytes: Annotated[
        Annotated[Whole, Field(ge=1024)] | None,
        Field(
            description="Bytes of bodies that are being read or judged, for each token name. Beyond it, as for `requests_per_second`. Unset: no limit."
        ),
    ] = None


class BearerSettings(_Section):
    """Bearer tokens."""

    tokens_file: Annotated[
        File | None,
        Field(
            description="File of accepted tokens, one per line: `token` or `name: token`. If set, every sender needs a token, and the name separates tenants."
        ),
    ] = None
    limits: Annotated[TokenLimitSettings, Field(description="Limits of each sender.")] = (
        TokenLimitSettings()
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.tokens_file is None and self.limits != TokenLimitSettings():
            raise ValueError("limits are of tokens: expected a tokens_file")
        return self


class AuthSettings(_Section):
    """Who may send."""

    bearer: Annotated[BearerSettings, Field(description="Bearer tokens.")] = BearerSettings()


class AdminBearerSettings(_Section):
    """Bearer tokens of the admin listener."""

    tokens_file: Annotated[
        File | None,
        Field(
            description="File of accepted tokens, one per line: `token` or `name: token`. If set, the API, the session view and reload require a token. Browsers ask for it as a password."
        ),
    ] = None


class AdminProxySettings(_Section):
    """A proxy in front of the admin listener that knows its users, such as oauth2-proxy."""

    model_config = ConfigDict(serialize_by_alias=True)

    header: Annotated[
        HeaderName,
        Field(
            description="Request header in which the proxy gives the user's name. The proxy must overwrite what a client sends there."
        ),
    ] = "x-forwarded-user"
    roles_header: Annotated[
        HeaderName,
        Field(
            description="Request header with the user's roles and groups, separated by commas: `viewer`, `operator`, or names in `admin_auth.roles` and `admin_auth.namespaces`. Who has no role is refused. Unset: the user's own name decides."
        ),
    ] = ""
    networks: Annotated[
        Networks,
        Field(
            alias="from",
            description="Addresses of the proxy, such as `10.0.3.0/24` (CIDR). Headers of others are not believed. If empty, nobody's are.",
        ),
    ] = ()


class AdminAuthSettings(_Section):
    """Who may read sessions, end them, and reload specs."""

    bearer: Annotated[AdminBearerSettings, Field(description="Bearer tokens.")] = (
        AdminBearerSettings()
    )
    roles: Roles = Field(
        default_factory=dict,
        description="Name of a token, or of a user or group of the proxy -> `viewer`, who reads, or `operator`, who also reloads specs and ends sessions. A token without a role is an operator's. In a variable: `name=role`.",
    )
    namespaces: NamesByName = Field(
        default_factory=dict,
        description="Name of a token, or of a user or group of the proxy -> the namespaces that it sees, each with all below it (`team-a` has `team-a/prod`). Who is not named here sees all. In a variable: `name=namespace`, one for each.",
    )
    proxy: Annotated[AdminProxySettings, Field(description="A proxy in front.")] = (
        AdminProxySettings()
    )

    @property
    def is_asked(self) -> bool:
        """True where not everybody may ask."""
        return self.bearer.tokens_file is not None or bool(self.proxy.networks)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.roles or self.namespaces) and not self.is_asked:
            raise ValueError(
                "roles and namespaces are of tokens and users: expected bearer.tokens_file or proxy.from"
            )
        if self.proxy != AdminProxySettings() and not self.proxy.networks:
            raise ValueError("proxy: expected its addresses under `from`")
        return self


class CorsSettings(_Section):
    """Browsers that may send."""

    origins: Annotated[
        Names,
        Field(
            description="Origins of web pages that may send, such as `https://*.example.com`. If empty, browsers may not send."
        ),
    ] = ()


class KeepaliveSettings(_Section):
    """How long connections live. Null: no limit, or gRPC's default where a description names one."""

    ping_seconds: Annotated[
        Positive | None,
        Field(
            description="gRPC: a client that has been silent for this time gets a ping. Unset: no pings."
        ),
    ] = None
    ping_timeout_seconds: Annotated[
        Positive | None,
        Field(
            description="gRPC: time to answer a ping. After it, the connection is closed. Unset: 20 s."
        ),
    ] = None
    ping_min_seconds: Annotated[
        Positive | None,
        Field(
            description="gRPC: shortest interval at which a client may ping. A client that pings more often is disconnected. Unset: 300 s, gRPC's default."
        ),
    ] = None
    max_idle_seconds: Annotated[
        Positive | None,
        Field(
            description="gRPC: a connection without calls for this time is closed. Null: never."
        ),
    ] = 300.0
    max_age_seconds: Annotated[
        Positive | None,
        Field(
            description="A connection of this age is closed, so that clients reconnect and load spreads over new replicas. Unset: never."
        ),
    ] = None
    max_age_grace_seconds: Annotated[
        Positive | None,
        Field(
            description="gRPC: time for open calls to finish after `max_age_seconds`. Unset: no limit."
        ),
    ] = None


class ReceiverSettings(_Section):
    """The OTLP listeners."""

    grpc: Annotated[
        Address, Field(description="Address for OTLP over gRPC: HOST:PORT, unix:PATH or off.")
    ] = "127.0.0.1:4317"
    grpc_server: Annotated[
        Literal["builtin", "grpcio"],
        Field(
            description="gRPC server: `builtin`, or `grpcio`, which needs `offrails[grpcio]`."
        ),
    ] = "builtin"
    http: Annotated[
        Address, Field(description="Address for OTLP over HTTP: HOST:PORT, unix:PATH or off.")
    ] = "127.0.0.1:4318"
    max_request_bytes: Annotated[
        Whole,
        Field(
            ge=1024,
            description="Largest request body in bytes, also after decompression. A larger one is refused (413, RESOURCE_EXHAUSTED), and exporters do not retry it.",
        ),
    ] = 64 * 1024 * 1024
    max_attribute_bytes: Annotated[
        Whole,
        Field(
            ge=VALUE_BYTES_MIN,
            description="Largest attribute value that is read, in bytes. A larger one counts as unknown.",
        ),
    ] = VALUE_BYTES_MAX
    max_inflight_bytes: Annotated[
        Whole,
        Field(
            ge=1024,
            description="Bytes of all bodies that are being read. Beyond it, senders are told to retry later (503, UNAVAILABLE).",
        ),
    ] = 256 * 1024 * 1024
    max_inflight_requests: Annotated[
        Whole,
        Field(
            ge=1,
            description="Requests that are being read. Beyond it, senders are told to retry later (503, UNAVAILABLE).",
        ),
    ] = 16_384
    max_connections: Annotated[
        Whole,
        Field(
            ge=1,
            description="Connections per listener. Beyond it, the connection that has kept the listener waiting longest is closed.",
        ),
    ] = 16_384
    head_seconds: Annotated[
        Number,
        Field(
            gt=0,
            description="Time for the TLS handshake, and for the headers of a request.",
        ),
    ] = 10.0
    body_seconds: Annotated[
        Number,
        Field(gt=0, description="Time for the body of a request, from the end of its headers."),
    ] = 60.0
    tls: Annotated[TlsSettings, Field(description="Certificates.")] = TlsSettings()
    auth: Annotated[AuthSettings, Field(description="Who may send.")] = AuthSettings()
    names: Annotated[
        Names,
        Field(
            description="Host names that HTTP senders may use, in addition to IP addresses and loopback names. If empty, a listener that is not on loopback accepts any name."
        ),
    ] = ()
    cors: Annotated[CorsSettings, Field(description="Browsers that may send.")] = CorsSettings()
    keepalive: Annotated[KeepaliveSettings, Field(description="How long connections live.")] = (
        KeepaliveSettings()
    )
    reflection: Annotated[
        Switch, Field(description="Offers gRPC reflection, for tools such as grpcurl.")
    ] = False


class DecideSettings(_Section):
    """The listener that answers before a call is made (docs/before-the-call.md)."""

    listen: Annotated[
        Address, Field(description="Address for decisions: HOST:PORT, unix:PATH or off.")
    ] = "127.0.0.1:4320"
    confirm_seconds: Annotated[
        Number,
        Field(
            gt=0,
            description="Time for a span, or for the client, to confirm a call that was decided and goes ahead. After it, the call is taken back. Set it above the longest time between a decision and the arrival of the call's span.",
        ),
    ] = 60.0
    max_request_bytes: Annotated[
        Whole,
        Field(
            ge=1024,
            description="Largest question in bytes. A larger one is refused (413). Reading one of 256 KiB with many small values takes tens of milliseconds, in which nobody else is answered.",
        ),
    ] = 256 * 1024
    max_call_bytes: Annotated[
        Whole,
        Field(
            ge=1 << 20,
            description="Approximate bytes of decided calls, which are remembered for 11 minutes. Beyond it, the tenant that holds most loses its oldest; a quarter more is for denied calls that are shown.",
        ),
    ] = DECIDED_BYTES_MAX
    tls: Annotated[TlsSettings, Field(description="Certificates.")] = TlsSettings()
    auth: Annotated[
        AuthSettings,
        Field(
            description="Who may ask. If `bearer.tokens_file` is not set, the tokens of the receivers are required, if these require any."
        ),
    ] = AuthSettings()
    names: Annotated[
        Names,
        Field(
            description="Host names that clients may use, in addition to IP addresses and loopback names. If empty, a listener that is not on loopback accepts any name."
        ),
    ] = ()


class SessionSettings(_Section):
    """What a session is, and how long it lives."""

    max: Annotated[
        Whole,
        Field(
            ge=1,
            description="Live sessions. Beyond it, the least recently active one is evicted.",
        ),
    ] = 100_000
    max_bytes: Annotated[
        Whole,
        Field(
            ge=1 << 20,
            description="Approximate bytes of all live sessions. Beyond it, the tenant above its share loses its least recently "
            "active session.",
        ),
    ] = SESSION_BYTES_MAX
    max_argument_bytes: Annotated[
        Whole,
        Field(
            ge=0,
            description="Approximate bytes of arguments held to recognise further spans of the same calls. Beyond it, the tenant that holds most loses its largest and oldest. Verdicts stay.",
        ),
    ] = ARGUMENTS_BYTES_MAX
    max_span_bytes: Annotated[
        Whole,
        Field(
            ge=1 << 22,
            description="Approximate bytes remembered of spans, without arguments: a third for the trees of traces, the rest for the ids of judged spans. Beyond it, trees are forgotten sooner than after 2 to 4 minutes, and ids sooner than after 10 to 20 minutes.",
        ),
    ] = SPANS_BYTES_MAX
    idle_seconds: Annotated[
        Number,
        Field(
            gt=0,
            description="A session without calls for this time has ended. Raise it if agents pause longer within a session.",
        ),
    ] = 1800.0
    window_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="A verdict is final this long after its call was received. Until then, an earlier call that arrives late may change it. Raise it if spans arrive later.",
        ),
    ] = 10.0
    remember_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="The state of an ended session is kept for this time, so that the session may continue. If it continues later, it counts as joined.",
        ),
    ] = 86400.0
    hold_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="A finished session counts in the gauges of scores for this time. Keep it above the scrape interval.",
        ),
    ] = 300.0
    id_attributes: Annotated[
        Names,
        Field(
            description="Attributes that hold a session's id, best first, whichever span of a trace has them. Without any of them, each trace is a session of its own."
        ),
    ] = SESSION_KEYS
    agent_attributes: Annotated[
        Names,
        Field(
            description="Attributes that hold an agent's name, best first. Without any of them: `service.name`."
        ),
    ] = AGENT_KEYS
    requested: Annotated[
        Literal["auto", "always", "never"],
        Field(
            description="Whether requested calls (calls that a model asked for) are judged. auto: only those of tools that leave no spans."
        ),
    ] = "auto"
    group_by_answer: Annotated[
        Switch,
        Field(
            description="Whether calls that one model answer asks for are a group without an order, even where their spans do not overlap. Policies that are `strict` order them by their times."
        ),
    ] = True
    namespace_attributes: Annotated[
        Names,
        Field(description="Resource attributes whose values keep tenants' sessions apart."),
    ] = NAMESPACE_KEYS
    span_attributes_bind: Annotated[
        Names,
        Field(
            description="Attributes that a span may set in place of its resource's, where specs match on them. Needed where one resource stands for several services."
        ),
    ] = ()


class ReloadSettings(_Section):
    """Specs that change while the service runs."""

    watch: Annotated[
        Switch,
        Field(
            description="Reloads specs when their files change. If false, reload with SIGHUP or `POST /-/reload`."
        ),
    ] = True


class HttpClientSettings(_Section):
    """How a sink reaches its receiver. Files are reloaded when they change."""

    username: Annotated[
        str,
        Field(
            description="User of basic authentication. A user and password in the URL have the same effect."
        ),
    ] = ""
    password_file: Annotated[
        File | None, Field(description="File with the password of `username`.")
    ] = None
    bearer_token_file: Annotated[
        File | None, Field(description="File with a token, sent as `Authorization: Bearer`.")
    ] = None
    ca_file: Annotated[
        File | None,
        Field(
            description="PEM file with the authorities of the receiver's certificate. Unset: the system's."
        ),
    ] = None
    client_cert_file: Annotated[
        File | None, Field(description="PEM file with the client certificate, for mTLS.")
    ] = None
    client_key_file: Annotated[
        File | None,
        Field(
            description="PEM file with the unencrypted key of `client_cert_file`. Unset: the key is in that file."
        ),
    ] = None
    proxy: Annotated[
        Proxy,
        Field(
            description="http:// or https:// URL of a proxy, or off. Unset: as HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY say, never for loopback.",
        ),
    ] = ""
    headers: Headers = Field(
        default_factory=dict,
        description="Additional request headers. In a variable: `name=value`.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.username) != (self.password_file is not None):
            raise ValueError("expected both username and password_file, or neither")
        if self.username and self.bearer_token_file is not None:
            raise ValueError("expected a username or a bearer_token_file, not both")
        if ":" in self.username:
            raise ValueError("expected a username without a colon")
        if self.client_key_file is not None and self.client_cert_file is None:
            raise ValueError("client_key_file needs client_cert_file")
        if self.has_credentials and "authorization" in map(str.lower, self.headers):
            raise ValueError("expected one authorization, not a header beside it")
        return self

    @property
    def has_credentials(self) -> bool:
        """True where a user or a token is set."""
        return bool(self.username) or self.bearer_token_file is not None

    @property
    def plain_headers(self) -> dict[str, str]:
        """The additional headers, to be sent."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}


class NextHopSettings(HttpClientSettings):
    """A receiver to which accepted requests go on, unchanged."""

    endpoint: Annotated[
        Endpoint,
        Field(
            description="URL of the next hop, such as `http://tempo:4318`. Over HTTP, `/v1/traces`, `/v1/metrics` and `/v1/logs` are added."
        ),
    ]
    name: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_.:\[\]-]{0,100}$",
            description="Name of the next hop in metrics and log. Unset: host and port of `endpoint`.",
        ),
    ] = ""
    protocol: Annotated[
        Literal["http", "grpc"],
        Field(
            description="Protocol of the next hop: OTLP over HTTP, or over gRPC. Over gRPC, requests in JSON are converted to protobuf."
        ),
    ] = "http"
    signals: Annotated[
        Signals, Field(description="Signals that go on: traces, metrics, logs.")
    ] = ("traces", "metrics", "logs")
    headers_from_sender: Annotated[
        HeaderNames,
        Field(
            description="Headers (gRPC: metadata) of the sender's request that go on with it, such as `x-scope-orgid`. The sender's `authorization` goes on only if it is listed."
        ),
    ] = ()
    timeout_seconds: Annotated[
        Number, Field(gt=0, description="Time for one attempt: connection, request, answer.")
    ] = 10.0
    queue_bytes: Annotated[
        Whole,
        Field(
            ge=1024,
            description="Bytes of the requests that wait for this next hop or are on their way to it. A larger request is taken if the queue is empty. Beyond it, `on_full` decides.",
        ),
    ] = 64 * 1024 * 1024
    on_full: Annotated[
        Literal["drop", "refuse"],
        Field(
            description="What happens if the queue is full. drop: the request does not go to this next hop, and is counted. refuse: the sender is told to retry later (503, UNAVAILABLE). Its spans are judged in both cases."
        ),
    ] = "drop"
    sync: Annotated[
        Switch,
        Field(
            description="Answers each request with what this next hop answers, within `timeout_seconds`. One attempt is made; the sender makes the next. A full queue refuses."
        ),
    ] = False
    annotate: Annotated[
        Switch,
        Field(
            description="Adds `offrails.verdict`, `offrails.spec`, `offrails.reason` and `offrails.harm_rate` to the spans of judged calls. Requests with such spans are encoded anew."
        ),
    ] = False
    give_up_seconds: Annotated[
        Positive,
        Field(
            description="Age at which a request that could not be delivered is dropped, and counted."
        ),
    ] = 3600.0

    @property
    def refuses(self) -> bool:
        """True if a full queue refuses the request to its sender."""
        return self.sync or self.on_full == "refuse"

    @property
    def label(self) -> str:
        """The name of the next hop in metrics and log."""
        return self.name or urlsplit(self.endpoint).netloc.rpartition("@")[2]

    @model_validator(mode="after")
    def _check_hop(self) -> Self:
        parts = urlsplit(self.endpoint)
        if self.protocol == "grpc" and parts.path.strip("/"):
            raise ValueError("expected an endpoint without a path: gRPC has none")
        has_user = "@" in parts.netloc
        if self.has_credentials and has_user:
            raise ValueError("expected the user in the endpoint or beside it, not both")
        if self.sync and "on_full" in self.model_fields_set and self.on_full == "drop":
            raise ValueError("sync answers for each request: expected on_full: refuse")
        given = {name.lower() for name in self.headers}
        if self.has_credentials or has_user:
            given.add("authorization")
        twice = sorted(given & set(self.headers_from_sender))
        if twice:
            raise ValueError(f"{twice[0]}: expected it in headers or in headers_from_sender")
        return self


class WebhookSettings(_Section):
    """A receiver of pages of specs in `mode: page`, in the format of Alertmanager's webhook."""

    url: Annotated[Url, Field(description="URL to which pages are posted.")] = ""
    secret: Annotated[
        SecretStr,
        Field(
            description="Key that signs the body (HMAC-SHA256, header x-offrails-signature-256)."
        ),
    ] = SecretStr("")


Joined = Literal["page", "hint", "silent"]
"""How possible harm is reported: calls that are harmful unless their session began before the start."""


class AlertSettings(_Section):
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
            description="How possible harm is reported: calls that are harmful unless their session began before the service started. page: as pages, like harmful calls. hint: in the log, the JSON lines and the OTLP events. silent: only in the API and the metrics."
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


class RecordSettings(_Section):
    """Recordings of accepted trace requests, as OTLP/JSON lines for `learn` and `replay`."""

    folder: Annotated[
        File | None,
        Field(description="Folder of the recordings. If empty, nothing is recorded."),
    ] = None
    file_bytes: Annotated[
        Whole,
        Field(
            ge=1, description="A recording file is closed at this size, in uncompressed bytes."
        ),
    ] = 64 * 1024 * 1024
    age_seconds: Annotated[
        Number, Field(gt=0, description="A recording file is closed at this age.")
    ] = 3600.0
    total_bytes: Annotated[
        Whole,
        Field(
            ge=1,
            description="Bytes of all recording files. Beyond it, the oldest files are deleted.",
        ),
    ] = 1024 * 1024 * 1024
    redact: Annotated[
        Expressions,
        Field(
            description="RE2 expressions. Their matches in texts and numbers of recordings are replaced."
        ),
    ] = ()


class StateSettings(_Section):
    """The journal, from which a process that starts goes on where the one before it ended."""

    dir: Annotated[
        File | None,
        Field(
            description="Folder of the journal, of this process alone. If empty, a restart begins with nothing."
        ),
    ] = None
    durability: Annotated[
        Literal["process", "power", "off"],
        Field(
            description="What acknowledged requests survive. process: the end of the process, kill -9 included. power: also that of the machine, since answers wait for the disk. off: no journal is kept."
        ),
    ] = "process"
    bytes_max: Annotated[
        Whole,
        Field(
            ge=1 << 20,
            description="Bytes of the journal. Beyond it, the oldest files are deleted, and a restart reads the sessions that were in them as joined. A restart judges what is left again.",
        ),
    ] = 512 * 1024 * 1024
    keep_seconds: Annotated[
        Annotated[Number, Field(gt=0)] | None,
        Field(
            description="Age at which files of the journal are deleted. Unset: twice `sessions.idle_seconds`."
        ),
    ] = None
    on_error: Annotated[
        Literal["refuse", "continue"],
        Field(
            description="What happens to requests that the disk refuses. refuse: senders are to send them again (503, UNAVAILABLE). continue: they are judged, and lost with the process."
        ),
    ] = "refuse"
    snapshot_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="Seconds between two snapshots of the state, at least; a restart judges only what the journal has behind the last one. Another process writes them, which for some seconds takes up to one and a half times as much memory; where the memory limit has no room for that, none is taken. 0: none are taken.",
        ),
    ] = 60.0
    strict: Annotated[
        Switch,
        Field(
            description="Whether a start fails if a file of the journal is damaged. A torn end, as a killed process leaves it, is no damage."
        ),
    ] = False
    bridged_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="Down-time that every sender is known to bridge by sending again. After a longer one, calls of that time may be missing in each session, and harm that they could explain is possible harm. SDKs retry for about 10 s; the Collector for 300 s, if `retry_on_failure` is on. 0: nobody is trusted to.",
        ),
    ] = 0.0


class LogLineSettings(_Section):
    """Rate limits of the log lines that agents cause. Suppressed lines are counted, and the count is logged."""

    verdict_lines_per_second: Annotated[
        Positive,
        Field(
            description="Lines per second for the harmful calls, and for the alarms, of one agent under one spec. Further ones are counted in one line."
        ),
    ] = 1.0
    session_lines_per_second: Annotated[
        Positive,
        Field(
            description="Lines per second for the finished sessions of one agent under one spec, and for the new agents of one namespace. Further ones are counted in one line."
        ),
    ] = 10.0
    namespace_lines_per_second: Annotated[
        Positive,
        Field(
            description="Lines per second of each of these kinds for one namespace, over all its agents."
        ),
    ] = 50.0
    burst_seconds: Annotated[
        Positive,
        Field(
            description="After a quiet time, the lines of this many seconds may be written at once."
        ),
    ] = 10.0


class RedactSettings(_Section):
    """RE2 expressions for what is removed from all that is shown, sent, logged or recorded."""

    replace: Annotated[
        Expressions,
        Field(
            description="RE2 expressions. Their matches become `[redacted]`, in names a digest."
        ),
    ] = ()
    hash: Annotated[
        Expressions,
        Field(
            description="RE2 expressions. Their matches become a digest, so that equal texts stay equal."
        ),
    ] = ()
    key_file: Annotated[
        File | None,
        Field(
            description="File with the key of the digests. Set it to keep digests equal after a restart. Unset: a random key."
        ),
    ] = None


class ReadySettings(_Section):
    """When `/-/ready` says no, besides start and stop."""

    full_seconds: Annotated[
        Positive | None,
        Field(
            description="Not ready once senders are refused for lack of room and no span was accepted for this time. Null: stays ready."
        ),
    ] = 10.0
    failing_sinks: Annotated[
        Switch,
        Field(description="Not ready while a sink of alerts fails. Pages would reach nobody."),
    ] = False


class TelemetrySettings(_Section):
    """The service's own metrics and traces, pushed over OTLP."""

    otlp_endpoint: Annotated[
        Url,
        Field(
            description="OTLP/HTTP receiver of the service's own metrics and traces, such as `http://127.0.0.1:4318`. If empty, nothing is pushed. Needs `offrails[otlp]`."
        ),
    ] = ""
    interval_seconds: Annotated[
        Positive, Field(description="Time between two pushes of metrics.")
    ] = 60.0
    pairs: Annotated[
        Switch,
        Field(
            description="Pushes the families by agent and spec as well: up to 150 series for each pair."
        ),
    ] = False
    traces: Annotated[
        Switch,
        Field(
            description="Pushes spans of the service's own work as well: requests, deliveries to sinks, scrapes, reloads."
        ),
    ] = False
    traces_ratio: Annotated[
        Number,
        Field(ge=0, le=1, description="Share of trace requests that get a span, from 0 to 1."),
    ] = 0.01
    traces_per_second: Annotated[
        Positive,
        Field(description="Own spans of each kind per second. Further ones are only counted."),
    ] = 10.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.traces and not self.otlp_endpoint:
            raise ValueError("traces needs otlp_endpoint")
        return self


class Settings(_Section):
    """Everything a user can set."""

    specs: Annotated[
        Paths,
        Field(description="Spec files, and folders that are read recursively."),
    ] = ()
    specs_on_error: Annotated[
        Literal["refuse", "start"],
        Field(
            description="What `serve` does if specs or settings are refused at its start. refuse: it exits. start: it runs with the sound specs, or with none, is not ready, and alerts. If settings are refused, it serves only /metrics and health, and retries."
        ),
    ] = "refuse"
    specs_last_good: Annotated[
        File | None,
        Field(
            description="Folder in which the last specs that compiled are kept, for a start with `specs_on_error: start` whose specs are refused. If empty: `state.dir`, if a journal is kept."
        ),
    ] = None
    reload: ReloadSettings = ReloadSettings()
    receiver: ReceiverSettings = ReceiverSettings()
    decide: Annotated[DecideSettings, Field(description="Decisions before calls are made.")] = (
        DecideSettings()
    )
    metrics: Annotated[
        Address, Field(description="Address of /metrics and health: HOST:PORT or off.")
    ] = "127.0.0.1:9464"
    metrics_names: Annotated[
        Names,
        Field(
            description="Host names that /metrics accepts, in addition to IP addresses and loopback names. If empty, a listener that is not on loopback accepts any name."
        ),
    ] = ()
    metrics_pairs_max: Annotated[
        Whole,
        Field(
            ge=1,
            description="Pairs of agent and spec with series of their own, 100 to 150 each, and about 40 `_created` in OpenMetrics. Further pairs are summed in `__overflow__`. A quarter more is reserved for tenants with few pairs.",
        ),
    ] = 2_000
    metrics_agents_max: Annotated[
        Whole | None,
        Field(
            ge=1,
            description="Agents of one namespace with series of their own; further ones are summed in `__overflow__`, by spec. Unset: as many as `metrics_pairs_max` allows. An agent under one spec costs 10 KB of memory here, and of each scrape 100 to 150 series, 9 KB and 35 µs.",
        ),
    ] = None
    metrics_namespace_label: Annotated[
        Literal["auto", "always", "never"],
        Field(
            description="Whether families by agent and spec have the label `namespace`. auto: where the namespace is not empty. always: also where it is. never: all namespaces are summed."
        ),
    ] = "auto"
    admin: Annotated[
        Address,
        Field(
            description="Address of the API and the session view: HOST:PORT or off. Keep it on loopback, or set `admin_auth`."
        ),
    ] = "127.0.0.1:4319"
    metrics_tls: Annotated[
        TlsSettings, Field(description="Certificates of the metrics listener.")
    ] = TlsSettings()
    admin_tls: Annotated[
        TlsSettings, Field(description="Certificates of the admin listener.")
    ] = TlsSettings()
    admin_auth: Annotated[
        AdminAuthSettings, Field(description="Who may read sessions and reload specs.")
    ] = AdminAuthSettings()
    sessions: SessionSettings = SessionSettings()
    history: Annotated[
        Literal["auto", "complete"],
        Field(
            description="complete: declares that every session is seen from its first call, whatever the times of its spans, until the service is restarted (`history_mark`, or a journal) or misses something. auto: sessions may have begun before the service started."
        ),
    ] = "auto"
    history_mark: Annotated[
        File | None,
        Field(
            description="Folder that outlives the process, but not its agents: a process leaves a mark there that it ran. With `history: complete` and no journal, one that is started again within `sessions.idle_seconds` reads sessions as `auto` does."
        ),
    ] = None
    admin_names: Annotated[
        Names,
        Field(
            description="Host names that the API accepts, in addition to loopback names. If empty, a listener that is not on loopback accepts any name."
        ),
    ] = ()
    trace_url: Annotated[
        TraceLink,
        Field(
            description="Template of a link to a trace, with the placeholders {trace_id}, {span_id} and {session}."
        ),
    ] = ""
    public_url: Annotated[
        Url,
        Field(
            description="Address under which people reach the admin listener, such as `https://offrails.example.com`. Direct alerts then link to their session in the session view and to their runbook, unless `alerts.session_url` and `alerts.runbook_url` say otherwise."
        ),
    ] = ""
    alerts: AlertSettings = AlertSettings()
    record: Annotated[
        RecordSettings, Field(description="Recordings of accepted trace requests.")
    ] = RecordSettings()
    forward: Annotated[
        NextHops[NextHopSettings],
        Field(
            description="Next hops: receivers to which each accepted request goes on, unchanged (docs/forward.md). In a variable: their endpoints, over HTTP."
        ),
    ] = ()
    state: Annotated[
        StateSettings, Field(description="The journal, which outlives the process.")
    ] = StateSettings()
    redact: Annotated[
        RedactSettings, Field(description="What is removed before anything leaves the process.")
    ] = RedactSettings()
    show_arguments: Annotated[
        Switch,
        Field(
            description="Keeps the arguments of calls and shows them in the API and the session view. Verdicts name the values that do not match, in the log and in alerts, too. They may hold personal data."
        ),
    ] = False
    memory_limit: Annotated[
        Annotated[Whole, Field(ge=0)] | None,
        Field(
            description="Bytes that the process may use. Requests are refused before it is reached, and bounds in bytes that are not set follow from it (docs/operations.md). Unset: the cgroup's limit. 0: no limit."
        ),
    ] = None
    ready: Annotated[ReadySettings, Field(description="When `/-/ready` says no.")] = (
        ReadySettings()
    )
    drain_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="When the service stops: time for sinks to deliver while it still receives. From the moment when the receivers close it ends within 5 s.",
        ),
    ] = 5.0
    last_scrape_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="When the service stops: time for one more scrape of /metrics, with final verdicts. The receivers go on meanwhile, and `/-/ready` says no. It applies only if /metrics was ever scraped and no journal is kept, with which counters go on. Set it above the scrape interval.",
        ),
    ] = 0.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="Lowest level that is logged."),
    ] = "info"
    log: Annotated[LogLineSettings, Field(description="Rate limits of log lines.")] = (
        LogLineSettings()
    )
    telemetry: Annotated[
        TelemetrySettings,
        Field(description="The service's own metrics and traces, pushed over OTLP."),
    ] = TelemetrySettings()

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = {
            "receiver.grpc": self.receiver.grpc,
            "receiver.http": self.receiver.http,
            "metrics": self.metrics,
            "admin": self.admin,
            "decide.listen": self.decide.listen,
        }
        taken: dict[str, str] = {}
        for key, address in given.items():
            if address == OFF or address.endswith(":0"):
                continue
            if address in taken:
                raise ValueError(f"{taken[address]} and {key} are both {address}")
            taken[address] = key
        labels = [each.label for each in self.forward]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"two next hops of forward are {label}: give one a name")
        return self


class Leaf(NamedTuple):
    """One setting: a field that is not a section."""

    path: tuple[str, ...]
    default: Any
    description: str


def leaves(model: type[StrictModel], path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """The settings of a section and of its subsections, in order."""
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, StrictModel):
            yield from leaves(kind, here)
        else:
            default = field.get_default(call_default_factory=True)
            yield Leaf(here, default, field.description or "")


ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    **{PREFIX + "_".join(leaf.path).upper(): leaf.path for leaf in leaves(Settings)},
    f"{PREFIX}GRPC": ("receiver", "grpc"),
    f"{PREFIX}HTTP": ("receiver", "http"),
    f"{PREFIX}DECIDE": ("decide", "listen"),
}
"""Variable -> setting. Some listeners also have short names, like their options."""


_CONFIG = f"{PREFIX}CONFIG"
"""The variable that names the settings file."""

_SECTIONS = tuple(
    sorted({f"{PREFIX}{path[0]}_".upper() for path in ENVIRONMENT.values() if path[1:]})
)
"""Prefixes of the variables that set a section's fields."""

_SERVICE = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$"
)
"""Suffixes of variables that Kubernetes sets for a service, which may be named `offrails-...`."""

_ALIKE = 0.75
"""Least similarity, from 0 to 1, at which an unknown variable counts as a misspelt one."""

_OPTIONS: Mapping[tuple[str, ...], str] = {
    ("record", "folder"): "--record",
    ("decide", "listen"): "--decide",
    ("state", "dir"): "--state",
}
"""Setting -> its option, where the option is not named after the last part of the key."""


def load(
    file: Path | None, environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> Settings:
    """The settings of a file, overridden by variables, overridden by options.

    Raises:
        SettingsError: naming the file and line, the variable or the option, and the key.
    """
    document = _read(file) if file else Document({}, {}, {})
    data = document.data if document.data is not None else {}
    if not isinstance(data, dict):
        raise SettingsError(f"{file}:1:1: expected a mapping of settings")
    wrong = _override(data, environ, options)
    if wrong:
        line, column = document.place(wrong)
        key = ".".join(wrong)
        raise SettingsError(f"{file}:{line}:{column}: {key}: expected a mapping of keys")
    settings, faults = validated(Settings, data)
    told = (
        [_told(faults, document, file, _origin(environ, options))] if settings is None else []
    )
    told += _misspelt(environ)
    if settings is None or told:
        raise SettingsError("\n".join(told))
    return settings


_STANDBY: Final = ("metrics", "metrics_names", "metrics_tls", "log_level")
"""Settings used by a service that only reports why it cannot start."""


def standby(
    file: Path | None, environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> Settings | None:
    """The settings of a service that only reports why it could not start; None if it must exit.

    It exits unless `specs_on_error` is `start`. Of the other settings, only the valid ones of the metrics
    listener and the log are used. Nothing is received, so nothing can be disclosed.

    Args:
        file: as for `load`, which refused it.
        environ: as for `load`.
        options: as for `load`.
    """
    try:
        data = _read(file).data if file else {}
    except SettingsError:
        data = {}
    if not isinstance(data, dict):
        data = {}
    _override(data, environ, options)
    if data.get("specs_on_error") != "start":
        return None
    off = {
        "receiver": {"grpc": OFF, "http": OFF},
        "decide": {"listen": OFF},
        "admin": OFF,
        "specs_on_error": "start",
    }
    for key in _STANDBY:
        if key in data and validated(Settings, {**off, key: data[key]})[0] is not None:
            off[key] = data[key]
    return validated(Settings, off)[0]


def _override(
    data: dict[str, Any], environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> tuple[str, ...]:
    """Writes variables and options over a file's data; returns the first path that is not a section, or ()."""
    given: dict[tuple[str, ...], Any] = {
        path: environ[name] for name, path in ENVIRONMENT.items() if environ.get(name)
    }
    if ("specs",) in given:
        # An empty part would be the working directory, with every spec below it.
        parts = [part for part in given["specs",].split(os.pathsep) if part.strip()]
        given["specs",] = parts or given["specs",]
    for path, value in {**given, **options}.items():
        wrong = _put(data, path, value)
        if wrong:
            return wrong
    return ()


def unknown(environ: Mapping[str, str]) -> list[str]:
    """`OFFRAILS_*` variables that set nothing, without those that Kubernetes sets."""
    return sorted(
        name
        for name, value in environ.items()
        if name.startswith(PREFIX)
        and value
        and name not in ENVIRONMENT
        and name != _CONFIG
        and not _SERVICE.search(name)
    )


def _misspelt(environ: Mapping[str, str]) -> list[str]:
    """A message for each unknown variable that resembles a setting or begins like a section.

    Others are accepted: another program's variables may have the same prefix.
    """
    known = [name.removeprefix(PREFIX) for name in (*ENVIRONMENT, _CONFIG)]
    told = []
    for name in unknown(environ):
        meant = closest(name.removeprefix(PREFIX), known, _ALIKE)
        if meant:
            told.append(f"{name}: unknown variable; did you mean {PREFIX}{meant}?")
        elif name.startswith(_SECTIONS):
            told.append(f"{name}: unknown variable")
    return told


def place(
    key: str,
    file: Path | None,
    environ: Mapping[str, str],
    options: Mapping[tuple[str, ...], Any],
) -> str:
    """Where a setting was given: the file with line and column, the variable, or the option.

    Args:
        key: the setting or its section, such as `receiver.tls.cert`.
        file: as for `load`, which read it.
        environ: as for `load`.
        options: as for `load`.
    """
    document = _read(file) if file else Document({}, {}, {})
    return _where(tuple(key.split(".")), document, file, _origin(environ, options))


def _origin(
    environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> dict[tuple[str, ...], str]:
    """Setting -> the variable or the option that gave it."""
    found = {path: name for name, path in ENVIRONMENT.items() if environ.get(name)}
    return found | {
        path: _OPTIONS.get(path, "--" + path[-1].replace("_", "-")) for path in options
    }


def _read(file: Path) -> Document:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise SettingsError(f"{file}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: expected UTF-8 text") from None
    if all(not line or line[0] == "#" for line in map(str.strip, text.splitlines())):
        return Document({}, {}, {})  # an empty file sets nothing, and is valid
    document, findings = parse(text, str(file))
    if document is None or findings:
        raise SettingsError("\n".join(str(found) for found in findings))
    return document


def _put(data: dict[str, Any], path: tuple[str, ...], value: Any) -> tuple[str, ...]:
    """Puts a value into its section; returns the first path that is not a section, or ()."""
    for count, key in enumerate(path[:-1], 1):
        inner = {} if data.get(key) is None else data[key]
        if not isinstance(inner, dict):
            return path[:count]
        data[key] = inner
        data = inner
    data[path[-1]] = value
    return ()


def _told(
    faults: Iterable[DocumentFault],
    document: Document,
    file: Path | None,
    origin: Mapping[tuple[str, ...], str],
) -> str:
    """One line for each fault: place, key, problem."""
    lines = []
    for fault in faults:
        path = tuple(part for part in fault.path if isinstance(part, str))
        where = _where(fault.path, document, file, origin)
        told = [where, ".".join(path), _wrong(fault)]
        lines.append(": ".join(part for part in told if part))
    return "\n".join(lines)


def _where(
    at: tuple[str | int, ...],
    document: Document,
    file: Path | None,
    origin: Mapping[tuple[str, ...], str],
) -> str:
    path = tuple(part for part in at if isinstance(part, str))
    if not path:  # about several settings, perhaps from several places
        return str(file) if file else "the settings"
    for length in range(len(path), 0, -1):
        if path[:length] in origin:
            return origin[path[:length]]
    for given, name in origin.items():  # about a section: any of its parts
        if given[: len(path)] == path:
            return name
    line, column = document.place(at)
    return f"{file}:{line}:{column}"


def _wrong(fault: DocumentFault) -> str:
    if fault.kind != "unknown":
        return fault.said
    *section, key = map(str, fault.path)
    meant = closest(key, _keys(section))
    return "there is no such setting" + (f"; did you mean {meant}?" if meant else "")


def _keys(section: Iterable[str]) -> Iterable[str]:
    """The keys that a section has."""
    model: type[StrictModel] = Settings
    for key in section:
        if not key.isdigit():  # else a place in a list of sections
            model = _section_of(model.model_fields[key].annotation)
    return model.model_fields


def _section_of(kind: Any) -> type[StrictModel]:
    """The model of a section, or of a list of sections."""
    found = (
        kind if isinstance(kind, type) and issubclass(kind, StrictModel) else get_args(kind)[0]
    )
    assert issubclass(found, StrictModel)
    return found
