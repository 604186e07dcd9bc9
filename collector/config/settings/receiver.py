"""The OTLP listeners."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from collector.config.field_types import Address, Names, Number, Positive, Switch, Whole
from collector.config.section import SettingsSection
from collector.config.settings.tls_and_auth import AuthSettings, TlsSettings
from collector.decode.sizes import VALUE_BYTES_MAX, VALUE_BYTES_MIN

__all__ = ["CorsSettings", "KeepaliveSettings", "ReceiverSettings"]


class CorsSettings(SettingsSection):
    """Browsers that may send."""

    origins: Annotated[
        Names,
        Field(
            description="Origins of web pages that may send, such as `https://*.example.com`. If empty, browsers may not send."
        ),
    ] = ()


class KeepaliveSettings(SettingsSection):
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


class ReceiverSettings(SettingsSection):
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
