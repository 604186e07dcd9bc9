"""Who may send, ask, read and operate: certificates, tokens, roles."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from collector.config.field_types import (
    File,
    HeaderName,
    NamesByName,
    Networks,
    Positive,
    Roles,
    Whole,
)
from collector.config.section import SettingsSection

__all__ = [
    "AdminAuthSettings",
    "AdminBearerSettings",
    "AdminProxySettings",
    "AuthSettings",
    "BearerSettings",
    "TlsSettings",
    "TokenLimitSettings",
]


class TlsSettings(SettingsSection):
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


class TokenLimitSettings(SettingsSection):
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


class BearerSettings(SettingsSection):
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


class AuthSettings(SettingsSection):
    """Who may send."""

    bearer: Annotated[BearerSettings, Field(description="Bearer tokens.")] = BearerSettings()


class AdminBearerSettings(SettingsSection):
    """Bearer tokens of the admin listener."""

    tokens_file: Annotated[
        File | None,
        Field(
            description="File of accepted tokens, one per line: `token` or `name: token`. If set, the API, the session view and reload require a token. Browsers ask for it as a password."
        ),
    ] = None


class AdminProxySettings(SettingsSection):
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


class AdminAuthSettings(SettingsSection):
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
        """True if not everybody may ask."""
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
