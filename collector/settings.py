"""All user configuration: a YAML file, `OFFRAILS_*` variables, and options, in rising order.

Unknown keys are refused, and every problem is told with its file, line and key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import re2
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from collector.decode.sizes import VALUE_BYTES_MAX, VALUE_BYTES_MIN
from collector.dialects.choose import AGENT_KEYS, SESSION_KEYS
from collector.receivers.address import parse_address
from collector.sessions import NAMESPACE_KEYS
from monitor.spec.document import Document, parse

__all__ = ["ENVIRONMENT", "Settings", "SettingsError", "load"]

OFF = "off"
PREFIX = "OFFRAILS_"


class SettingsError(Exception):
    """The configuration cannot be used; the message says where and what was expected."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _address(value: Any) -> Any:
    # YAML 1.2 leaves `off` a text; a boolean is what a JSON file may hold.
    if value is False or (isinstance(value, str) and value.lower() == OFF):
        return OFF
    if not isinstance(value, str):
        raise ValueError("expected HOST:PORT, unix:PATH or off")  # noqa: TRY004 - pydantic's way
    parse_address(value)
    return value


def _several(value: Any) -> Any:
    return [part for part in value.split(",") if part] if isinstance(value, str) else value


def _link(value: Any) -> Any:
    if isinstance(value, str) and value and not value.startswith(("https://", "http://", "/")):
        raise ValueError("expected a link that begins with https://, http:// or /")
    return value


def _url(value: Any) -> Any:
    if isinstance(value, str) and value:
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or not value.isascii():
            raise ValueError("expected a URL that begins with http:// or https://")
        if any(char.isspace() for char in value):
            raise ValueError("expected a URL without spaces")
    return value


Url = Annotated[str, BeforeValidator(_url)]
Link = Annotated[str, BeforeValidator(_link)]
Address = Annotated[str, BeforeValidator(_address)]
Names = Annotated[tuple[str, ...], BeforeValidator(_several)]


class Tls(_Section):
    """Certificates of a listener, in PEM; read again when the files change."""

    cert: Path | None = Field(
        None, description="Certificate chain: with it, only TLS is spoken."
    )
    key: Path | None = Field(None, description="The certificate's key, not encrypted.")
    client_ca: Path | None = Field(
        None, description="Authorities: only clients with a certificate of theirs (mTLS)."
    )

    @model_validator(mode="after")
    def _whole(self) -> Tls:
        if (self.cert is None) != (self.key is None):
            raise ValueError("expected both cert and key, or neither")
        if self.client_ca is not None and self.cert is None:
            raise ValueError("client_ca needs cert and key")
        return self


class TokenLimits(_Section):
    """What the sender with each token's name may take; empty: as much as there is."""

    requests_per_second: float | None = Field(
        None, gt=0, description="Of each token's name; beyond it, try again later (429)."
    )
    bytes_per_second: float | None = Field(
        None, gt=0, description="Of each token's name; beyond it, try again later (429)."
    )
    inflight_bytes: int | None = Field(
        None, ge=1024, description="Bodies being read or judged, of each token's name."
    )


class Bearer(_Section):
    """Bearer tokens."""

    tokens_file: Path | None = Field(
        None, description="`token` or `name: token` a line: only who has one may send."
    )
    limits: TokenLimits = Field(TokenLimits(), description="Limits of each sender.")

    @model_validator(mode="after")
    def _limited(self) -> Bearer:
        if self.tokens_file is None and self.limits != TokenLimits():
            raise ValueError("limits are of tokens: expected a tokens_file")
        return self


class Auth(_Section):
    """Who may send."""

    bearer: Bearer = Field(Bearer(), description="Bearer tokens.")


class Cors(_Section):
    """Browsers that may send."""

    origins: Names = Field(
        (), description="Origins of pages, as `https://*.example.com`; none: no browser may."
    )


class Keepalive(_Section):
    """How long connections live; empty: without a bound, but for gRPC's usual one on pings."""

    ping_seconds: float | None = Field(
        None, gt=0, description="gRPC: a silent client is asked so often if it is there."
    )
    ping_timeout_seconds: float | None = Field(
        None, gt=0, description="gRPC: it has so long to answer."
    )
    ping_min_seconds: float | None = Field(
        None, gt=0, description="gRPC: a client that asks us more often is sent away."
    )
    max_idle_seconds: float | None = Field(
        None, gt=0, description="gRPC: a connection without calls is closed after so long."
    )
    max_age_seconds: float | None = Field(
        None, gt=0, description="A connection is closed after so long, to spread load anew."
    )
    max_age_grace_seconds: float | None = Field(
        None, gt=0, description="gRPC: open calls of such a connection may go on for so long."
    )


class Receiver(_Section):
    """The OTLP listeners."""

    grpc: Address = Field(
        "127.0.0.1:4317", description="OTLP over gRPC: HOST:PORT, unix:PATH or off."
    )
    http: Address = Field(
        "127.0.0.1:4318", description="OTLP over HTTP: HOST:PORT, unix:PATH or off."
    )
    max_request_bytes: int = Field(
        64 * 1024 * 1024, ge=1024, description="Largest request, also after decompression."
    )
    max_attribute_bytes: int = Field(
        VALUE_BYTES_MAX,
        ge=VALUE_BYTES_MIN,
        description="Largest attribute value that is read; a larger one counts as not known.",
    )
    max_inflight_bytes: int = Field(
        256 * 1024 * 1024, ge=1024, description="Bodies being read; beyond it, try again later."
    )
    max_inflight_requests: int = Field(
        16_384, ge=1, description="Requests being read; beyond it, try again later."
    )
    max_connections: int = Field(
        16_384, ge=1, description="Of each listener; beyond it the slowest client's is closed."
    )
    head_seconds: float = Field(
        10, gt=0, description="A client has so long for the headers of a request."
    )
    body_seconds: float = Field(60, gt=0, description="And so long for its body.")
    tls: Tls = Field(Tls(), description="Certificates.")
    auth: Auth = Field(Auth(), description="Who may send.")
    cors: Cors = Field(Cors(), description="Which browsers may send.")
    keepalive: Keepalive = Field(Keepalive(), description="How long connections live.")
    reflection: bool = Field(
        default=False, description="gRPC clients may ask which services there are."
    )


class Sessions(_Section):
    """What a session is, and how long it lives."""

    max: int = Field(
        100_000, ge=1, description="Live sessions; beyond it the least recent is evicted."
    )
    idle_seconds: float = Field(
        1800, gt=0, description="A session without calls for so long has ended."
    )
    window_seconds: float = Field(
        10, ge=0, description="A verdict is final this long after its call was received."
    )
    hold_seconds: float = Field(
        300, ge=0, description="A finished session counts in the gauges for so long."
    )
    id_attributes: Names = Field(
        SESSION_KEYS, description="Where a session's id may be, best first; else the trace id."
    )
    agent_attributes: Names = Field(
        AGENT_KEYS, description="Where an agent's name may be, best first; else service.name."
    )
    requested: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Judge calls that models ask for: auto, where an agent's tools leave no spans.",
    )
    namespace_attributes: Names = Field(
        NAMESPACE_KEYS, description="Resource attributes that keep tenants' sessions apart."
    )


class Reload(_Section):
    """Specs that change while the service runs."""

    watch: bool = Field(default=True, description="Read specs anew when their files change.")


class Webhook(_Section):
    """A receiver of pages, in the form of Alertmanager's webhook."""

    url: Url = Field("", description="Where pages of specs in `mode: page` are posted.")
    secret: str = Field(
        "", description="Signs the body: header x-offrails-signature-256, HMAC-SHA256."
    )


class Alerts(_Section):
    """What leaves at once when a call is harmful. Only specs in `mode: page` page."""

    alertmanager: Annotated[tuple[Url, ...], BeforeValidator(_several)] = Field(
        (), description="Base URLs of Alertmanagers; each is told of every page."
    )
    webhook: Webhook = Webhook()
    jsonl: Path | None = Field(
        None, description="File to which harmful verdicts are appended, as JSON lines."
    )
    otlp_endpoint: Url = Field(
        "",
        description="OTLP/HTTP receiver of log events (`gen_ai.evaluation.result`); needs `offrails[otlp]`.",
    )
    settle_seconds: float = Field(
        0.5, ge=0, description="A page waits so long where an earlier call may still revise it."
    )
    repeat_seconds: float = Field(
        60, gt=0, description="Alertmanager is told again so often while a page fires."
    )
    pages_per_minute: int = Field(
        60, ge=1, description="New pages in a minute; more are withheld, and counted."
    )
    queue: int = Field(
        1000,
        ge=1,
        description="Messages that wait for a sink; beyond it the oldest are dropped.",
    )
    timeout_seconds: float = Field(5, gt=0, description="For one whole request to a sink.")
    session_url: Link = Field(
        "", description="Where a session is shown: a link with {session} and {namespace}."
    )
    runbook_url: Link = Field("", description="Where a runbook is: a link with {alert}.")


def _expressions(value: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in value:
        try:
            re2.compile(pattern)
        except re2.error:
            raise ValueError(f"{pattern!r} is no RE2 expression") from None
    return value


class Record(_Section):
    """Accepted trace requests kept as OTLP/JSON lines, for `learn` and `replay`."""

    folder: Path | None = Field(None, description="Where to; empty: nothing is recorded.")
    file_bytes: int = Field(
        64 * 1024 * 1024, ge=1, description="A file is closed at this size, uncompressed."
    )
    age_seconds: float = Field(3600, gt=0, description="Or when it is so old.")
    total_bytes: int = Field(
        1024 * 1024 * 1024, ge=1, description="Of all files; beyond it the oldest go."
    )
    redact: Annotated[Names, AfterValidator(_expressions)] = Field(
        (), description="RE2 expressions: what they match in a text or a number is replaced."
    )


Expressions = Annotated[Names, AfterValidator(_expressions)]


class Redact(_Section):
    """What is taken out of all that is shown, sent, logged or recorded; RE2 expressions."""

    replace: Expressions = Field(
        (), description="What they match becomes `[redacted]`; in names, a digest."
    )
    hash: Expressions = Field(
        (), description="What they match becomes a digest: equal texts stay equal."
    )
    key_file: Path | None = Field(
        None, description="Key of the digests, to be the same after a restart; else by chance."
    )


class Settings(_Section):
    """Everything a user can set."""

    specs: Annotated[tuple[Path, ...], BeforeValidator(_several)] = Field(
        (), description="Spec files and folders (read recursively)."
    )
    reload: Reload = Reload()
    receiver: Receiver = Receiver()
    metrics: Address = Field(
        "127.0.0.1:9464", description="/metrics and health: HOST:PORT or off."
    )
    metrics_pairs_max: int = Field(
        2_000,
        ge=1,
        description="Pairs of agent and spec with series of their own (100 to 150 each); more fold into `__overflow__`.",
    )
    admin: Address = Field(
        "127.0.0.1:4319", description="The API: HOST:PORT or off; keep it on loopback."
    )
    metrics_tls: Tls = Field(Tls(), description="Certificates of the metrics listener.")
    admin_tls: Tls = Field(Tls(), description="Certificates of the admin listener.")
    sessions: Sessions = Sessions()
    history: Literal["auto", "complete"] = Field(
        "auto",
        description="complete: every session is seen from its first call, whatever its spans' times.",
    )
    admin_names: Names = Field(
        (),
        description="Names the API answers to beside those of loopback; empty: any, unless it is on loopback.",
    )
    trace_url: Link = Field(
        "",
        description="Where a trace is shown: a link with {trace_id}, and {span_id} or {session}.",
    )
    alerts: Alerts = Alerts()
    record: Record = Field(Record(), description="Accepted trace requests, kept.")
    redact: Redact = Field(Redact(), description="What nobody is to see.")
    show_arguments: bool = Field(
        default=False, description="Keep calls' arguments and show them in the API."
    )
    drain_seconds: float = Field(5, ge=0, description="Time for open requests when stopping.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged."
    )


def _leaves(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _leaves(inner, (*path, name))
        else:
            yield (*path, name)


ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    **{PREFIX + "_".join(path).upper(): path for path in _leaves(Settings)},
    f"{PREFIX}GRPC": ("receiver", "grpc"),
    f"{PREFIX}HTTP": ("receiver", "http"),
}
"""Variable -> the setting it sets. The two listeners also have the short names of the options."""


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
    origin: dict[tuple[str, ...], str] = {}
    for name, path in ENVIRONMENT.items():
        if environ.get(name):
            value: Any = environ[name]
            if path == ("specs",):
                value = value.split(os.pathsep)
            _put(data, path, value)
            origin[path] = name
    for path, value in options.items():
        _put(data, path, value)
        origin[path] = "--" + path[-1].replace("_", "-")
    try:
        return Settings.model_validate(data)
    except ValidationError as problem:
        raise SettingsError(_told(problem, document, file, origin)) from None


def _read(file: Path) -> Document:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        raise SettingsError(f"{file}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{file}: expected UTF-8 text") from None
    document, findings = parse(text, str(file))
    if document is None or findings:
        raise SettingsError("\n".join(str(found) for found in findings))
    return document


def _put(data: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        inner = data.get(key)
        data[key] = inner if isinstance(inner, dict) else {}
        data = data[key]
    data[path[-1]] = value


def _told(
    problem: ValidationError,
    document: Document,
    file: Path | None,
    origin: Mapping[tuple[str, ...], str],
) -> str:
    """A line for each error: where, which key, what is wrong."""
    lines = []
    for error in problem.errors():
        path = tuple(part for part in error["loc"] if isinstance(part, str))
        where = next(
            (origin[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origin), None
        )
        if where is None:  # a fault of a section as a whole: who gave a part of it
            where = next(
                (origin[given] for given in origin if given[: len(path)] == path), None
            )
        if where is None:
            line, column = document.place(tuple(error["loc"]))
            where = f"{file}:{line}:{column}"
        lines.append(f"{where}: {'.'.join(path)}: {_wrong(error)}")
    return "\n".join(lines)


def _wrong(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such setting"
    return error["msg"].removeprefix("Value error, ")
