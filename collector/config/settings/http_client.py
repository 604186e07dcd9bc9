"""Requests to other services: proxies, certificates, headers."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from collector.config.field_types import File, Headers, Proxy
from collector.config.section import SettingsSection

__all__ = ["HttpClientSettings"]


class HttpClientSettings(SettingsSection):
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
        """True if a user or a token is set."""
        return bool(self.username) or self.bearer_token_file is not None

    @property
    def plain_headers(self) -> dict[str, str]:
        """The additional headers, to be sent."""
        return {name: value.get_secret_value() for name, value in self.headers.items()}
