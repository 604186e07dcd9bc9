"""The listener that answers before calls."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from collector.calls.decisions.decided_calls import BYTES_MAX as DECIDED_BYTES_MAX
from collector.config.field_types import Address, Names, Number, Whole
from collector.config.section import SettingsSection
from collector.config.settings.tls_and_auth import AuthSettings, TlsSettings

__all__ = ["DecideSettings"]


class DecideSettings(SettingsSection):
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
