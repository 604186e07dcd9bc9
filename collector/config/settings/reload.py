"""When specs are read again."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from collector.config.field_types import Switch
from collector.config.section import SettingsSection

__all__ = ["ReloadSettings"]


class ReloadSettings(SettingsSection):
    """Specs that change while the service runs."""

    watch: Annotated[
        Switch,
        Field(
            description="Reloads specs when their files change. If false, reload with SIGHUP or `POST /-/reload`."
        ),
    ] = True
