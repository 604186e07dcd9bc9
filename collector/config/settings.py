"""All user configuration: a YAML file, `OFFRAILS_*` variables, and options, in rising order.

Unknown keys are refused, and every problem is told with its file, line and key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, model_validator

from collector.calls.session_ids import NAMESPACE_KEYS
from collector.calls.trace_store import ARGUMENTS_BYTES_MAX, SPANS_BYTES_MAX
from collector.config.field_types import (
    OFF,
    Address,
    AlertLink,
    BoardLink,
    Expressions,
    File,
    Headers,
    Labels,
    Names,
    Number,
    Paths,
    Positive,
    Proxy,
    SessionLink,
    Switch,
    TraceLink,
    Url,
    Urls,
    Whole,
)
from collector.decode.sizes import VALUE_BYTES_MAX, VALUE_BYTES_MIN
from collector.dialects.choose import AGENT_KEYS, SESSION_KEYS
from monitor.limits import SESSION_BYTES_MAX
from monitor.spec.document.validation import Fault, Model, validated
from monitor.spec.document.yaml_text import Document, parse
from monitor.spec.suggestions import closest

__all__ = [
    "ENVIRONMENT",
    "OFF",
    "Leaf",
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


class _Section(Model):
    """A section of the settings. Numbers are finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class Tls(_Section):
    """Certificates of a listener, in PEM; read again when the files change."""

    cert: Annotated[
        File | None, Field(description="Certificate chain. If set, only TLS is accepted.")
    ] = None
    key: Annotated[File | None, Field(description="The certificate's key, not encrypted.")] = (
        None
    )
    client_ca: Annotated[
        File | None,
        Field(
            description="Authorities for clients' certificates (mTLS). If set, other clients are refused."
        ),
    ] = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("expected both cert and key, or neither")
        if self.client_ca is not None and self.cert is None:
            raise ValueError("client_ca needs cert and key")
        return self


class TokenLimits(_Section):
    """What the sender with each token's name may take; empty: as much as there is."""

    requests_per_second: Annotated[
        Positive | None,
        Field(description="Of each token's name; beyond it, try again later (429)."),
    ] = None
    bytes_per_second: Annotated[
        Positive | None,
        Field(description="Of each token's name; beyond it, try again later (429)."),
    ] = None
    inflight_bytes: Annotated[
        Annotated[Whole, Field(ge=1024)] | None,
        Field(description="Bytes of bodies being read or judged, for each token's name."),
    ] = None


class Bearer(_Section):
    """Bearer tokens."""

    tokens_file: Annotated[
        File | None,
        Field(
            description="Accepted tokens, one per line: `token` or `name: token`. If set, senders need one."
        ),
    ] = None
    limits: Annotated[TokenLimits, Field(description="Limits of each sender.")] = TokenLimits()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.tokens_file is None and self.limits != TokenLimits():
            raise ValueError("limits are of tokens: expected a tokens_file")
        return self


class Auth(_Section):
    """Who may send."""

    bearer: Annotated[Bearer, Field(description="Bearer tokens.")] = Bearer()


class AdminBearer(_Section):
    """Bearer tokens of the admin listener."""

    tokens_file: Annotated[
        File | None,
        Field(
            description="Accepted tokens, one per line: `token` or `name: token`. If set, the API, the session view and reload need one; browsers ask for it as a password."
        ),
    ] = None


class AdminAuth(_Section):
    """Who may read sessions, and have the specs read anew."""

    bearer: Annotated[AdminBearer, Field(description="Bearer tokens.")] = AdminBearer()


class Cors(_Section):
    """Browsers that may send."""

    origins: Annotated[
        Names,
        Field(
            description="Origins of web pages that may send, as `https://*.example.com`. If empty, browsers may not send."
        ),
    ] = ()


class Keepalive(_Section):
    """How long connections live; null: without a bound, but for gRPC's usual one on pings."""

    ping_seconds: Annotated[
        Positive | None,
        Field(description="gRPC: interval of pings to a silent client."),
    ] = None
    ping_timeout_seconds: Annotated[
        Positive | None, Field(description="gRPC: time to answer a ping.")
    ] = None
    ping_min_seconds: Annotated[
        Positive | None,
        Field(
            description="gRPC: a client that asks us more often is sent away; unset, more often"
            " than every five minutes, as gRPC's own servers do it."
        ),
    ] = None
    max_idle_seconds: Annotated[
        Positive | None,
        Field(description="gRPC: closes a connection without calls after it."),
    ] = 300.0
    max_age_seconds: Annotated[
        Positive | None,
        Field(description="Closes a connection after it, to spread load anew."),
    ] = None
    max_age_grace_seconds: Annotated[
        Positive | None,
        Field(description="gRPC: time for its open calls to finish."),
    ] = None


class Receiver(_Section):
    """The OTLP listeners."""

    grpc: Annotated[
        Address, Field(description="OTLP over gRPC: HOST:PORT, unix:PATH or off.")
    ] = "127.0.0.1:4317"
    grpc_server: Annotated[
        Literal["builtin", "grpcio"],
        Field(description="gRPC server; grpcio needs `offrails[grpcio]`."),
    ] = "builtin"
    http: Annotated[
        Address, Field(description="OTLP over HTTP: HOST:PORT, unix:PATH or off.")
    ] = "127.0.0.1:4318"
    max_request_bytes: Annotated[
        Whole, Field(ge=1024, description="Largest request, also after decompression.")
    ] = 64 * 1024 * 1024
    max_attribute_bytes: Annotated[
        Whole,
        Field(
            ge=VALUE_BYTES_MIN,
            description="Largest attribute value that is read, in bytes; a larger one counts as unknown.",
        ),
    ] = VALUE_BYTES_MAX
    max_inflight_bytes: Annotated[
        Whole,
        Field(ge=1024, description="Bytes of bodies being read; beyond it, try again later."),
    ] = 256 * 1024 * 1024
    max_inflight_requests: Annotated[
        Whole, Field(ge=1, description="Requests being read; beyond it, try again later.")
    ] = 16_384
    max_connections: Annotated[
        Whole,
        Field(
            ge=1,
            description="Per listener; beyond it the slowest client's is closed.",
        ),
    ] = 16_384
    head_seconds: Annotated[
        Number,
        Field(
            gt=0,
            description="Time for the TLS handshake, and for a request's headers.",
        ),
    ] = 10.0
    body_seconds: Annotated[Number, Field(gt=0, description="Time for a request's body.")] = (
        60.0
    )
    tls: Annotated[Tls, Field(description="Certificates.")] = Tls()
    auth: Annotated[Auth, Field(description="Who may send.")] = Auth()
    names: Annotated[
        Names,
        Field(
            description="Host names that HTTP senders may use, beside loopback's and addresses. If empty: any name, unless the "
            "listener is on loopback."
        ),
    ] = ()
    cors: Annotated[Cors, Field(description="Which browsers may send.")] = Cors()
    keepalive: Annotated[Keepalive, Field(description="How long connections live.")] = (
        Keepalive()
    )
    reflection: Annotated[Switch, Field(description="Offers gRPC reflection.")] = False


class Sessions(_Section):
    """What a session is, and how long it lives."""

    max: Annotated[
        Whole,
        Field(
            ge=1,
            description="Live sessions; beyond it the least recent is evicted.",
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
            description="Of the arguments that are held for further spans of the same calls, about; beyond it the largest and oldest are given up, of the tenant that holds most. What was judged stays.",
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
        Number, Field(gt=0, description="A session without calls for this time has ended.")
    ] = 1800.0
    window_seconds: Annotated[
        Number,
        Field(ge=0, description="A verdict is final this long after its call was received."),
    ] = 10.0
    remember_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="The state of an ended session is kept for this time. A session that goes on later is read as joined.",
        ),
    ] = 86400.0
    hold_seconds: Annotated[
        Number,
        Field(ge=0, description="A finished session counts in the gauges for this time."),
    ] = 300.0
    id_attributes: Annotated[
        Names,
        Field(description="Attributes with a session's id, best first; else trace id."),
    ] = SESSION_KEYS
    agent_attributes: Annotated[
        Names,
        Field(description="Attributes with an agent's name, best first; else service.name."),
    ] = AGENT_KEYS
    requested: Annotated[
        Literal["auto", "always", "never"],
        Field(
            description="Whether requested calls are judged; auto: if the agent's tools leave no spans."
        ),
    ] = "auto"
    namespace_attributes: Annotated[
        Names, Field(description="Resource attributes that keep tenants' sessions apart.")
    ] = NAMESPACE_KEYS
    span_attributes_bind: Annotated[
        Names,
        Field(
            description="Attributes of which a span's own overrules its resource's, where specs bind on them."
        ),
    ] = ()


class Reload(_Section):
    """Specs that change while the service runs."""

    watch: Annotated[Switch, Field(description="Read specs anew when their files change.")] = (
        True
    )


class HttpClient(_Section):
    """How a sink's receiver is reached; files are read again when they change."""

    username: Annotated[
        str,
        Field(description="Basic authentication; user and password in the URL do the same."),
    ] = ""
    password_file: Annotated[File | None, Field(description="The password of `username`.")] = (
        None
    )
    bearer_token_file: Annotated[
        File | None, Field(description="A token, sent as `Authorization: Bearer`.")
    ] = None
    ca_file: Annotated[
        File | None,
        Field(
            description="Authorities (PEM) of the receiver's certificate; else the system's."
        ),
    ] = None
    client_cert_file: Annotated[
        File | None, Field(description="Client certificate (PEM), for mTLS.")
    ] = None
    client_key_file: Annotated[
        File | None,
        Field(description="The certificate's key, not encrypted; unset: in its file."),
    ] = None
    proxy: Annotated[
        Proxy,
        Field(
            description="http:// or https:// URL of a proxy, or off; unset, as the environment says"
            " (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), never for loopback.",
        ),
    ] = ""
    headers: Headers = Field(
        default_factory=dict, description="More headers: `name=value` in a variable."
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


class Webhook(_Section):
    """A receiver of pages, in the form of Alertmanager's webhook."""

    url: Annotated[
        Url, Field(description="Where pages of specs in `mode: page` are posted.")
    ] = ""
    secret: Annotated[
        SecretStr,
        Field(description="Signs the body: header x-offrails-signature-256, HMAC-SHA256."),
    ] = SecretStr("")


Joined = Literal["page", "hint", "silent"]
"""How calls are reported that are harmful unless their session began before the start."""


class Alerts(_Section):
    """What leaves at once when a call is harmful. Only specs in `mode: page` page."""

    alertmanager: Annotated[
        Urls,
        Field(description="Base URLs of Alertmanagers; each gets every page."),
    ] = ()
    alertmanager_http: HttpClient = HttpClient()
    webhook: Webhook = Webhook()
    webhook_http: HttpClient = HttpClient()
    jsonl: Annotated[
        File | None,
        Field(description="File to which harmful verdicts are appended, as JSON lines."),
    ] = None
    otlp_endpoint: Annotated[
        Url,
        Field(
            description="OTLP/HTTP receiver of log events (`gen_ai.evaluation.result`); needs `offrails[otlp]`."
        ),
    ] = ""
    otlp_http: HttpClient = HttpClient()
    settle_seconds: Annotated[
        Number,
        Field(
            ge=0, description="Time that a page waits for an earlier call that may revise it."
        ),
    ] = 0.5
    group_by: Annotated[
        Literal["agent", "session"],
        Field(
            description="What is one alert: `agent`: all that an agent does wrong under a spec, with counts"
            " and its worst session; `session`: each session and reason."
        ),
    ] = "agent"
    labels: Labels = Field(
        default_factory=dict,
        description="More labels of every direct alert, such as `cluster`, as Prometheus gives them to the"
        " rules' alerts (its external labels, and those of the scrape): `name=value` in a variable."
        " `instance` is the host and the port of `metrics` unless it is set here.",
    )
    resolve_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="An alert of an agent is over when no page of it fires and there was no such harm for so"
            " long. The default outlasts the rules' windows of 30 minutes: no rule tells what is over again.",
        ),
    ] = 2100.0
    repeat_seconds: Annotated[
        Number,
        Field(gt=0, description="Interval at which a firing page is sent again."),
    ] = 60.0
    pages_per_minute: Annotated[
        Whole,
        Field(
            ge=1,
            description="New pages in a minute, a quarter of them for critical ones alone; more wait, and are counted.",
        ),
    ] = 60
    queue: Annotated[
        Whole,
        Field(
            ge=1, description="Messages waiting for a sink; beyond it the oldest are dropped."
        ),
    ] = 1000
    timeout_seconds: Annotated[
        Number, Field(gt=0, description="Time for one whole request to a sink.")
    ] = 5.0
    joined: Annotated[
        Joined,
        Field(
            description="Calls that are harmful unless their session began before the start. page: they page like harmful calls; hint: they are in the log, the JSON lines and the OTLP events; silent: only the API and the metrics have them."
        ),
    ] = "hint"
    session_url: Annotated[
        SessionLink,
        Field(description="Link to a session, with {session} and {namespace}."),
    ] = ""
    runbook_url: Annotated[
        AlertLink, Field(description="Link to a runbook, with the placeholder {alert}.")
    ] = ""
    dashboard_url: Annotated[
        BoardLink, Field(description="Where a board is: a link with {agent} and {spec}.")
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


class Record(_Section):
    """Accepted trace requests kept as OTLP/JSON lines, for `learn` and `replay`."""

    folder: Annotated[
        File | None,
        Field(description="Folder of the recordings. If empty, nothing is recorded."),
    ] = None
    file_bytes: Annotated[
        Whole, Field(ge=1, description="A file is closed at this size (bytes, uncompressed).")
    ] = 64 * 1024 * 1024
    age_seconds: Annotated[Number, Field(gt=0, description="Also at this age.")] = 3600.0
    total_bytes: Annotated[
        Whole, Field(ge=1, description="Bytes of all files; beyond it the oldest are deleted.")
    ] = 1024 * 1024 * 1024
    redact: Annotated[
        Expressions,
        Field(description="RE2 expressions. Their matches in texts and numbers are replaced."),
    ] = ()


class LogLines(_Section):
    """How many lines of the log agents may cause; what is left out is counted and told."""

    verdict_lines_per_second: Annotated[
        Positive,
        Field(
            description="Harmful calls of one agent under one spec, and alarms: more are counted in one line."
        ),
    ] = 1.0
    session_lines_per_second: Annotated[
        Positive,
        Field(
            description="Ends of sessions of one agent under one spec, and new agents of one namespace: likewise."
        ),
    ] = 10.0
    namespace_lines_per_second: Annotated[
        Positive,
        Field(
            description="Lines of each of these kinds of one namespace, whatever its agents."
        ),
    ] = 50.0
    burst_seconds: Annotated[
        Positive,
        Field(description="Who was quiet may cause the lines of so many seconds at once."),
    ] = 10.0


class Redact(_Section):
    """What is taken out of all that is shown, sent, logged or recorded; RE2 expressions."""

    replace: Annotated[
        Expressions,
        Field(description="RE2 matches become `[redacted]`; in names, a digest."),
    ] = ()
    hash: Annotated[
        Expressions,
        Field(description="RE2 matches become a digest: equal texts stay equal."),
    ] = ()
    key_file: Annotated[
        File | None,
        Field(
            description="Key of the digests, which keeps them equal after a restart. If unset, the key is random."
        ),
    ] = None


class Ready(_Section):
    """When `/-/ready` says no, beside start and stop."""

    full_seconds: Annotated[
        Positive | None,
        Field(
            description="Not ready when senders are refused for lack of room and no span was taken for so long. Null: ready all the same."
        ),
    ] = 10.0
    failing_sinks: Annotated[
        Switch,
        Field(description="Not ready while a sink of alerts fails: pages would reach nobody."),
    ] = False


class Telemetry(_Section):
    """The service's own metrics and traces, pushed over OTLP."""

    otlp_endpoint: Annotated[
        Url,
        Field(
            description="OTLP/HTTP receiver of the service's own metrics and traces, such as `http://127.0.0.1:4318`; empty: nothing is pushed. Needs `offrails[otlp]`."
        ),
    ] = ""
    interval_seconds: Annotated[Positive, Field(description="Time between two pushes.")] = 60.0
    pairs: Annotated[
        Switch,
        Field(description="Push the families by agent and spec, too: up to 150 series a pair."),
    ] = False
    traces: Annotated[
        Switch,
        Field(
            description="Push spans of the service's own work, too: requests, deliveries to sinks, scrapes, reloads."
        ),
    ] = False
    traces_ratio: Annotated[
        Number, Field(ge=0, le=1, description="Share of trace requests that have a span.")
    ] = 0.01
    traces_per_second: Annotated[
        Positive,
        Field(description="Own spans of each kind in a second, at most; more are counted."),
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
        Field(description="Spec files and folders (read recursively)."),
    ] = ()
    specs_on_error: Annotated[
        Literal["refuse", "start"],
        Field(
            description="What `serve` does at its start where specs or settings cannot be used. refuse: it ends. start: it fails open: it runs with the specs that are sound, or with none, is not ready, and alerts; where settings are refused, it shows only /metrics and health, and tries again."
        ),
    ] = "refuse"
    reload: Reload = Reload()
    receiver: Receiver = Receiver()
    metrics: Annotated[Address, Field(description="/metrics and health: HOST:PORT or off.")] = (
        "127.0.0.1:9464"
    )
    metrics_names: Annotated[
        Names,
        Field(
            description="Host names that /metrics accepts, beside loopback's and addresses. If empty: any name, unless the listener "
            "is on loopback."
        ),
    ] = ()
    metrics_pairs_max: Annotated[
        Whole,
        Field(
            ge=1,
            description="Pairs of agent and spec with series of their own (100 to 150 each); more fold into `__overflow__`. A quarter more is for tenants with few.",
        ),
    ] = 2_000
    metrics_namespace_label: Annotated[
        Literal["auto", "always", "never"],
        Field(
            description="The label `namespace` on families by agent and spec. auto: where tokens are asked for, and else from the moment a second namespace is seen; never: the sums of all are one."
        ),
    ] = "auto"
    admin: Annotated[
        Address, Field(description="The API: HOST:PORT or off; keep it on loopback.")
    ] = "127.0.0.1:4319"
    metrics_tls: Annotated[Tls, Field(description="Certificates of the metrics listener.")] = (
        Tls()
    )
    admin_tls: Annotated[Tls, Field(description="Certificates of the admin listener.")] = Tls()
    admin_auth: Annotated[
        AdminAuth, Field(description="Who may read sessions, and have the specs read anew.")
    ] = AdminAuth()
    sessions: Sessions = Sessions()
    history: Annotated[
        Literal["auto", "complete"],
        Field(
            description="complete: promises that every session is seen from its first call, whatever its spans' times."
        ),
    ] = "auto"
    admin_names: Annotated[
        Names,
        Field(
            description="Host names that the API accepts, beside loopback's. If empty: any name, unless the listener is on loopback."
        ),
    ] = ()
    trace_url: Annotated[
        TraceLink,
        Field(
            description="Link to a trace, with the placeholders {trace_id}, {span_id} and {session}."
        ),
    ] = ""
    alerts: Alerts = Alerts()
    record: Annotated[Record, Field(description="Accepted trace requests, kept.")] = Record()
    redact: Annotated[Redact, Field(description="What nobody is to see.")] = Redact()
    show_arguments: Annotated[
        Switch, Field(description="Keeps the arguments of calls and shows them in the API.")
    ] = False
    memory_limit: Annotated[
        Annotated[Whole, Field(ge=0)] | None,
        Field(
            description="Bytes the process may take; unset, the cgroup's limit; 0: none. Bounds in bytes that are not set follow from it (docs/operations.md), and requests are refused before it is reached."
        ),
    ] = None
    ready: Annotated[Ready, Field(description="When `/-/ready` says no.")] = Ready()
    drain_seconds: Annotated[
        Number, Field(ge=0, description="Time for open requests when stopping.")
    ] = 5.0
    last_scrape_seconds: Annotated[
        Number,
        Field(
            ge=0,
            description="When stopping, once all verdicts are final: so long /metrics waits for one more scrape, if it was ever scraped. Set it above the scrape interval; `/-/ready` says no meanwhile.",
        ),
    ] = 0.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="Lowest level that is logged."),
    ] = "info"
    log: Annotated[LogLines, Field(description="How many lines agents may cause.")] = LogLines()
    telemetry: Annotated[
        Telemetry, Field(description="The service's own metrics and traces, pushed over OTLP.")
    ] = Telemetry()

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = {
            "receiver.grpc": self.receiver.grpc,
            "receiver.http": self.receiver.http,
            "metrics": self.metrics,
            "admin": self.admin,
        }
        taken: dict[str, str] = {}
        for key, address in given.items():
            if address == OFF or address.endswith(":0"):
                continue
            if address in taken:
                raise ValueError(f"{taken[address]} and {key} are both {address}")
            taken[address] = key
        return self


class Leaf(NamedTuple):
    """A setting: a field that is no section."""

    path: tuple[str, ...]
    default: Any
    description: str


def leaves(model: type[Model], path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """The settings of a section and of the sections in it, in order."""
    for name, field in model.model_fields.items():
        here = (*path, name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Model):
            yield from leaves(kind, here)
        else:
            default = field.get_default(call_default_factory=True)
            yield Leaf(here, default, field.description or "")


ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    **{PREFIX + "_".join(leaf.path).upper(): leaf.path for leaf in leaves(Settings)},
    f"{PREFIX}GRPC": ("receiver", "grpc"),
    f"{PREFIX}HTTP": ("receiver", "http"),
}
"""Variable -> the setting it sets. The two listeners also have the short names of the options."""


_CONFIG = f"{PREFIX}CONFIG"
"""Names the file itself."""

_SECTIONS = tuple(
    sorted({f"{PREFIX}{path[0]}_".upper() for path in ENVIRONMENT.values() if path[1:]})
)
"""How variables of settings begin that are not alone."""

_SERVICE = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$"
)
"""How variables end that Kubernetes sets for services, which may be named as we are."""

_ALIKE = 0.75
"""From 0 to 1: how alike a variable must be to one that is meant."""

_OPTIONS: Mapping[tuple[str, ...], str] = {("record", "folder"): "--record"}
"""Options that are not named like the last part of what they set."""


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
"""Settings of a service that shows only that it cannot start."""


def standby(
    file: Path | None, environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> Settings | None:
    """The settings of a service that says only why it could not start; None if it is to end instead.

    `specs_on_error` decides. Of the other settings, only those of the metrics listener and of the log
    are used, and of these only those that are sound: nothing is received, so nothing can be disclosed.

    Args:
        file: as for `load`, which has refused it.
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
    off = {"receiver": {"grpc": OFF, "http": OFF}, "admin": OFF, "specs_on_error": "start"}
    for key in _STANDBY:
        if key in data and validated(Settings, {**off, key: data[key]})[0] is not None:
            off[key] = data[key]
    return validated(Settings, off)[0]


def _override(
    data: dict[str, Any], environ: Mapping[str, str], options: Mapping[tuple[str, ...], Any]
) -> tuple[str, ...]:
    """Puts variables and options over a file's data; returns the first section that is none."""
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
    """Variables that are named as ours are, and set nothing; not those that Kubernetes sets."""
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
    """What is wrong with variables that are meant for us; others' may begin as ours do, too."""
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
        key: of the setting or its section, with dots.
        file: as for `load`, which has read it.
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
        return Document({}, {}, {})  # nothing is set, which is fine
    document, findings = parse(text, str(file))
    if document is None or findings:
        raise SettingsError("\n".join(str(found) for found in findings))
    return document


def _put(data: dict[str, Any], path: tuple[str, ...], value: Any) -> tuple[str, ...]:
    """Puts a value into its section; returns the section that is none, where it cannot be."""
    for count, key in enumerate(path[:-1], 1):
        inner = {} if data.get(key) is None else data[key]
        if not isinstance(inner, dict):
            return path[:count]
        data[key] = inner
        data = inner
    data[path[-1]] = value
    return ()


def _told(
    faults: Iterable[Fault],
    document: Document,
    file: Path | None,
    origin: Mapping[tuple[str, ...], str],
) -> str:
    """A line for each fault: where, which key, what is wrong."""
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
    if not path:  # it is about several settings, which may come from several places
        return str(file) if file else "the settings"
    for length in range(len(path), 0, -1):
        if path[:length] in origin:
            return origin[path[:length]]
    for given, name in origin.items():  # a fault of a section as a whole: who gave a part of it
        if given[: len(path)] == path:
            return name
    line, column = document.place(at)
    return f"{file}:{line}:{column}"


def _wrong(fault: Fault) -> str:
    if fault.kind != "unknown":
        return fault.said
    *section, key = map(str, fault.path)
    meant = closest(key, _keys(section))
    return "there is no such setting" + (f"; did you mean {meant}?" if meant else "")


def _keys(section: Iterable[str]) -> Iterable[str]:
    """The keys that a section has."""
    model: type[Model] = Settings
    for key in section:
        inner = model.model_fields[key].annotation
        assert isinstance(inner, type)
        assert issubclass(inner, Model)
        model = inner
    return model.model_fields
