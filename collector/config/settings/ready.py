"""When the process is ready."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from collector.config.field_types import Positive, Switch
from collector.config.section import SettingsSection

__all__ = ["ReadySettings"]


class ReadySettings(SettingsSection):
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
