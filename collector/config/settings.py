"""All user configuration: a YAML file, `OFFRAILS_*` variables, and options, in rising order.

Unknown keys are refused, and every problem is told with its file, line and key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from collector.calls.session_ids import NAMESPACE_KEYS
from collector.calls.trace_store import ARGUMENTS_BYTES_MAX
from collector.decode.sizes import VALUE_BYTES_MAX, VALUE_BYTES_MIN
from collector.dialects.choose import AGENT_KEYS, SESSION_KEYS
from collector.receive.address import parse_address
from monitor.limits import SESSION_BYTES_MAX
from monitor.spec.document.typed import BEFORE, Fault, leaves, shaped
from monitor.spec.document.yaml_text import Document, parse
from monitor.spec.suggestions import closest

__all__ = ["ENVIRONMENT", "Settings", "SettingsError", "load", "place", "unknown"]

OFF = "off"
PREFIX = "OFFRAILS_"


class SettingsError(Exception):
    """The configuration cannot be used; the message says where and what was expected."""


class _Section(Struct, frozen=True, forbid_unknown_fields=True):
    pass


def _address(value: Any) -> Any:
    # YAML 1.2 leaves `off` a text; a boolean is what a JSON file may hold.
    if value is False or (isinstance(value, str) and value.lower() == OFF):
        return OFF
    if not isinstance(value, str):
        raise ValueError("expected HOST:PORT, unix:PATH or off")  # noqa: TRY004 - told to users
    parse_address(value)
    return value


def _several(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if value.strip() and not parts:
        raise ValueError("expected values separated by commas, found only commas")
    return parts


def _paths(value: Any) -> Any:
    if isinstance(value, str) and value.strip() and not value.strip(f" ,{os.pathsep}"):
        raise ValueError(f"expected paths separated by {os.pathsep!r}, found only separators")
    return _several(value)


def _link(value: Any) -> Any:
    if isinstance(value, str) and value and not value.startswith(("https://", "http://", "/")):
        raise ValueError("expected a link that begins with https://, http:// or /")
    return value


def _link_with(*names: str) -> Callable[[Any], Any]:
    """A link in which these names in braces stand for something, and no other."""
    known = ", ".join(f"{{{name}}}" for name in names)

    def checked(value: Any) -> Any:
        for name in re.findall(r"\{(\w+)\}", value) if isinstance(value, str) else ():
            if name not in names:
                raise ValueError(f"nothing is put in for {{{name}}}: expected {known}")
        return _link(value)

    return checked


def _url(value: Any) -> Any:
    if isinstance(value, str) and value:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or not value.isascii():
            raise ValueError("expected a URL that begins with http:// or https://")
        try:
            parts.port  # noqa: B018 - it is read to be checked
        except ValueError:
            raise ValueError("expected a URL with a port from 0 to 65535") from None
        if any(char.isspace() for char in value):
            raise ValueError("expected a URL without spaces")
    return value


def _proxy(value: Any) -> Any:
    # YAML 1.2 leaves `off` a text; a boolean is what a JSON file may hold.
    if value is False or (isinstance(value, str) and value.lower() == OFF):
        return OFF
    return _url(value)


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_HEADERS_OF_OURS = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding"}
)


def _headers(value: Any) -> Any:
    """Headers as a mapping; in a variable `name=value`, separated by commas."""
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",") if part.strip()]
        value = {name.strip(): inner.strip() for name, _, inner in parts}
    for name, inner in value.items() if isinstance(value, dict) else ():
        if not _HEADER.fullmatch(str(name)) or str(name).lower() in _HEADERS_OF_OURS:
            raise ValueError(f"{name!r} is no name of a header that can be set")
        if not isinstance(inner, str) or not _HEADER_VALUE.fullmatch(inner):
            raise ValueError(f"{name}: expected a value in printable ASCII")
    return value


Positive = Annotated[float, Meta(gt=0)]
Url = Annotated[str, Meta(extra={BEFORE: _url})]
SessionLink = Annotated[str, Meta(extra={BEFORE: _link_with("session", "namespace")})]
AlertLink = Annotated[str, Meta(extra={BEFORE: _link_with("alert")})]
TraceLink = Annotated[str, Meta(extra={BEFORE: _link_with("trace_id", "span_id", "session")})]
Address = Annotated[str, Meta(extra={BEFORE: _address})]
Names = Annotated[tuple[str, ...], Meta(extra={BEFORE: _several})]


class Tls(_Section, frozen=True):
    """Certificates of a listener, in PEM; read again when the files change."""

    cert: Annotated[
        Path | None, Meta(description="Certificate chain: with it, only TLS is spoken.")
    ] = None
    key: Annotated[Path | None, Meta(description="The certificate's key, not encrypted.")] = (
        None
    )
    client_ca: Annotated[
        Path | None,
        Meta(description="Authorities: only clients with a certificate of theirs (mTLS)."),
    ] = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("expected both cert and key, or neither")
        if self.client_ca is not None and self.cert is None:
            raise ValueError("client_ca needs cert and key")


class TokenLimits(_Section, frozen=True):
    """What the sender with each token's name may take; empty: as much as there is."""

    requests_per_second: Annotated[
        Positive | None,
        Meta(description="Of each token's name; beyond it, try again later (429)."),
    ] = None
    bytes_per_second: Annotated[
        Positive | None,
        Meta(description="Of each token's name; beyond it, try again later (429)."),
    ] = None
    inflight_bytes: Annotated[
        Annotated[int, Meta(ge=1024)] | None,
        Meta(description="Bodies being read or judged, of each token's name."),
    ] = None


class Bearer(_Section, frozen=True):
    """Bearer tokens."""

    tokens_file: Annotated[
        Path | None,
        Meta(description="`token` or `name: token` a line: only who has one may send."),
    ] = None
    limits: Annotated[TokenLimits, Meta(description="Limits of each sender.")] = TokenLimits()

    def __post_init__(self) -> None:
        if self.tokens_file is None and self.limits != TokenLimits():
            raise ValueError("limits are of tokens: expected a tokens_file")


class Auth(_Section, frozen=True):
    """Who may send."""

    bearer: Annotated[Bearer, Meta(description="Bearer tokens.")] = Bearer()


class Cors(_Section, frozen=True):
    """Browsers that may send."""

    origins: Annotated[
        Names,
        Meta(description="Origins of pages, as `https://*.example.com`; none: no browser may."),
    ] = ()


class Keepalive(_Section, frozen=True):
    """How long connections live; null: without a bound, but for gRPC's usual one on pings."""

    ping_seconds: Annotated[
        Positive | None,
        Meta(description="gRPC: a silent client is asked so often if it is there."),
    ] = None
    ping_timeout_seconds: Annotated[
        Positive | None, Meta(description="gRPC: it has so long to answer.")
    ] = None
    ping_min_seconds: Annotated[
        Positive | None,
        Meta(
            description="gRPC: a client that asks us more often is sent away; unset, more often"
            " than every five minutes, as gRPC's own servers do it."
        ),
    ] = None
    max_idle_seconds: Annotated[
        Positive | None,
        Meta(description="gRPC: a connection without calls is closed after so long."),
    ] = 300.0
    max_age_seconds: Annotated[
        Positive | None,
        Meta(description="A connection is closed after so long, to spread load anew."),
    ] = None
    max_age_grace_seconds: Annotated[
        Positive | None,
        Meta(description="gRPC: open calls of such a connection may go on for so long."),
    ] = None


class Receiver(_Section, frozen=True):
    """The OTLP listeners."""

    grpc: Annotated[
        Address, Meta(description="OTLP over gRPC: HOST:PORT, unix:PATH or off.")
    ] = "127.0.0.1:4317"
    grpc_server: Annotated[
        Literal["builtin", "grpcio"],
        Meta(
            description="Which server speaks gRPC: our own, or grpcio's (`pip install 'offrails[grpcio]'`)."
        ),
    ] = "builtin"
    http: Annotated[
        Address, Meta(description="OTLP over HTTP: HOST:PORT, unix:PATH or off.")
    ] = "127.0.0.1:4318"
    max_request_bytes: Annotated[
        int, Meta(ge=1024, description="Largest request, also after decompression.")
    ] = 64 * 1024 * 1024
    max_attribute_bytes: Annotated[
        int,
        Meta(
            ge=VALUE_BYTES_MIN,
            description="Largest attribute value that is read; a larger one counts as not known.",
        ),
    ] = VALUE_BYTES_MAX
    max_inflight_bytes: Annotated[
        int, Meta(ge=1024, description="Bodies being read; beyond it, try again later.")
    ] = 256 * 1024 * 1024
    max_inflight_requests: Annotated[
        int, Meta(ge=1, description="Requests being read; beyond it, try again later.")
    ] = 16_384
    max_connections: Annotated[
        int,
        Meta(ge=1, description="Of each listener; beyond it the slowest client's is closed."),
    ] = 16_384
    head_seconds: Annotated[
        float, Meta(gt=0, description="A client has so long for the headers of a request.")
    ] = 10.0
    body_seconds: Annotated[float, Meta(gt=0, description="And so long for its body.")] = 60.0
    tls: Annotated[Tls, Meta(description="Certificates.")] = Tls()
    auth: Annotated[Auth, Meta(description="Who may send.")] = Auth()
    names: Annotated[
        Names,
        Meta(
            description="Names that HTTP senders may call us by (Host), beside those of loopback and addresses; empty: any, unless it is on loopback."
        ),
    ] = ()
    cors: Annotated[Cors, Meta(description="Which browsers may send.")] = Cors()
    keepalive: Annotated[Keepalive, Meta(description="How long connections live.")] = (
        Keepalive()
    )
    reflection: Annotated[
        bool, Meta(description="gRPC clients may ask which services there are.")
    ] = False


class Sessions(_Section, frozen=True):
    """What a session is, and how long it lives."""

    max: Annotated[
        int, Meta(ge=1, description="Live sessions; beyond it the least recent is evicted.")
    ] = 100_000
    max_bytes: Annotated[
        int,
        Meta(
            ge=1 << 20,
            description="What live sessions may take, about; beyond it the least recent is evicted, of the tenant that holds more than its share.",
        ),
    ] = SESSION_BYTES_MAX
    max_argument_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Of the arguments that are held for further spans of the same calls, about; beyond it the largest and oldest are given up, of the tenant that holds most. What was judged stays.",
        ),
    ] = ARGUMENTS_BYTES_MAX
    idle_seconds: Annotated[
        float, Meta(gt=0, description="A session without calls for so long has ended.")
    ] = 1800.0
    window_seconds: Annotated[
        float,
        Meta(ge=0, description="A verdict is final this long after its call was received."),
    ] = 10.0
    remember_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description="The state of an ended session is kept for so long after its end, in case that it goes on; later it is read as joined in the middle.",
        ),
    ] = 86400.0
    hold_seconds: Annotated[
        float, Meta(ge=0, description="A finished session counts in the gauges for so long.")
    ] = 300.0
    id_attributes: Annotated[
        Names, Meta(description="Where a session's id may be, best first; else the trace id.")
    ] = SESSION_KEYS
    agent_attributes: Annotated[
        Names, Meta(description="Where an agent's name may be, best first; else service.name.")
    ] = AGENT_KEYS
    requested: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="Judge calls that models ask for: auto, where an agent's tools leave no spans."
        ),
    ] = "auto"
    namespace_attributes: Annotated[
        Names, Meta(description="Resource attributes that keep tenants' sessions apart.")
    ] = NAMESPACE_KEYS
    span_attributes_bind: Annotated[
        Names,
        Meta(
            description="Attributes of which a span's own overrules its resource's, where specs bind on them."
        ),
    ] = ()


class Reload(_Section, frozen=True):
    """Specs that change while the service runs."""

    watch: Annotated[bool, Meta(description="Read specs anew when their files change.")] = True


class HttpClient(_Section, frozen=True):
    """How a sink's receiver is reached; files are read again when they change."""

    username: Annotated[
        str, Meta(description="Basic authentication; user and password in the URL do the same.")
    ] = ""
    password_file: Annotated[Path | None, Meta(description="The password of `username`.")] = (
        None
    )
    bearer_token_file: Annotated[
        Path | None, Meta(description="A token, sent as `Authorization: Bearer`.")
    ] = None
    ca_file: Annotated[
        Path | None,
        Meta(description="Authorities (PEM) of the receiver's certificate; else the system's."),
    ] = None
    client_cert_file: Annotated[
        Path | None, Meta(description="Certificate (PEM) to show to the receiver (mTLS).")
    ] = None
    client_key_file: Annotated[
        Path | None,
        Meta(description="Its key, not encrypted; unset, it is in the certificate's file."),
    ] = None
    proxy: Annotated[
        str,
        Meta(
            extra={BEFORE: _proxy},
            description="http:// or https:// URL of a proxy, or off; unset, as the environment says"
            " (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), never for loopback.",
        ),
    ] = ""
    headers: Annotated[
        dict[str, str],
        Meta(extra={BEFORE: _headers}, description="More headers: `name=value` in a variable."),
    ] = {}

    def __post_init__(self) -> None:
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

    @property
    def has_credentials(self) -> bool:
        """True where a user or a token is set."""
        return bool(self.username) or self.bearer_token_file is not None


class Webhook(_Section, frozen=True):
    """A receiver of pages, in the form of Alertmanager's webhook."""

    url: Annotated[
        Url, Meta(description="Where pages of specs in `mode: page` are posted.")
    ] = ""
    secret: Annotated[
        str, Meta(description="Signs the body: header x-offrails-signature-256, HMAC-SHA256.")
    ] = ""


class Alerts(_Section, frozen=True):
    """What leaves at once when a call is harmful. Only specs in `mode: page` page."""

    alertmanager: Annotated[
        Annotated[tuple[Url, ...], Meta(extra={BEFORE: _several})],
        Meta(description="Base URLs of Alertmanagers; each is told of every page."),
    ] = ()
    alertmanager_http: HttpClient = HttpClient()
    webhook: Webhook = Webhook()
    webhook_http: HttpClient = HttpClient()
    jsonl: Annotated[
        Path | None,
        Meta(description="File to which harmful verdicts are appended, as JSON lines."),
    ] = None
    otlp_endpoint: Annotated[
        Url,
        Meta(
            description="OTLP/HTTP receiver of log events (`gen_ai.evaluation.result`); needs `offrails[otlp]`."
        ),
    ] = ""
    otlp_http: HttpClient = HttpClient()
    settle_seconds: Annotated[
        float,
        Meta(
            ge=0, description="A page waits so long where an earlier call may still revise it."
        ),
    ] = 0.5
    repeat_seconds: Annotated[
        float, Meta(gt=0, description="Alertmanager is told again so often while a page fires.")
    ] = 60.0
    pages_per_minute: Annotated[
        int,
        Meta(
            ge=1,
            description="New pages in a minute, a quarter of them for critical ones alone; more wait, and are counted.",
        ),
    ] = 60
    queue: Annotated[
        int,
        Meta(
            ge=1, description="Messages that wait for a sink; beyond it the oldest are dropped."
        ),
    ] = 1000
    timeout_seconds: Annotated[
        float, Meta(gt=0, description="For one whole request to a sink.")
    ] = 5.0
    session_url: Annotated[
        SessionLink,
        Meta(description="Where a session is shown: a link with {session} and {namespace}."),
    ] = ""
    runbook_url: Annotated[
        AlertLink, Meta(description="Where a runbook is: a link with {alert}.")
    ] = ""

    def __post_init__(self) -> None:
        clients = {
            "alertmanager": (self.alertmanager, self.alertmanager_http),
            "webhook": ((self.webhook.url,), self.webhook_http),
            "otlp": ((self.otlp_endpoint,), self.otlp_http),
        }
        for name, (urls, client) in clients.items():
            if client.has_credentials and any("@" in urlsplit(url).netloc for url in urls):
                raise ValueError(f"expected the user in the URL or in {name}_http, not both")


def _silent() -> Any:
    """RE2 says itself what is wrong with an expression, in a log of its own: we say it."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return options


def _expressions(value: Any) -> Any:
    value = _several(value)
    for pattern in value if isinstance(value, list) else ():
        import re2  # only who has something to hide pays for it

        try:
            if isinstance(pattern, str):
                re2.compile(pattern, _silent())
        except re2.error:
            raise ValueError(f"{pattern!r} is no RE2 expression") from None
    return value


Expressions = Annotated[tuple[str, ...], Meta(extra={BEFORE: _expressions})]


class Record(_Section, frozen=True):
    """Accepted trace requests kept as OTLP/JSON lines, for `learn` and `replay`."""

    folder: Annotated[
        Path | None, Meta(description="Where to; empty: nothing is recorded.")
    ] = None
    file_bytes: Annotated[
        int, Meta(ge=1, description="A file is closed at this size, uncompressed.")
    ] = 64 * 1024 * 1024
    age_seconds: Annotated[float, Meta(gt=0, description="Or when it is so old.")] = 3600.0
    total_bytes: Annotated[
        int, Meta(ge=1, description="Of all files; beyond it the oldest go.")
    ] = 1024 * 1024 * 1024
    redact: Annotated[
        Expressions,
        Meta(description="RE2 expressions: what they match in a text or a number is replaced."),
    ] = ()


class LogLines(_Section, frozen=True):
    """How many lines of the log agents may cause; what is left out is counted and told."""

    verdict_lines_per_second: Annotated[
        Positive,
        Meta(
            description="Harmful calls of one agent under one spec, and alarms: more are counted in one line."
        ),
    ] = 1.0
    session_lines_per_second: Annotated[
        Positive,
        Meta(
            description="Ends of sessions of one agent under one spec, and new agents of one namespace: likewise."
        ),
    ] = 10.0
    namespace_lines_per_second: Annotated[
        Positive,
        Meta(description="Lines of each of these kinds of one namespace, whatever its agents."),
    ] = 50.0
    burst_seconds: Annotated[
        Positive,
        Meta(description="Who was quiet may cause the lines of so many seconds at once."),
    ] = 10.0


class Redact(_Section, frozen=True):
    """What is taken out of all that is shown, sent, logged or recorded; RE2 expressions."""

    replace: Annotated[
        Expressions,
        Meta(description="What they match becomes `[redacted]`; in names, a digest."),
    ] = ()
    hash: Annotated[
        Expressions,
        Meta(description="What they match becomes a digest: equal texts stay equal."),
    ] = ()
    key_file: Annotated[
        Path | None,
        Meta(description="Key of the digests, to be the same after a restart; else by chance."),
    ] = None


class Settings(_Section, frozen=True):
    """Everything a user can set."""

    specs: Annotated[
        Annotated[tuple[Path, ...], Meta(extra={BEFORE: _paths})],
        Meta(description="Spec files and folders (read recursively)."),
    ] = ()
    reload: Reload = Reload()
    receiver: Receiver = Receiver()
    metrics: Annotated[Address, Meta(description="/metrics and health: HOST:PORT or off.")] = (
        "127.0.0.1:9464"
    )
    metrics_names: Annotated[
        Names,
        Meta(
            description="Names that /metrics answers to (Host), beside those of loopback and addresses; empty: any, unless it is on loopback."
        ),
    ] = ()
    metrics_pairs_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Pairs of agent and spec with series of their own (100 to 150 each); more fold into `__overflow__`. A quarter more is for tenants with few.",
        ),
    ] = 2_000
    metrics_namespace_label: Annotated[
        Literal["auto", "always", "never"],
        Meta(
            description="The label `namespace` on families by agent and spec. auto: where tokens are asked for, and else from the moment a second namespace is seen; never: the sums of all are one."
        ),
    ] = "auto"
    admin: Annotated[
        Address, Meta(description="The API: HOST:PORT or off; keep it on loopback.")
    ] = "127.0.0.1:4319"
    metrics_tls: Annotated[Tls, Meta(description="Certificates of the metrics listener.")] = (
        Tls()
    )
    admin_tls: Annotated[Tls, Meta(description="Certificates of the admin listener.")] = Tls()
    sessions: Sessions = Sessions()
    history: Annotated[
        Literal["auto", "complete"],
        Meta(
            description="complete: every session is seen from its first call, whatever its spans' times."
        ),
    ] = "auto"
    admin_names: Annotated[
        Names,
        Meta(
            description="Names the API answers to beside those of loopback; empty: any, unless it is on loopback."
        ),
    ] = ()
    trace_url: Annotated[
        TraceLink,
        Meta(
            description="Where a trace is shown: a link with {trace_id}, and {span_id} or {session}."
        ),
    ] = ""
    alerts: Alerts = Alerts()
    record: Annotated[Record, Meta(description="Accepted trace requests, kept.")] = Record()
    redact: Annotated[Redact, Meta(description="What nobody is to see.")] = Redact()
    show_arguments: Annotated[
        bool, Meta(description="Keep calls' arguments and show them in the API.")
    ] = False
    drain_seconds: Annotated[
        float, Meta(ge=0, description="Time for open requests when stopping.")
    ] = 5.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="Lowest level that is logged."),
    ] = "info"
    log: Annotated[LogLines, Meta(description="How many lines agents may cause.")] = LogLines()

    def __post_init__(self) -> None:
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
            line, column = document.place(wrong)
            key = ".".join(wrong)
            raise SettingsError(f"{file}:{line}:{column}: {key}: expected a mapping of keys")
    settings, faults = shaped(Settings, data, lenient=True)
    told = (
        [_told(faults, document, file, _origin(environ, options))] if settings is None else []
    )
    told += _misspelt(environ)
    if settings is None or told:
        raise SettingsError("\n".join(told))
    return settings


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
    return "there is no such setting" if fault.kind == "unknown" else fault.said
